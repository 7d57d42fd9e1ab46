"""What a change would do, before it is requested. Pure.

A plan asks the functions that will decide: `commands.obey` whether the tracker would take the change,
`evidence` whom it concerns. It promises nothing: what comes later is not in it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from fractions import Fraction

from attrs import field, frozen

from kafka_partition_events.control.changes.commands import obey
from kafka_partition_events.control.changes.evidence import (
    ClusterView,
    Evidence,
    Fleet,
    evidence,
    is_up,
    live_producers,
)
from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.protocol.ledger import Appended, Ledger
from kafka_partition_events.control.protocol.records import Answer, Command, Given, Lease, group_name
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import GateRule, Verb
from kafka_partition_events.diagnose.fingerprint import MONOTONE, Fingerprint

STREAMS_ASSIGNOR = "stream"
"""The partition assignor of Kafka Streams."""


class Verdict(StrEnum):
    """What a plan comes to."""

    SAFE = "safe"
    EXPOSED = "exposed"
    """Records may be missed, or left behind: a group, a producer or the topic itself is not made for it."""
    WOULD_CAP = "would_cap"
    """A producer can't afford all partitions."""
    BLOCKED = "blocked"
    """The tracker would refuse it, or Kafka would make a part of it only."""


class Safety(StrEnum):
    """Why a group misses no record of a new partition, or why it may."""

    HOOK = "hook"
    """All of its members run the library's rebalance hook, which begins new partitions at their beginning."""
    GATE = "gate"
    """Producers wait until it has a position; without the hook on all members it is judged from outside."""
    ABSENT = "absent"
    """It has committed offsets and no members. With ``auto.offset.reset=latest`` it misses what comes to new
    partitions before it is back; no producer waits for it unless it is required by name."""
    EXPOSED = "exposed"
    """With ``auto.offset.reset=latest``, which can't be seen from outside, it misses what comes first."""
    STREAMS = "streams"
    """A Kafka Streams application: it ends with an error when a topic that it joins or groups by grows."""


@frozen(kw_only=True)
class GroupOutlook:
    """What a group may meet with.

    Attributes:
        group: The group.
        hooked: How many of its members run the hook.
        safety: Why it is safe, or that it is not.
    """

    group: Group
    hooked: int
    safety: Safety


@frozen(kw_only=True)
class KeyMoves:
    """What becomes of the keys that were placed by one rule.

    Attributes:
        rule: The hash; None: no known one.
        moves: Which part of these keys moves; exact for evenly spread hashes. None: that can't be known.
        share: Of the sampled keys' places, how much the rule explains, from 0 to 1.
    """

    rule: str | None
    moves: Fraction | None
    share: float


@frozen(kw_only=True)
class Plan:
    """What a change would do.

    Attributes:
        spec: The change.
        refusal: Why the tracker would refuse it; None if it would not.
        producers: How many producers with the library it concerns, that are live.
        without_limit: How many of them have no limit of what they afford.
        capped: Those that afford fewer partitions than there will be, and how many (KIP-34).
        uncovered: Writers without a lease, at least: no gate holds them. None: not known.
        exposed: Why records may be missed or left behind although every group is safe, in words.
        groups: The groups that read the topic, or did; None: they could not be asked for.
        strangers: Groups that are required, and neither read the topic nor did.
        keys: What becomes of keys, the most followed rule first; None: they were not read.
        unverified: Why all this may not be complete.
    """

    spec: Spec
    refusal: Answer | None
    producers: int
    without_limit: int
    capped: Mapping[str, int]
    uncovered: int | None
    exposed: tuple[str, ...]
    groups: tuple[GroupOutlook, ...] | None
    strangers: tuple[str, ...]
    keys: tuple[KeyMoves, ...] | None
    unverified: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """What it comes to; the gravest first."""
        if self.refusal is not None:
            return Verdict.BLOCKED
        if self.capped:
            return Verdict.WOULD_CAP
        exposed = any(one.safety in {Safety.EXPOSED, Safety.STREAMS} for one in self.groups or ())
        return Verdict.EXPOSED if exposed or self.exposed else Verdict.SAFE


@frozen(kw_only=True)
class Seen:
    """What was found out for a plan, beyond the control topics.

    Attributes:
        cluster: The topic as it is.
        groups: The groups that read it, or have committed offsets of it; None: they could not be asked for.
        keys: How its keys were placed; None: they were not read, or there are none.
        compacted: Whether the topic is compacted; None: not known.
    """

    cluster: ClusterView = field(factory=ClusterView)
    groups: Collection[Group] | None = None
    keys: Fingerprint | None = None
    compacted: bool | None = None


