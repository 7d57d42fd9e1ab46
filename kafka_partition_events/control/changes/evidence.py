"""Who has followed a change, and how do we know? Pure.

The levels, none of which implies another one:

- *exists*: an observer sees it;
- *acked*: every live producer of the cohort uses (or has left) the partitions, as far as it can afford them;
- *assigned*: every required group owns all of them;
- *positioned*: every required group has a position on all of them that a restart keeps. That is what keeps a
  group with ``auto.offset.reset=latest`` from missing records; being assigned does not;
- *flowing*: every required group has committed on all of them beyond where it began.

For partitions that are left, the last three are one: every required group has *drained* them.

The *cohort* is who was there when the change happened. Whoever came later has seen the cluster as it is since
then, and is counted apart; so is who has stopped or is lost. Where the numbers can't be complete, the
evidence is *unverified* and says why; it is never more than what was seen.
"""

from collections import Counter, defaultdict
from collections.abc import Collection
from itertools import islice
from typing import Any, Final

from attrs import frozen

from kafka_partition_events.control.changes.followers import (
    BACK,
    DONE,
    FOLLOWED,
    Census,
    Fleet,
    Says,
    has_departed,
)
from kafka_partition_events.control.protocol.bounds import MOST_TEXT
from kafka_partition_events.control.protocol.legible import legible
from kafka_partition_events.control.protocol.records import Ack, Change, Totals
from kafka_partition_events.control.protocol.vocabulary import Kind, Role, Status

_MOST_NAMED: Final = 100
_MOST_LISTED: Final = 5

MASS_EXIT: Final = 0.05
"""When more than this part of a cohort has departed, that is news, and the change can't converge fully."""


@frozen(kw_only=True)
class ClusterView:
    """What the observers and the prober see now, of a change's topic.

    Attributes:
        blind: Whether the cluster can't be seen; then the rest is old.
        count: How many partitions the topic has; None: there is no such topic.
        topic_id: Its id; None where it can't be told.
        readers: The groups with members that read the topic; None as long as nobody has looked.
        readers_are_old: Whether nobody has looked for them since the change has happened.
        no_such_broker: Whether the change is about a broker that is none.
        unseen_groups: Groups that no broker describes to us now: they may read it.
        writers: How many producers brokers know to be writing (DescribeProducers); None: not known. That is
            a lower bound: brokers know idempotent ones only.
    """

    blind: bool = False
    count: int | None = None
    topic_id: str | None = None
    readers: frozenset[str] | None = None
    readers_are_old: bool = False
    unseen_groups: frozenset[str] = frozenset()
    no_such_broker: bool = False
    writers: int | None = None


@frozen(kw_only=True)
class Coverage:
    """How far one group is with the affected partitions."""

    group: str
    members: int | None = None
    assigned: frozenset[int] = frozenset()
    positioned: frozenset[int] = frozenset()
    flowing: frozenset[int] = frozenset()
    drained: frozenset[int] = frozenset()


@frozen(kw_only=True)
class Evidence:
    """All that is known of one change.

    Attributes:
        exists: Level.
        acked: Level.
        assigned: Level.
        positioned: Level.
        flowing: Level.
        drained: Whether every required group has read the affected partitions to their end.
        unarmed: Live producers that are not known to hold the gate. If there are none before the topic grows,
            nobody writes to its new partitions too early.
        settled: Whether everybody who is known has followed; there may be others.
        totals: Producers.
        groups: Required groups.
        uncovered_groups: Those that are not positioned, or have not drained.
        unverified: Why the numbers may not be complete.
        mass_exit: Whether more of the cohort has departed than comes and goes by itself.
        rejected_by: Instances that refuse the change.
    """

    exists: bool
    acked: bool
    assigned: bool
    positioned: bool
    flowing: bool
    drained: bool
    unarmed: tuple[str, ...]
    settled: bool
    totals: Totals
    groups: tuple[Coverage, ...]
    uncovered_groups: tuple[str, ...]
    unverified: tuple[str, ...]
    mass_exit: bool
    rejected_by: tuple[str, ...]


def evidence(change: Change, fleet: Fleet, cluster: ClusterView, now_ms: int) -> Evidence:
    """Return what is known of a change at a moment of the brokers' clock."""
    census = fleet.census
    census.look(change, fleet.tenancies, fleet.acks, now_ms)
    totals = _totals(census, cluster)
    groups = coverage(change, fleet, cluster, now_ms)
    affected, told = change.spec.affected, groups is not None
    # A group may have begun to read between the last look and growth.
    guessed = change.spec.required_groups is None and cluster.readers_are_old
    covered = groups or ()
    leaving = change.spec.kind in {Kind.DECREASE, Kind.OFFLINE} or change.state in BACK
    lagging = [c.group for c in covered if not affected <= (c.drained if leaving else c.positioned)]
    if change.spec.kind is Kind.ONLINE:
        lagging = []  # they have read those partitions before
    done = DONE.get(change.state, FOLLOWED)
    followed = sum(n for says, n in census.says.items() if says.status in done and _is_live(says))
    return Evidence(
        exists=_exists(change, cluster),
        acked=totals.live > 0 and change.spec.is_enough(followed, totals.live),
        assigned=told and all(affected <= c.assigned | c.flowing for c in covered),
        positioned=told and not guessed and all(affected <= c.positioned for c in covered),
        flowing=told and all(affected <= c.flowing for c in covered),
        drained=told and all(affected <= c.drained for c in covered),
        unarmed=tuple(sorted(census.unarmed)),
        settled=followed == totals.live and not lagging,
        totals=totals,
        groups=tuple(covered),
        uncovered_groups=_named(lagging),
        unverified=_doubts(change, census, cluster, totals, told=told),
        mass_exit=totals.departed > MASS_EXIT * (totals.live + totals.departed),
        rejected_by=tuple(sorted(census.rejecting)),
    )


