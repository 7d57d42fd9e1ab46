"""Who has followed a change, and how is that known? Pure.

The levels, none of which implies another one:

- *acked*: every live producer uses the new partitions, as far as it can afford them;
- *assigned*: every group that the change waits for owns all of them;
- *positioned*: every such group has a position on all of them that a restart keeps. That is what keeps a
  group with ``auto.offset.reset=latest`` from missing records; being assigned does not.

A producer is *live* until it has stopped, or has been lost for a grace of one time to live. A group is waited
for from when it was seen to read the topic, from the request on, until the change is finished: whether it has
members at the moment does not matter. Where the numbers can't be complete, the evidence is *unverified* and
says why; it is never more than what was seen.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from enum import Enum, auto
from typing import Final

from attrs import field, frozen

from kafka_partition_events.control.protocol.bounds import MOST_ITEMS, MOST_TEXT
from kafka_partition_events.control.protocol.ledger import Appended, Leases
from kafka_partition_events.control.protocol.partition_set import Coverage
from kafka_partition_events.control.protocol.records import Change, GroupProgress, TopicUse, Totals
from kafka_partition_events.legible import legible

GROUPS_UNKNOWN: Final = "which groups read the topic is not known"
_MOST_LISTED: Final = 5


@frozen(kw_only=True)
class ClusterView:
    """What is seen now of a change's topic.

    Attributes:
        blind: Whether the cluster can't be seen; then the rest is old.
        count: How many partitions the topic has; None: there is no such topic.
        topic_id: Its id; None where the brokers do not report it.
        readers: The groups with members that read the topic; None: not known.
        readers_are_old: Whether they were last looked for before the topic had grown.
        unseen_groups: Groups that no broker describes to us now: they may read it.
        groups: How far groups are, as brokers show it.
    """

    blind: bool = False
    count: int | None = None
    topic_id: str | None = None
    readers: frozenset[str] | None = None
    readers_are_old: bool = False
    unseen_groups: frozenset[str] = frozenset()
    groups: Mapping[str, Coverage] = field(factory=dict)


@frozen(kw_only=True)
class Evidence:
    """All that is known of one change.

    Attributes:
        assigned: Level.
        positioned: Level.
        readers_known: Whether it is known which groups to wait for.
        unarmed: Live producers that are not known to hold the gate. If there are none before the topic grows,
            no one writes to its new partitions too early.
        totals: Producers.
        groups: The groups that are waited for.
        unverified: Why the numbers may not be complete.
    """

    assigned: bool
    positioned: bool
    readers_known: bool
    unarmed: tuple[str, ...]
    totals: Totals
    groups: tuple[GroupProgress, ...]
    unverified: tuple[str, ...]

    @property
    def followed(self) -> bool:
        """Whether no live producer is waited for: *acked*, if there is one."""
        return self.totals.applied + self.totals.capped == self.totals.live


def evidence(change: Change, leases: Leases, cluster: ClusterView, now_ms: int) -> Evidence:
    """Return what is known of a change at a moment of the brokers' clock."""
    live = [*live_producers(change, leases, now_ms)]
    said = Counter(one.status for one in live)
    unarmed = sorted(one.instance_id for one in live if not one.armed)
    totals = Totals(
        applied=said[Status.APPLIED],
        capped=said[Status.CAPPED],
        held=said[Status.HELD],
        pending=said[Status.PENDING],
        # From the growth on it is how many there were then.
        unarmed=change.totals.unarmed if change.state.happened else len(unarmed),
    )
    affected, groups = change.spec.affected, coverage(change, leases, cluster, now_ms)
    # A group may have begun to read between the last look and growth.
    named = change.spec.required_groups is not None
    known = named or cluster.readers is not None
    return Evidence(
        assigned=known and all(affected <= one.assigned for one in groups.values()),
        positioned=known
        and (named or not cluster.readers_are_old)
        and all(affected <= one.positioned for one in groups.values()),
        readers_known=known,
        unarmed=tuple(unarmed),
        totals=totals,
        groups=tuple(
            GroupProgress(group=name, followed=affected <= one.positioned) for name, one in groups.items()
        ),
        unverified=tuple(_doubts(change, cluster, totals, known=known)),
    )


# -- producers ---------------------------------------------------------------------------------------------


class Status(Enum):
    """How far a producer is; see `Totals`."""

    PENDING = auto()
    HELD = auto()
    APPLIED = auto()
    CAPPED = auto()


@frozen
class Producer:
    """A live producer of the topic.

    Attributes:
        instance_id: Its name.
        status: How far it is.
        armed: Whether it is known to have written to no new partition, and to hold the gate.
    """

    instance_id: str
    status: Status
    armed: bool


def live_producers(change: Change, leases: Leases, now_ms: int) -> Iterator[Producer]:
    """Yield the live producers that a change concerns."""
    spec = change.spec
    for name, appended in leases.items():
        lease = appended.record
        use = lease.use_of(spec.topic, spec.topic_id)
        if lease.group is not None or use is None or has_departed(appended, now_ms):
            continue
        status = _status(change, use)
        yield Producer(name, status, status is Status.HELD and use.armed)


def is_up(lease: Appended, now_ms: int) -> bool:
    """Tell whether an instance's last sign of life is still good."""
    return now_ms <= lease.at_ms + 1_000 * lease.record.ttl_s


def has_departed(lease: Appended, now_ms: int) -> bool:
    """Tell whether an instance has stopped, or is lost and a grace of one time to live has passed, too."""
    ttl_s = lease.record.ttl_s
    return not ttl_s or now_ms > lease.at_ms + 2_000 * ttl_s


def _status(change: Change, use: TopicUse) -> Status:
    if use.holds == change.change_id:
        return Status.HELD
    # It may wait at the gate of an earlier change still.
    if use.holds is not None or use.seen < change.spec.to_count:
        return Status.PENDING
    return Status.APPLIED if use.used >= change.spec.to_count else Status.CAPPED


# -- groups ------------------------------------------------------------------------------------------------


def coverage(change: Change, leases: Leases, cluster: ClusterView, now_ms: int) -> dict[str, Coverage]:
    """Return how far the groups are that a change waits for, by name.

    A position belongs to the group, whichever member made it; so the union of what its members and the
    brokers say counts.
    """
    spec, by_group = change.spec, defaultdict[str, Coverage](Coverage)
    reading = set[str]()
    for appended in leases.values():
        lease = appended.record
        if lease.group is None or has_departed(appended, now_ms):
            continue
        if (use := lease.use_of(spec.topic, spec.topic_id)) is not None:
            reading.add(lease.group)
            by_group[lease.group] |= Coverage(assigned=use.assigned, positioned=use.positioned)
    names = spec.required_groups
    if names is None:
        names = {one.group for one in change.groups} | (cluster.readers or set()) | reading  # type: ignore[assignment]
    wanted = sorted(names or ())[:MOST_ITEMS]
    return {name: by_group[name] | cluster.groups.get(name, Coverage()) for name in wanted}


# -- what is not known -------------------------------------------------------------------------------------


def _doubts(change: Change, cluster: ClusterView, totals: Totals, *, known: bool) -> Iterator[str]:
    doubts = {
        "the cluster can't be seen": cluster.blind,
        "no producer with the library uses it": not totals.live,
        GROUPS_UNKNOWN: not known,
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
