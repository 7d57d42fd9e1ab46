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

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from kafka_partition_events.control.merge import Appended, Tenancy
from kafka_partition_events.control.records import GROUP_PREFIX, Ack, Change, Lease, TopicUse, Totals
from kafka_partition_events.control.words import Gate, Kind, LeaseState, Role, State, Status

MASS_EXIT: Final = 0.05
"""When more than this part of a cohort has departed, that is news, and the change can't converge fully."""

_DONE: Final = {State.ROLLING_BACK: {Status.ROLLED_BACK}, State.ROLLED_BACK: {Status.ROLLED_BACK}}
_FOLLOWED: Final = {Status.APPLIED, Status.CAPPED}
_ARMED: Final = {*_FOLLOWED, Status.HELD}
_SETTLED: Final = {*_FOLLOWED, Status.REJECTED, Status.FAILED, Status.ROLLED_BACK}
_BACK: Final = {State.ROLLING_BACK, State.ROLLED_BACK}


@frozen(kw_only=True)
class ClusterView:
    """What the observers and the prober see now, of a change's topic.

    Attributes:
        blind: Whether the cluster can't be seen; then the rest is old.
        count: How many partitions the topic has; None: there is no such topic.
        topic_id: Its id; None where it can't be told.
        readers: The groups with members that read the topic; None as long as nobody has looked.
        readers_are_old: Whether nobody has looked for them since the change has happened.
        writers: How many producers brokers know to be writing (DescribeProducers); None: not known. That is
            a lower bound: brokers know idempotent ones only.
    """

    blind: bool = False
    count: int | None = None
    topic_id: str | None = None
    readers: frozenset[str] | None = None
    readers_are_old: bool = False
    writers: int | None = None


@frozen(kw_only=True)
class Fleet:
    """What the logs of leases and of acks to one change tell.

    Attributes:
        tenancies: Who uses which instance id.
        acks: The last answer of each instance.
        leases_read: The offset of the first lease that is not in it, by partition; None: not known.
        acks_read: The same of acks.
    """

    tenancies: Mapping[str, Tenancy] = field(factory=dict)
    acks: Mapping[str, Appended[Ack]] = field(factory=dict)
    leases_read: tuple[int, ...] | None = None
    acks_read: tuple[int, ...] | None = None


@frozen(kw_only=True)
class Follower:
    """A producer that the change concerns.

    Attributes:
        instance_id: Who.
        status: What it says or its lease shows; None: nothing yet.
        reason: Why, where it says so.
        departed: Whether it has stopped, or is lost for longer than a grace of one time to live.
        late: Whether it came after the change had happened.
        duplicate: Whether two processes use its id.
    """

    instance_id: str
    status: Status | None
    reason: str = ""
    departed: bool = False
    late: bool = False
    duplicate: bool = False


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
    known = followers(change, fleet, now_ms)
    cohort = [f for f in known if not f.late]
    live = [f for f in cohort if not f.departed]
    totals = _totals(known, _uncovered(change, fleet, cluster, now_ms))
    groups = coverage(change, fleet, cluster, now_ms)
    affected, told = change.spec.affected, groups is not None
    # A group may have begun to read between the last look and growth.
    guessed = change.spec.required_groups is None and cluster.readers_are_old
    covered = groups or ()
    leaving = change.spec.kind in {Kind.DECREASE, Kind.OFFLINE} or change.state in _BACK
    lagging = [c.group for c in covered if not affected <= (c.drained if leaving else c.positioned)]
    if change.spec.kind is Kind.ONLINE:
        lagging = []  # they have read those partitions before
    done = _DONE.get(change.state, _FOLLOWED)
    followed = sum(f.status in done for f in live)
    return Evidence(
        exists=_exists(change, cluster),
        acked=bool(live) and followed >= change.spec.min_acked_ratio * len(live),
        assigned=told and all(affected <= c.assigned | c.flowing for c in covered),
        positioned=told and not guessed and all(affected <= c.positioned for c in covered),
        flowing=told and all(affected <= c.flowing for c in covered),
        drained=told and all(affected <= c.drained for c in covered),
        unarmed=tuple(f.instance_id for f in known if not f.departed and f.status not in _ARMED),
        settled=followed == len(live) and not lagging,
        totals=totals,
        groups=tuple(covered),
        uncovered_groups=tuple(lagging),
        unverified=_doubts(change, fleet, cluster, totals, told=told),
        mass_exit=totals.departed > MASS_EXIT * len(cohort),
        rejected_by=tuple(f.instance_id for f in known if f.status is Status.REJECTED and not f.departed),
    )