def _exists(change: Change, cluster: ClusterView) -> bool:
    if change.spec.kind.grows:
        return cluster.count is not None and cluster.count >= change.spec.to_count
    return change.state.happened


def _is_live(says: Says) -> bool:
    return not says.departed and not says.late


def _totals(census: Census, cluster: ClusterView) -> Totals:
    found = census.says.items()
    live = Counter[Status | None]()
    for says, n in found:
        live[says.status] += n * _is_live(says)
    counts: dict[str, Any] = {status.value: live[status] for status in Status}
    # What brokers know of beyond those that have leases.
    uncovered = None if cluster.writers is None else max(0, cluster.writers - census.writing)
    return Totals(
        **counts,
        pending=live[None],
        departed=sum(n for says, n in found if says.departed and not says.late),
        late_joined=sum(n for says, n in found if says.late and not says.departed),
        duplicates=sum(n for says, n in found if says.duplicate and not says.departed),
        uncovered=uncovered,
    )


# -- groups ------------------------------------------------------------------------------------------------


def coverage(change: Change, fleet: Fleet, cluster: ClusterView, now_ms: int) -> list[Coverage] | None:
    """Return how far the required groups are, by name; None if it is not known which those are."""
    required = change.spec.required_groups
    if change.spec.topic is None:
        return []  # which partitions a broker leads, and so which groups are concerned, changes all the time
    if required is None and cluster.readers is None:
        return None
    members = defaultdict[str | None, list[Ack]](list)
    for appended in fleet.acks.values():
        if _is_of_a_member(appended.record, fleet, now_ms):
            members[appended.record.group].append(appended.record)
    if required is not None:
        return [_covered(group, members[group], fleet) for group in sorted(required)]
    found = (cluster.readers or frozenset()) | _groups_of_members(change, fleet, now_ms)
    everyone = [_covered(group, members[group], fleet) for group in sorted(found)]
    return [c for c in everyone if c.members != 0]  # a group without members waits for nothing


def _groups_of_members(change: Change, fleet: Fleet, now_ms: int) -> set[str]:
    spec = change.spec
    return {
        lease.group
        for lease in (t.holder.record for t in fleet.tenancies.values() if not has_departed(t, now_ms))
        if lease.group is not None
        and lease.role is Role.CONSUMER
        and lease.cluster_id in {None, spec.cluster_id}
        and lease.use_of(spec.topic, spec.topic_id) is not None
    }


def _covered(group: str, members: list[Ack], fleet: Fleet) -> Coverage:
    """Put together what the members of a group and the prober say.

    A position that a restart keeps belongs to the group, whichever member made it; so the union counts. The
    prober sees the whole assignment at once; without it the shares of the members that are here count.
    """
    probed = fleet.groups.get(group)
    whole = [] if probed is None else [probed]
    union = frozenset[int]().union
    return Coverage(
        group=group,
        members=whole[0].members if whole else None,
        assigned=union(*(ack.assigned for ack in whole or members)),
        positioned=union(*(ack.positioned for ack in (*whole, *members))),
        flowing=union(*(ack.flowing for ack in (*whole, *members))),
        drained=union(*(ack.drained for ack in whole)),
    )


def _is_of_a_member(ack: Ack, fleet: Fleet, now_ms: int) -> bool:
    """Tell whether a process says this that is here, by its lease, and of that group."""
    tenancy = fleet.tenancies.get(ack.instance_id)
    if ack.role is not Role.CONSUMER or tenancy is None or has_departed(tenancy, now_ms):
        return False
    lease = tenancy.holder.record
    return (lease.role, lease.incarnation, lease.group) == (ack.role, ack.incarnation, ack.group)


# -- what is not known -------------------------------------------------------------------------------------


def _named(groups: Collection[str]) -> tuple[str, ...]:
    """Return names of groups, which Kafka lets be anything, as they may stand in a record; not too many."""
    names = [legible(group, MOST_TEXT) for group in islice(groups, _MOST_NAMED)]
    more = len(groups) - len(names)
    return (*names, *([f"and {more:,} more"] if more else []))


def _doubts(
    change: Change, census: Census, cluster: ClusterView, totals: Totals, *, told: bool
) -> tuple[str, ...]:
    unseen = ", ".join(_named(sorted(cluster.unseen_groups)[:_MOST_LISTED]))
    doubts = {
        "the cluster can't be seen": cluster.blind,
        "no producer with the library uses it": not (totals.live or totals.departed or totals.late_joined),
        "no producer that was there is left": not totals.live and totals.departed + totals.late_joined > 0,
        "which groups read the topic is not known": not told,
        f"groups that can't be seen: {unseen}": bool(unseen),
        "which producers write without the library is not known": totals.uncovered is None,
        f"producers without a lease write: {totals.uncovered}": bool(totals.uncovered),
        f"producers that did not hold the gate when the topic grew: {change.unarmed}": change.unarmed > 0,
        f"instances that do not list all of their topics: {census.silent}": census.silent > 0,
        f"instance ids that two processes use: {totals.duplicates}": totals.duplicates > 0,
        "the topic's id can't be told": change.spec.topic is not None and cluster.topic_id is None,
    }
    return tuple(legible(text, MOST_TEXT) for text, applies in doubts.items() if applies)
