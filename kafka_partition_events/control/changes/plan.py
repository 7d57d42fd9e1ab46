"""What a change would do, told before anybody asks for it. Pure.

A plan asks the functions that will decide: `requests.obey` whether the tracker would take the change,
`evidence` whom it concerns, `routing.budget.share_out` what each producer affords. It promises nothing: who
comes later is not in it.
"""

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from fractions import Fraction

from attrs import evolve, field, frozen

from kafka_partition_events.control.changes.commands import obey
from kafka_partition_events.control.changes.evidence import ClusterView, evidence
from kafka_partition_events.control.changes.followers import Fleet, followers
from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.protocol.ledger import Ledger, Tenancy
from kafka_partition_events.control.protocol.records import Capacity, Change, Command, Given, Lease, Refusal
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import (
    GateRule,
    Kind,
    LeaseState,
    Role,
    State,
    Status,
    Verb,
)
from kafka_partition_events.routing.budget import share_out
from kafka_partition_events.routing.fingerprint import MONOTONE, Finding, Fingerprint

_COUNTED = frozenset({Kind.INCREASE, Kind.DECREASE})
_AS_IT_SHOULD = frozenset({State.CONVERGED, State.PARTIALLY_CONVERGED})


class Verdict(StrEnum):
    """What a plan comes to."""

    SAFE = "safe"
    EXPOSED = "exposed"
    """A consumer group may miss records."""
    WOULD_CAP = "would_cap"
    """A producer can't afford all partitions, or would reject the change."""
    BLOCKED = "blocked"
    """The tracker would refuse it, or Kafka would make a part of it only."""


class Safety(StrEnum):
    """Why a group misses no record of a new partition, or why it may."""

    HOOK = "hook"
    """All of its members run the library's rebalance hook, which begins new partitions at their beginning."""
    GATE = "gate"
    """Producers wait until it has a position; without the hook on all members it is judged from outside."""
    NOTHING_NEW = "nothing_new"
    """No partition is new."""
    ABSENT = "absent"
    """It has committed offsets and no members. With ``auto.offset.reset=latest`` it misses what comes to new
    partitions before it is back; nobody waits for it unless it is required by name."""
    EXPOSED = "exposed"
    """With ``auto.offset.reset=latest``, which nobody can see from outside, it misses what comes first."""


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
class Capped:
    """A producer that affords fewer partitions than there will be; for unkeyed records only (KIP-34).

    Attributes:
        instance_id: Who.
        app: Its application.
        granted: How many partitions it would use.
        partial: Whether its lease leaves topics out, which want their share, too: then it may be fewer.
    """

    instance_id: str
    app: str
    granted: int
    partial: bool


@frozen(kw_only=True)
class KeyMoves:
    """What becomes of the keys that were placed by one rule.

    Attributes:
        rule: The hash; None: no known one.
        share: Of the sampled keys' places, how much the rule explains, from 0 to 1.
        moves: Which part of these keys moves; exact for evenly spread hashes. None: that can't be known.
        why: Why it can't.
    """

    rule: str | None
    share: float
    moves: Fraction | None
    why: str = ""


@frozen(kw_only=True)
class Expected:
    """How long changes of the same kind took, from when they had happened until they were finished.

    Attributes:
        changes: How many there were.
        median_s: Half of them took no more seconds,
        most_s: and nine of ten took no more than this.
    """

    changes: int
    median_s: float
    most_s: float