def plan(command: Command, ledger: Ledger, seen: Seen, now_ms: int) -> Plan:
    """Return what a request would do.

    Args:
        command: The request, with its specification.
        ledger: What is known of changes, leases and acks.
        seen: What was found out besides.
        now_ms: The time now by the brokers' clock.

    Raises:
        ValueError: the command is no request of a change.
    """
    spec = command.spec
    found = obey(Given(command, 0, now_ms), ledger.changes, seen.cluster, epoch=0, now_ms=now_ms)
    if command.verb is not Verb.REQUEST or spec is None or found.change is None:
        raise ValueError(f"{command} does not request a change")
    fleet = Fleet(leases=ledger.leases)
    live = [one.instance_id for one in live_producers(found.change, fleet, now_ms)]
    affords = {name: _affords(spec, ledger.leases[name].record) for name in live}
    known = evidence(found.change, fleet, seen.cluster, now_ms)
    keys = None if seen.keys is None else key_moves(spec, seen.keys)
    return Plan(
        spec=spec,
        refusal=found.refusal,
        producers=len(live),
        without_limit=[*affords.values()].count(None),
        capped={name: most for name, most in affords.items() if most is not None and most < spec.to_count},
        uncovered=known.totals.uncovered,
        exposed=tuple(_exposed(spec, known, keys, seen)),
        groups=None if seen.groups is None else tuple(_outlooks(spec, seen.groups, ledger.leases, now_ms)),
        strangers=() if seen.groups is None else tuple(_strangers(spec, seen.groups)),
        keys=keys,
        unverified=known.unverified,
    )


def _exposed(spec: Spec, known: Evidence, keys: Collection[KeyMoves] | None, seen: Seen) -> Iterator[str]:
    """Yield why a gate holds no writer, and why the topic is not made to grow."""
    if spec.gate is GateRule.CONSUMERS_FIRST and not known.totals.live:
        yield "no producer with the library uses the topic, so none waits at the gate"
    elif spec.gate is GateRule.CONSUMERS_FIRST and known.totals.uncovered:
        yield f"at least {known.totals.uncovered:,} writers without the library wait at no gate"
    if seen.compacted and keys and any(one.moves != 0 for one in keys):
        yield "the topic is compacted: the last value of a key that moves stays in its former partition"


def _affords(spec: Spec, lease: Lease) -> int | None:
    use = lease.use_of(spec.topic, spec.topic_id)
    return None if use is None else use.affords


# -- groups ------------------------------------------------------------------------------------------------


def _outlooks(
    spec: Spec, groups: Iterable[Group], leases: Mapping[str, Appended[Lease]], now_ms: int
) -> Iterator[GroupOutlook]:
    hooks = Counter(
        lease.record.group
        for lease in leases.values()
        if lease.record.cluster_id in {None, spec.cluster_id}
        and lease.record.use_of(spec.topic, spec.topic_id) is not None
        and lease.record.ttl_s
        and is_up(lease, now_ms)
    )
    for group in sorted(groups, key=lambda group: group.group_id):
        hooked = hooks[group.group_id]
        yield GroupOutlook(group=group, hooked=hooked, safety=_safety(spec, group, hooked))


def _strangers(spec: Spec, groups: Iterable[Group]) -> Iterator[str]:
    known = {group_name(group.group_id) for group in groups}
    yield from (name for name in spec.required_groups or () if name not in known)


def _safety(spec: Spec, group: Group, hooked: int) -> Safety:
    if group.assignor == STREAMS_ASSIGNOR:
        return Safety.STREAMS
    if hooked and hooked >= len(group.members):
        return Safety.HOOK
    by_name = group_name(group.group_id) in (spec.required_groups or ())
    if not group.members and not by_name:
        return Safety.ABSENT
    required = by_name or spec.required_groups is None
    # From outside, a group without commits has a position only if it may settle.
    waits = spec.gate is GateRule.CONSUMERS_FIRST and required and spec.settle_s > 0
    return Safety.GATE if waits else Safety.EXPOSED


# -- keys --------------------------------------------------------------------------------------------------


def moved_modulo(count: int, other: int) -> Fraction:
    """Return which part of the keys moves when a hash is taken modulo another number of partitions.

    A hash has the same remainder by both for ``min(count, other)`` of every ``lcm(count, other)`` values.
    """
    return 1 - Fraction(min(count, other), math.lcm(count, other))


def moved_monotone(count: int, other: int) -> Fraction:
    """Return which part of the keys a monotone hash moves: those to new partitions, or from gone ones."""
    return 1 - Fraction(min(count, other), max(count, other))


def key_moves(spec: Spec, found: Fingerprint) -> tuple[KeyMoves, ...]:
    """Return what a change does to the keys of a topic, for each rule by which they were placed.

    Keys from when there were other numbers of partitions are told apart only where that makes a difference.
    """
    shares = defaultdict[tuple[str | None, Fraction | None], float](float)
    for finding in found.findings:
        rule = None if finding.rule is None else finding.rule.hash_name
        moves = None
        if rule in MONOTONE:
            moves = moved_monotone(spec.from_count, spec.to_count)
        elif rule is not None and any(last >= spec.from_count for _, last in finding.counts):
            moves = moved_modulo(spec.from_count, spec.to_count)
        shares[rule, moves] += finding.share
    return tuple(KeyMoves(rule=rule, moves=moves, share=share) for (rule, moves), share in shares.items())