def _exists(change: Change, cluster: ClusterView) -> bool:
    if change.spec.kind in {Kind.INCREASE, Kind.OBSERVE}:
        return cluster.count is not None and cluster.count >= change.spec.to_count
    return change.state.happened


# -- producers ---------------------------------------------------------------------------------------------


def followers(change: Change, fleet: Fleet, now_ms: int) -> list[Follower]:
    """Return the producers that a change concerns, by instance id; not those that were gone before it."""
    known = (fleet.tenancies[name] for name in sorted(fleet.tenancies))
    concerned = [t for t in known if _concerns(change, t.holder.record) and not _was_gone(t, change)]
    return [_follower(change, t, fleet.acks, now_ms) for t in concerned]


def _was_gone(tenancy: Tenancy, change: Change) -> bool:
    """Tell whether an instance had departed when the change was requested, and was not heard of since.

    Where each process has a name of its own, many are of the last two days: all that were deployed anew.
    """
    asked_ms = change.requested_ms
    return tenancy.holder.at_ms < asked_ms and has_departed(tenancy, asked_ms)


def _concerns(change: Change, lease: Lease) -> bool:
    spec = change.spec
    if lease.role is not Role.PRODUCER or lease.cluster_id not in {None, spec.cluster_id}:
        return False
    return spec.topic is None or lease.use_of(spec.topic, spec.topic_id) is not None


def _follower(change: Change, tenancy: Tenancy, acks: Mapping[str, Appended[Ack]], now_ms: int) -> Follower:
    holder, lease = tenancy.holder, tenancy.holder.record
    appended = acks.get(lease.instance_id)
    # What another process under the same name has said does not hold for this one.
    ack = appended.record if appended and appended.record.incarnation == lease.incarnation else None
    rival, ttl_ms = tenancy.rival, 1_000 * lease.ttl_s
    # One that was there and has restarted under its name is still to be waited for.
    born_ms = holder.born_ms if rival is None else min(holder.born_ms, rival.born_ms)
    return Follower(
        instance_id=lease.instance_id,
        status=_status(change, lease.use_of(change.spec.topic, change.spec.topic_id), ack),
        reason=ack.reason if ack else "",
        departed=has_departed(tenancy, now_ms),
        late=change.observed_ms is not None and born_ms > change.observed_ms,
        duplicate=rival is not None
        and rival.record.state is LeaseState.UP
        and rival.at_ms > holder.born_ms + ttl_ms
        and now_ms <= rival.at_ms + ttl_ms,
    )


def has_departed(tenancy: Tenancy, now_ms: int) -> bool:
    """Tell whether an instance has stopped, or is lost and a grace of one time to live has passed, too."""
    lease = tenancy.holder.record
    return lease.state is LeaseState.DOWN or now_ms > tenancy.holder.at_ms + 2_000 * lease.ttl_s


def _status(change: Change, use: TopicUse | None, ack: Ack | None) -> Status | None:
    """Return what an instance says; where that is nothing final, what its lease shows."""
    said = ack.status if ack else None
    done = _DONE.get(change.state, _FOLLOWED)
    if said in done or said in {Status.REJECTED, Status.FAILED}:
        return said
    shown = None if use is None else _shown(change, use)
    if shown is not None:
        return shown
    return None if said in _SETTLED else said  # what it said before it was to roll back


def _shown(change: Change, use: TopicUse) -> Status | None:
    """Return what a lease proves: that growth has arrived, and nothing else.

    It tells how many partitions are used, but not which ones, nor by which order.
    """
    spec = change.spec
    grows = spec.kind in {Kind.INCREASE, Kind.OBSERVE} and change.state not in _BACK
    if not grows or use.seen < spec.to_count:
        return None
    if use.used >= spec.to_count:
        return Status.APPLIED
    # With a gate it may just not have heard that the gate is open; then it has to say that it is capped.
    return Status.CAPPED if change.gate is Gate.NONE and change.state.happened else None