@frozen(kw_only=True)
class Plan:
    """What a change would do.

    Attributes:
        spec: The change.
        refusal: Why the tracker would refuse it; None if it would not.
        producers: How many producers with the library it concerns, that are there.
        without_limit: How many of them tell no limit of what they afford.
        capped: Those that would be capped.
        rejecting: Those that have rejected an earlier change of this topic.
        uncovered: Writers without a lease, at least: no gate holds them. None: not known.
        groups: The groups that read the topic, or did; None: nobody could be asked.
        strangers: Groups that are required, and neither read the topic nor did.
        keys: What becomes of keys, the most followed rule first; None: nobody has looked.
        expected: How long it may take; None: there is no such change to learn from.
        unverified: Why all this may not be complete.
    """

    spec: Spec
    refusal: Refusal | None
    producers: int
    without_limit: int
    capped: tuple[Capped, ...]
    rejecting: tuple[str, ...]
    uncovered: int | None
    groups: tuple[GroupOutlook, ...] | None
    strangers: tuple[str, ...]
    keys: tuple[KeyMoves, ...] | None
    expected: Expected | None
    unverified: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """What it comes to; the gravest first."""
        if self.refusal is not None:
            return Verdict.BLOCKED
        if self.capped or self.rejecting:
            return Verdict.WOULD_CAP
        exposed = any(outlook.safety is Safety.EXPOSED for outlook in self.groups or ())
        return Verdict.EXPOSED if exposed else Verdict.SAFE


@frozen(kw_only=True)
class Seen:
    """What was found out for a plan, beyond the control topics.

    Attributes:
        cluster: The topic as it is.
        groups: The groups that read it, or have committed offsets of it; None: nobody could be asked.
        keys: How its keys were placed; None: nobody has looked, or there are none.
    """

    cluster: ClusterView = field(factory=ClusterView)
    groups: Collection[Group] | None = None
    keys: Fingerprint | None = None


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
    given = Given(command, 0, now_ms)
    told = obey(given, ledger.changes, seen.cluster, epoch=0, now_ms=now_ms)
    if command.verb is not Verb.REQUEST or spec is None or told.change is None:
        raise ValueError(f"{command} does not request a change")
    fleet = Fleet(tenancies=ledger.tenancies)
    here = [f.instance_id for f in followers(told.change, fleet, now_ms) if not f.departed]
    leases = [ledger.tenancies[name].holder.record for name in here]
    known = evidence(told.change, fleet, seen.cluster, now_ms)
    return Plan(
        spec=spec,
        refusal=told.refusal,
        producers=len(leases),
        without_limit=sum(_is_unlimited(spec, lease) for lease in leases),
        capped=tuple(capped(spec, leases)),
        rejecting=tuple(name for name in here if name in _rejecters(spec, ledger)),
        uncovered=known.totals.uncovered,
        groups=None if seen.groups is None else _outlooks(spec, seen.groups, ledger.tenancies, now_ms),
        strangers=() if seen.groups is None else _strangers(spec, seen.groups),
        keys=None if seen.keys is None else key_moves(spec, seen.keys),
        expected=expected(spec, ledger.changes.values()),
        unverified=known.unverified,
    )


# -- producers ---------------------------------------------------------------------------------------------


def capped(spec: Spec, leases: Iterable[Lease]) -> list[Capped]:
    """Return the producers that a growth would cap, by the formula of `BufferBudget`."""
    if spec.kind is not Kind.INCREASE:
        return []
    found = []
    for lease in leases:
        granted = _granted(spec, lease)
        if granted < spec.to_count:
            name, partial = lease.instance_id, lease.topics_left_out > 0
            found.append(Capped(instance_id=name, app=lease.app, granted=granted, partial=partial))
    return found


def _is_unlimited(spec: Spec, lease: Lease) -> bool:
    use = lease.use_of(spec.topic, spec.topic_id)
    return lease.capacity == Capacity() and (use is None or use.max_partitions is None)


def _granted(spec: Spec, lease: Lease) -> int:
    topic = spec.topic or ""
    seen = {use.topic: use.seen for use in lease.view} | {topic: spec.to_count}
    most = {use.topic: use.max_partitions for use in lease.view}
    wanted = {name: min(count, most.get(name) or count) for name, count in seen.items()}
    affordable = _affordable(lease)
    if affordable is None:
        return wanted[topic]
    # What a topic has been granted stays granted; growth gets what is left.
    held = dict.fromkeys(wanted, 0) | {use.topic: min(use.used, wanted[use.topic]) for use in lease.view}
    return share_out(affordable, wanted, held)[topic]


