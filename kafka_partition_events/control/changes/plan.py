"""What a change would do, before it is requested. Pure.

A plan asks the functions that will decide: `commands.obey` whether the tracker would take the change (but
for its policy), `evidence` which instances and groups it concerns. It promises nothing: what comes later is
not in it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from attrs import frozen

from kafka_partition_events.control.changes.commands import obey
from kafka_partition_events.control.changes.evidence import ClusterView, evidence, is_up, live_producers
from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.protocol.ledger import Leases, Ledger
from kafka_partition_events.control.protocol.records import Command, Given
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Verb

STREAMS_ASSIGNOR = "stream"
"""The partition assignor of Kafka Streams."""


class Verdict(StrEnum):
    """What a plan comes to."""

    SAFE = "safe"
    EXPOSED = "exposed"
    """Records may be missed, or left behind: a group, a producer or the topic itself is not made for it."""
    BLOCKED = "blocked"
    """The tracker would refuse it, by the rules that need no policy."""


class Safety(StrEnum):
    """Why a group misses no record of a new partition, or why it may; `WORDS` says it."""

    HOOK = "hook"
    GATE = "gate"
    ABSENT = "absent"
    EXPOSED = "exposed"
    STREAMS = "streams"


WORDS: Final[Mapping[Safety, str]] = {
    Safety.HOOK: "safe: all members begin new partitions at their beginning",
    Safety.GATE: "safe behind the gate: producers wait until it has a position",
    Safety.ABSENT: "no members: with auto.offset.reset=latest it misses what comes before it is back",
    Safety.EXPOSED: "may miss records if it has auto.offset.reset=latest, which can't be seen from outside",
    Safety.STREAMS: "Kafka Streams: it ends with an error when a topic that it joins or groups by grows",
}


@frozen(kw_only=True)
class GroupOutlook:
    """What a group may meet with.

    Attributes:
        group: Its name.
        protocol: As `Group.protocol`.
        state: Kafka's word.
        members: How many it has,
        hooked: and how many of them run the hook.
        safety: Why it is safe, or that it is not.
    """

    group: str
    protocol: str
    state: str
    members: int
    hooked: int
    safety: Safety


@frozen(kw_only=True)
class Plan:
    """What a change would do.

    Attributes:
        spec: The change.
        refusal: Why the tracker would refuse it, by the rules that need no policy; None: by none of them.
        producers: How many producers with the library it concerns, that are live.
        exposed: Why records may be missed or left behind although every group is safe, in words.
        groups: The groups that read the topic, or did; None: they could not be asked for.
        unverified: Why all this may not be complete.
    """

    spec: Spec
    refusal: str | None
    producers: int
    exposed: tuple[str, ...]
    groups: tuple[GroupOutlook, ...] | None
    unverified: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """What it comes to; the gravest first."""
        if self.refusal is not None:
            return Verdict.BLOCKED
        exposed = any(one.safety in {Safety.EXPOSED, Safety.STREAMS} for one in self.groups or ())
        return Verdict.EXPOSED if exposed or self.exposed else Verdict.SAFE


def plan(
    spec: Spec,
    ledger: Ledger,
    cluster: ClusterView,
    groups: Collection[Group] | None,
    *,
    compacted: bool | None,
    now_ms: int,
) -> Plan:
    """Return what a request would do.

    Groups are those that read the topic, or have offsets of it; None: they could not be asked for. So with
    ``compacted``, whether the topic is.
    """
    # No record can have this id, so none is in its way.
    request = Command(change_id="\n", verb=Verb.REQUEST, actor="", spec=spec)
    change, refusal = obey(Given(request, 0, now_ms), ledger.changes, cluster, epoch=0, now_ms=now_ms)
    assert change is not None  # noqa: S101 - a request leads to one, whatever becomes of it
    unseen = ("whether the topic is compacted is not known",) if compacted is None else ()
    producers = sum(1 for _ in live_producers(change, ledger.leases, now_ms))
    return Plan(
        spec=spec,
        refusal=None if refusal is None else refusal.detail,
        producers=producers,
        exposed=tuple(_exposed(spec, producers, compacted=compacted is True)),
        groups=None if groups is None else tuple(_outlooks(spec, groups, ledger.leases, now_ms)),
        unverified=evidence(change, ledger.leases, cluster, now_ms).unverified + unseen,
    )


def _exposed(spec: Spec, producers: int, *, compacted: bool) -> Iterator[str]:
    """Yield why a gate holds no writer, and why the topic is not made to grow."""
    if spec.gate and not producers:
        yield "no producer with the library uses the topic, so none waits at the gate"
    if compacted:
        yield (
            "the topic is compacted: the last value of a key that moves stays in its former partition; "
            "key_partitions lets none move"
        )


# -- groups ------------------------------------------------------------------------------------------------


def _outlooks(spec: Spec, groups: Iterable[Group], leases: Leases, now_ms: int) -> Iterator[GroupOutlook]:
    hooks = Counter(
        lease.record.group
        for lease in leases.values()
        if lease.record.use_of(spec.topic, spec.topic_id) is not None
        and lease.record.ttl_s
        and is_up(lease, now_ms)
    )
    for group in sorted(groups, key=lambda group: group.group_id):
        hooked = hooks[group.group_id]
        yield GroupOutlook(
            group=group.group_id,
            protocol=group.protocol,
            state=group.state.lower(),
            members=len(group.members),
            hooked=hooked,
            safety=_safety(spec, group, hooked),
        )


def _safety(spec: Spec, group: Group, hooked: int) -> Safety:
    if group.assignor == STREAMS_ASSIGNOR:
        return Safety.STREAMS
    if hooked and hooked >= len(group.members):
        return Safety.HOOK
    if not group.members:
        return Safety.ABSENT
    return Safety.GATE if spec.gate else Safety.EXPOSED
