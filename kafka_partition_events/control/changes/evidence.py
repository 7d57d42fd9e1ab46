"""Who has followed a change, and how is that known? Pure.

- *followed*: every live producer uses the new partitions, as far as it can afford them;
- *positioned*: every group that the change waits for has a position on all of them that a restart keeps. That
  is what keeps a group with ``auto.offset.reset=latest`` from missing records; being assigned does not.

A producer is *live* until it has stopped, or has been lost for a grace of one time to live. A group is waited
for from when it was seen to read the topic, from the request on, until the change is finished: whether it has
members at the moment does not matter. Where the numbers can't be complete, the evidence is *unverified* and
says why; it is never more than what was seen.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from itertools import accumulate
from typing import Final

from attrs import field, frozen

from kafka_partition_events.control.protocol.bounds import MOST_ITEMS, MOST_TEXT
from kafka_partition_events.control.protocol.ledger import Appended, Leases
from kafka_partition_events.control.protocol.partition_set import NO_PARTITIONS, PartitionSet
from kafka_partition_events.control.protocol.records import (
    Change,
    GroupProgress,
    TopicUse,
    Totals,
    group_name,
)
from kafka_partition_events.legible import legible

_MOST_LISTED: Final = 5
_MOST_NAMED: Final = 250_000
"""Bytes of the names of groups in a change, which so stays a record (`codec.MOST_BYTES`)."""


@frozen(kw_only=True)
class ClusterView:
    """What is seen now of a change's topic.

    Attributes:
        blind: Whether the topic, or the whole cluster, can't be seen; then the rest is old.
        count: How many partitions the topic has; None: there is no such topic.
        topic_id: Its id; None where the brokers do not report it.
        readers: The groups with members that read the topic; None: not known.
        readers_are_old: Whether the last probe of them began before the topic had grown.
        unseen_groups: Groups that no broker describes to us now: they may read it.
        groups: Where groups have a position, as brokers show it.
    """

    blind: bool = False
    count: int | None = None
    topic_id: str | None = None
    readers: frozenset[str] | None = None
    readers_are_old: bool = False
    unseen_groups: frozenset[str] = frozenset()
    groups: Mapping[str, PartitionSet] = field(factory=dict)


@frozen(kw_only=True)
class Evidence:
    """All that is known of one change.

    Attributes:
        positioned: Whether every group that is waited for has a position on all new partitions.
        readers_known: Whether it is known which groups to wait for.
        unarmed: How many live producers are not known to hold the gate. If there are none before the topic
            grows, no one writes to its new partitions too early.
        totals: Producers.
        groups: The groups that are waited for.
        unverified: Why the numbers may not be complete.
    """

    positioned: bool
    readers_known: bool
    unarmed: int
    totals: Totals
    groups: tuple[GroupProgress, ...]
    unverified: tuple[str, ...]

    @property
    def followed(self) -> bool:
        """Whether no live producer is waited for."""
        return self.totals.applied + self.totals.capped == self.totals.live


def evidence(change: Change, leases: Leases, cluster: ClusterView, now_ms: int) -> Evidence:
    """Return what is known of a change at a moment of the brokers' clock."""
    uses = [*_uses_of_producers(change, leases, now_ms)]
    said = Counter(status_of(change, use) for use in uses if use.seen)
    unarmed = sum(not (use.holds == change.change_id and use.armed) for use in uses)
    # From the growth on it is how many there were then.
    counted = change.totals.unarmed if change.state.happened else unarmed
    totals = Totals(**{status: said[status] for status in Status}, unarmed=counted)
    affected, (positions, is_cut) = change.spec.affected, positions_of_groups(change, leases, cluster, now_ms)
    groups = tuple(GroupProgress(group=name, followed=affected <= at) for name, at in positions.items())
    known = cluster.readers is not None
    return Evidence(
        # A group may have begun to read between the last probe and growth.
        positioned=known and not (is_cut or cluster.readers_are_old) and all(one.followed for one in groups),
        readers_known=known,
        unarmed=unarmed,
        totals=totals,
        groups=groups,
        unverified=tuple(_doubts(change, cluster, totals, is_cut=is_cut)),
    )


# -- producers ---------------------------------------------------------------------------------------------