def _totals(known: list[Follower], uncovered: int | None) -> Totals:
    here = [f for f in known if not f.departed]
    says = Counter(f.status for f in here if not f.late)
    counts: dict[str, Any] = {status.value: says[status] for status in Status}
    return Totals(
        **counts,
        pending=says[None],
        departed=sum(f.departed and not f.late for f in known),
        late_joined=sum(f.late for f in here),
        duplicates=sum(f.duplicate for f in here),
        uncovered=uncovered,
    )


def _uncovered(change: Change, fleet: Fleet, cluster: ClusterView, now_ms: int) -> int | None:
    """Return how many writers brokers know of beyond those that have leases."""
    if cluster.writers is None:
        return None
    leases = [tenancy.holder for tenancy in fleet.tenancies.values()]
    known = sum(
        lease.record.idempotent
        and lease.record.state is LeaseState.UP
        and now_ms <= lease.at_ms + 1_000 * lease.record.ttl_s
        and _concerns(change, lease.record)
        for lease in leases
    )
    return max(0, cluster.writers - known)


# -- groups ------------------------------------------------------------------------------------------------


def coverage(change: Change, fleet: Fleet, cluster: ClusterView, now_ms: int) -> list[Coverage] | None:
    """Return how far the required groups are, by name; None if it is not known which those are."""
    acks = [appended.record for appended in fleet.acks.values()]
    here = {name for name, tenancy in fleet.tenancies.items() if not has_departed(tenancy, now_ms)}
    required = change.spec.required_groups
    if change.spec.topic is None:
        return []  # which partitions a broker leads, and so which groups are concerned, changes all the time
    if required is not None:
        return [_covered(group, acks, here) for group in sorted(required)]
    if cluster.readers is None:
        return None
    found = cluster.readers | _groups_of_members(change, fleet)
    everyone = [_covered(group, acks, here) for group in sorted(found)]
    return [c for c in everyone if c.members != 0]  # a group without members waits for nothing


def _groups_of_members(change: Change, fleet: Fleet) -> set[str]:
    spec = change.spec
    return {
        lease.group
        for lease in (tenancy.holder.record for tenancy in fleet.tenancies.values())
        if lease.group is not None
        and lease.state is LeaseState.UP
        and lease.cluster_id in {None, spec.cluster_id}
        and lease.use_of(spec.topic, spec.topic_id) is not None
    }


def _covered(group: str, acks: list[Ack], here: set[str]) -> Coverage:
    """Put together what the members of a group and the prober say.

    A position that a restart keeps belongs to the group, whoever made it; so the union counts. The prober
    sees the whole assignment at once; without it the shares of the members that are here count.
    """
    whole = [ack for ack in acks if ack.instance_id == GROUP_PREFIX + group]
    members = [ack for ack in acks if ack.group == group and ack.role is Role.CONSUMER]
    union = frozenset[int]().union
    return Coverage(
        group=group,
        members=whole[0].members if whole else None,
        assigned=union(*(ack.assigned for ack in whole or members if whole or ack.instance_id in here)),
        positioned=union(*(ack.positioned for ack in (*whole, *members))),
        flowing=union(*(ack.flowing for ack in (*whole, *members))),
        drained=union(*(ack.drained for ack in whole)),
    )


# -- what is not known -------------------------------------------------------------------------------------


def _doubts(
    change: Change, fleet: Fleet, cluster: ClusterView, totals: Totals, *, told: bool
) -> tuple[str, ...]:
    partly = sum(
        tenancy.holder.record.topics_left_out > 0 and not _concerns(change, tenancy.holder.record)
        for tenancy in fleet.tenancies.values()
        if tenancy.holder.record.role is Role.PRODUCER
    )
    doubts = {
        "the cluster can't be seen": cluster.blind,
        "no producer with the library uses it": not (totals.live or totals.departed or totals.late_joined),
        "no producer that was there is left": not totals.live and totals.departed + totals.late_joined > 0,
        "which groups read the topic is not known": not told,
        "which producers write without the library is not known": totals.uncovered is None,
        f"producers without a lease write: {totals.uncovered}": bool(totals.uncovered),
        f"producers that did not hold the gate when the topic grew: {change.unarmed}": change.unarmed > 0,
        f"instances that do not list all of their topics: {partly}": partly > 0,
        f"instance ids that two processes use: {totals.duplicates}": totals.duplicates > 0,
        "the topic's id can't be told": change.spec.topic is not None and cluster.topic_id is None,
    }
    return tuple(text for text, applies in doubts.items() if applies)
