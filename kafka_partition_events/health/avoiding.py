"""What follows from which brokers are trusted: what to avoid, which handle to take, what to probe. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kafka_partition_events.health.broker_state import BrokerState, Trust
from kafka_partition_events.health.in_flight import MAIN, STANDBY, Subject
from kafka_partition_events.health.observations import Observations
from kafka_partition_events.metadata.events import Role
from kafka_partition_events.routing.table import Avoidance


def what_to_avoid(
    seen: Observations, partitions: frozenset[Any], standbys: int, now: float
) -> tuple[Avoidance, int]:
    """Return what to avoid, and the handle for records that need nothing of it."""
    trusts = {b.trust for b in seen.of(Role.LEADER)}
    avoided = {Trust.SUSPECT, Trust.PROBATION}
    if Trust.TRUSTED in trusts:
        avoided.add(Trust.DOUBTED)
    replicas = list(seen.of(Role.REPLICA))
    # Where several connections wait, and for any replica, there is nothing to avoid, and no way round.
    leaders = sum(subject.role is Role.LEADER for subject in seen.ambiguous)
    any_may_be = leaders > 1 and bool(replicas) and seen.ambiguous.issuperset(b.subject for b in replicas)
    bad: dict[Role | None, set[Any]] = {role: set() for role in Role}
    for b in seen.states.values():
        if b.trust in avoided or (b.subject in seen.ambiguous and not any_may_be):
            bad[b.subject.role].add(b.subject.id)
    # Where all are silent the second handle shows whether it is us: its connections are new.
    none_answers = any_may_be or (bool(replicas) and not trusts & {Trust.TRUSTED, Trust.PROBATION})
    in_trouble = none_answers or any(
        (b.is_bad or seen.held_up) and b.subject.id in bad[Role.REPLICA] for b in replicas
    )
    handle = _free_handle(seen, standbys) if standbys and in_trouble else MAIN
    lost = {b.subject.id for b in seen.of(Role.LEADER) if b.down_until > now}
    avoidance = Avoidance(
        leaders=frozenset(bad[Role.LEADER]),
        replicas=frozenset(bad[Role.REPLICA]),
        blocked=frozenset(c.broker for c in seen.held_up if c.handle == handle),
        down=frozenset(bad[Role.LEADER] & lost),
        partitions=partitions,
    )
    return avoidance, handle


def _free_handle(seen: Observations, standbys: int) -> int:
    """Return the standby on which the fewest connections to others wait for a suspect; it may block many."""
    held_up = Counter(c.handle for c in seen.held_up if not seen.leader(c.broker).is_bad)
    handle = min(range(STANDBY, STANDBY + standbys), key=lambda handle: (held_up[handle], handle))
    return handle if seen.silent[handle] <= seen.silent[MAIN] else MAIN


def due_probes(seen: Observations, now: float, partitions: Iterable[Subject] = ()) -> list[BrokerState]:
    """Return the brokers, and which of some partitions by themselves, that one record each should try."""
    drawn = (seen.partitions[subject] for subject in partitions if subject in seen.partitions)
    return [
        b
        for b in (*seen.states.values(), *drawn)
        if now - b.probed_at >= seen.policy.probe_interval
        and (
            (b.trust is Trust.PROBATION and not (b.outstanding and _is_under_way(seen, b)))
            or _is_to_show_itself(seen, b, now)
            or may_be_refused(seen, b, now)
        )
    ]


def _is_under_way(seen: Observations, b: BrokerState) -> bool:
    """Return whether a record that stands behind no other may be answered, which is as good as a probe."""
    free = (c for c in seen.connections.values() if c not in seen.held_up)
    return b.subject.role is None or any(c.needs[b.subject] for c in free)


def _is_to_show_itself(seen: Observations, b: BrokerState, now: float) -> bool:
    """Return whether a replica is named along with others: all are avoided, so no answer sets them apart.

    One record that needs no other of them does, answered or not; or a later one, if it stood behind others.
    """
    if b.subject.role is not Role.REPLICA or not seen.is_ambiguous(b):
        return False
    return not b.probing or now - b.probed_at > seen.patience(b)


def may_be_refused(seen: Observations, b: BrokerState, now: float) -> bool:
    """Return whether one partition is all that waits for a rested suspect: it may be what takes nothing."""
    is_resting = now < max(b.rest_until, b.down_until)
    if b.subject.role is not Role.LEADER or b.trust is not Trust.SUSPECT or is_resting:
        return False
    waiting = [it for c in seen.connections.values() if c.broker == b.subject.id for it in c.waiting]
    if b.probing and any(it.sent_at[-1] >= b.probed_at for it in waiting if it.sent_at):
        return False  # else the record that was to be the probe was not sent, or was taken back
    return bool(waiting) and all(it is waiting[0] or it.itself == waiting[0].itself for it in waiting)