def _affordable(lease: Lease) -> int | None:
    memory, batch = lease.capacity.buffer_memory, lease.capacity.batch_size
    return None if memory is None or not batch else memory // batch


def _rejecters(spec: Spec, ledger: Ledger) -> set[str]:
    """Return who has rejected the same of the same topic before; a policy lasts longer than a change."""
    same = {
        id_
        for id_, change in ledger.changes.items()
        if change.spec.subject == spec.subject and change.spec.kind is spec.kind
    }
    return {
        name
        for id_ in same
        for name, appended in ledger.acks.get(id_, {}).items()
        if appended.record.status is Status.REJECTED
    }


# -- groups ------------------------------------------------------------------------------------------------


def _outlooks(
    spec: Spec, groups: Iterable[Group], tenancies: Mapping[str, Tenancy], now_ms: int
) -> tuple[GroupOutlook, ...]:
    hooks = Counter(
        tenancy.holder.record.group
        for tenancy in tenancies.values()
        if _hooks(tenancy, spec) and now_ms <= tenancy.holder.at_ms + 1_000 * tenancy.holder.record.ttl_s
    )
    return tuple(
        GroupOutlook(group=g, hooked=hooks[g.group_id], safety=_safety(spec, g, hooks[g.group_id]))
        for g in sorted(groups, key=lambda group: group.group_id)
    )


def _strangers(spec: Spec, groups: Iterable[Group]) -> tuple[str, ...]:
    known = {group.group_id for group in groups}
    return tuple(name for name in spec.required_groups or () if name not in known)


def _hooks(tenancy: Tenancy, spec: Spec) -> bool:
    lease = tenancy.holder.record
    reads = lease.role is Role.CONSUMER and lease.state is LeaseState.UP
    here = lease.cluster_id in {None, spec.cluster_id}
    return reads and here and lease.use_of(spec.topic, spec.topic_id) is not None


def _safety(spec: Spec, group: Group, hooked: int) -> Safety:
    if spec.kind is not Kind.INCREASE:
        return Safety.NOTHING_NEW
    if hooked and hooked >= len(group.members):
        return Safety.HOOK
    by_name = group.group_id in (spec.required_groups or ())
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
    shares: dict[KeyMoves, float] = {}
    for moves in (_key_move(spec, finding) for finding in found.findings):
        same = evolve(moves, share=0.0)
        shares[same] = shares.get(same, 0.0) + moves.share
    return tuple(evolve(moves, share=share) for moves, share in shares.items())


def _key_move(spec: Spec, finding: Finding) -> KeyMoves:
    before, after, share = spec.from_count, spec.to_count, finding.share
    rule = None if finding.rule is None else finding.rule.hash_name
    if spec.kind not in _COUNTED:
        why = "what becomes of a key whose partition is left depends on its writer (keyed=)"
    elif rule is None:
        why = "no known hash placed them"
    elif rule in MONOTONE:
        return KeyMoves(rule=rule, share=share, moves=moved_monotone(before, after))
    elif all(last < before for _, last in finding.counts):
        why = "they are from when there were fewer partitions, or pinned, and then a cut-over moves them"
    else:
        return KeyMoves(rule=rule, share=share, moves=moved_modulo(before, after))
    return KeyMoves(rule=rule, share=share, moves=None, why=why)


# -- time --------------------------------------------------------------------------------------------------


def expected(spec: Spec, changes: Iterable[Change]) -> Expected | None:
    """Return how long changes like this one have taken; None if there was none."""
    took = sorted(
        (change.finished_ms - change.observed_ms) / 1_000
        for change in changes
        if (change.spec.kind, change.spec.gate) == (spec.kind, spec.gate)
        and change.state in _AS_IT_SHOULD
        and change.observed_ms is not None
        and change.finished_ms is not None
    )
    if not took:
        return None
    most = took[math.ceil(0.9 * len(took)) - 1]
    return Expected(changes=len(took), median_s=statistics.median(took), most_s=most)