class Status(StrEnum):
    """How far a producer is; see `Totals`."""

    PENDING = "pending"
    HELD = "held"
    APPLIED = "applied"
    CAPPED = "capped"


def live_producers(change: Change, leases: Leases, now_ms: int) -> Iterator[TopicUse]:
    """Yield what the live producers that a change concerns say of its topic."""
    return (use for use in _uses_of_producers(change, leases, now_ms) if use.seen)


def _uses_of_producers(change: Change, leases: Leases, now_ms: int) -> Iterator[TopicUse]:
    """Yield the same, and with a gate, of all that don't use the topic, a use that sees nothing.

    One that has not read the change may send its first record to the topic right after the growth.
    """
    spec = change.spec
    for appended in leases.values():
        lease, use = appended.record, appended.record.use_of(spec.topic, spec.topic_id)
        if use is None and spec.gate:
            use = TopicUse(topic=spec.topic, seen=0, used=0)
        if lease.group is None and use is not None and not has_departed(appended, now_ms):
            yield use


def status_of(change: Change, use: TopicUse) -> Status:
    """Return how far a producer is, by what it says."""
    if use.holds == change.change_id:
        return Status.HELD
    # It may wait at the gate of an earlier change still.
    if use.holds is not None or use.seen < change.spec.to_count:
        return Status.PENDING
    return Status.APPLIED if use.used >= change.spec.to_count else Status.CAPPED


def is_up(lease: Appended, now_ms: int) -> bool:
    """Return whether an instance's last sign of life is still good."""
    return now_ms <= lease.at_ms + 1_000 * lease.record.ttl_s


def has_departed(lease: Appended, now_ms: int) -> bool:
    """Return whether an instance has stopped, or is lost and a grace of one time to live has passed, too."""
    ttl_s = lease.record.ttl_s
    return not ttl_s or now_ms > lease.at_ms + 2_000 * ttl_s


# -- groups ------------------------------------------------------------------------------------------------


def positions_of_groups(
    change: Change, leases: Leases, cluster: ClusterView, now_ms: int
) -> tuple[dict[str, PartitionSet], bool]:
    """Return where the groups that a change waits for have a position, by name; and whether there are more.

    A position belongs to the group, whichever member made it; so the union of what its members and the
    brokers say counts.
    """
    spec, own = change.spec, defaultdict[str, PartitionSet](PartitionSet)
    for appended in leases.values():
        group, use = appended.record.group, appended.record.use_of(spec.topic, spec.topic_id)
        if group is not None and use is not None and not has_departed(appended, now_ms):
            own[group_name(group)] |= use.positioned
    # What brokers have shown comes first, now and in later rounds: no lease pushes it out.
    awaited = (*sorted(cluster.readers or ()), *(one.group for one in change.groups), *sorted(own))
    names = [*dict.fromkeys(awaited)]
    sizes = accumulate(len(json.dumps(name, ensure_ascii=False).encode()) for name in names)
    kept = [n for n, room in zip(names, sizes, strict=True) if room <= _MOST_NAMED][:MOST_ITEMS]
    positions = {name: own[name] | cluster.groups.get(name, NO_PARTITIONS) for name in kept}
    return positions, len(kept) < len(names)


# -- what is not known -------------------------------------------------------------------------------------


def _doubts(change: Change, cluster: ClusterView, totals: Totals, *, is_cut: bool) -> Iterator[str]:
    doubts = {
        "more groups read the topic than can be named": is_cut,
        "the topic can't be seen": cluster.blind,
        "no producer with the library uses it": not totals.live,
        "which groups read the topic is not known": cluster.readers is None,
        f"groups that can't be seen: {_listed(cluster.unseen_groups)}": bool(cluster.unseen_groups),
        f"producers that did not hold the gate when the topic grew: {totals.unarmed}": (
            change.state.happened and change.spec.gate and totals.unarmed > 0
        ),
        "the topic's id is not known": cluster.topic_id is None,
    }
    yield from (legible(text, MOST_TEXT) for text, applies in doubts.items() if applies)


def _listed(groups: Collection[str]) -> str:
    more = len(groups) - _MOST_LISTED
    return ", ".join(sorted(groups)[:_MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")
