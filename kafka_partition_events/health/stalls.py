"""Finds the brokers that stalled connections wait for. Pure.

A stalled connection's head waits for its leader or for a replica, but not for one that has acknowledged
something that was sent later. Those that remain are its *candidates*, and what several stalled connections
have in common is suspect. While more than one broker is named equally often, or none that was asked later has
answered, they are *ambiguous*: avoided, and not suspected.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from attrs import define

from kafka_partition_events.health.broker_state import BrokerState, Trust
from kafka_partition_events.health.circuits import Circuits
from kafka_partition_events.health.in_flight import BrokerConnection, Subject, SubjectId
from kafka_partition_events.health.observations import BESIDE, CONNECTING, Observations
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.metadata.events import Role, Suspicion

_OUT_OF_ORDER_S = 0.005
"""A client may send what it got so much later sooner; and of a batch not the first record may be tracked."""


@define(eq=False)
class Silence:
    """A connection that is silent for longer than usual, and the brokers that it may wait for."""

    connection: BrokerConnection
    candidates: tuple[BrokerState, ...]  # its leader first
    is_stalled: bool = False  # it is silent for too long
    witnessed: bool = False  # a broker answered what was sent later, so that it is not we who are slow

    @property
    def named(self) -> set[SubjectId]:
        """The brokers that are candidates, in whatever role."""
        return {b.subject.id for b in self.candidates}


def find_stalls(circuits: Circuits, now: float) -> None:
    """Suspect what stalled connections have in common; doubt what there is no witness against."""
    seen, stalls = circuits.seen, list[Silence]()
    silences = [_silence_of(seen, connection, now) for connection in _silent_connections(circuits, now)]
    for stall in [silence for silence in silences if silence.is_stalled]:
        leader = stall.candidates[0]
        if any(b.is_bad for b in stall.candidates):  # that is known already
            if leader.trust is Trust.DOUBTED:
                circuits.enter(leader, Trust.TRUSTED, now)
            continue
        stall.witnessed = _is_witnessed(seen, stall.connection, now)
        if not stall.witnessed and leader.trust is Trust.TRUSTED:
            circuits.enter(leader, Trust.DOUBTED, now)
        stalls.append(stall)
    _conclude(seen, silences, _blame_common(circuits, stalls, now), now)


def _silent_connections(circuits: Circuits, now: float) -> Iterator[BrokerConnection]:
    """Yield those that are silent for longer than usual; suspect partitions that are overtaken in others."""
    seen = circuits.seen
    for connection in [c for c in seen.connections.values() if c.waiting]:
        leader = seen.leader(connection.broker)
        if seen.silence(connection, now) > seen.patience_alone(leader):
            yield connection
        else:
            for it in connection.overtaken(seen.patience(leader)):
                if connection.given_up is it:
                    connection.given_up = None
                seen.put_aside(it, now, aside=True)
                circuits.suspect(seen.state(it.itself), Suspicion.SILENT, now)


def _silence_of(seen: Observations, connection: BrokerConnection, now: float) -> Silence:
    """Return which brokers a silent connection may wait for, and whether that is for too long."""
    heads = (connection.head, *connection.sampled_lately)
    leader, *others = dict.fromkeys(b for it in heads for b in seen.needed(it))
    proven = _proven_from(seen, connection)
    candidates = (leader, *(b for b in others if b.answered_to <= proven))
    silence = Silence(connection, candidates)
    silence.is_stalled = seen.silence(connection, now) > seen.patience(leader, besides=silence.named)
    return silence


def _proven_from(seen: Observations, connection: BrokerConnection) -> float:
    """Return since when who has acknowledged something is no candidate: it may fall silent right after it."""
    asked_at = connection.asked_at
    if connection.given_up is None:
        asked_at = max(asked_at, connection.head.sent_at[0])
    return asked_at + seen.policy.linger + (seen.usual or 0.0)


def _is_witnessed(seen: Observations, connection: BrokerConnection, now: float) -> bool:
    """Return whether another connection was answered what was sent after this one's silence began.

    And clearly sooner than this silence lasts: when all answers become late alike, as over an uplink that is
    full, the first bears no witness against the second; nor against a connection that is still being made.
    """
    asked_at, linger = connection.asked_at, seen.policy.linger
    factor = BESIDE * (CONNECTING if connection.answered_to == -math.inf else 1)
    silence = seen.silence(connection, now) - linger
    others = (c for c in seen.connections.values() if c is not connection)
    return any(c.answered_to > asked_at and factor * (c.answered_in - linger) <= silence for c in others)


def _blame_common(circuits: Circuits, stalls: Sequence[Silence], now: float) -> frozenset[Subject]:
    """Suspect what stalls have in common, the most frequent first; return what is ambiguous."""
    while stalls:
        times = Counter(id_ for stall in stalls for id_ in stall.named)
        most = max(times.values())
        named = [id_ for id_, count in times.items() if count == most]
        ambiguous = frozenset(b.subject for s in stalls for b in s.candidates if b.subject.id in named)
        is_common = len(named) == 1 and len(stalls) > 1
        if len(named) > 1:  # one that is the only candidate of a stall is to blame anyway
            alone = [id_ for id_ in named if any(s.witnessed and s.named == {id_} for s in stalls)]
            named = alone[:1] or named
        explained = [stall for stall in stalls if not stall.named.isdisjoint(named)]
        witnessed = any(stall.witnessed for stall in explained)
        if not witnessed or len(named) > 1:  # where all are silent and have no broker in common it is we
            return ambiguous if witnessed or is_common else frozenset()
        _blame(circuits, named[0], explained, now)
        stalls = [stall for stall in stalls if stall not in explained]
    return frozenset()


def _blame(circuits: Circuits, broker: SubjectId, stalls: Sequence[Silence], now: float) -> None:
    """Suspect a broker in each role in which it is a candidate, or has not answered of late."""
    seen = circuits.seen
    proven = min(_proven_from(seen, stall.connection) for stall in stalls)
    named = {b.subject for stall in stalls for b in stall.candidates if b.subject.id == broker}
    heads = (stall.connection.head for stall in stalls)
    waiting = tuple(dict.fromkeys(TopicPartition(head.topic, head.partition) for head in heads))
    silence = max(seen.silence(stall.connection, now) for stall in stalls)
    roles = sorted((Role.LEADER, Role.REPLICA), key=lambda role: Subject(role, broker) not in named)
    for role in roles:  # it is announced in the role in which it was named
        b = seen.states.get(Subject(role, broker))
        # It may be late with one answer, and die a moment later: what it did right after that proves little.
        if b and (b.subject in named or b.answered_to <= max(proven, now - seen.patience(b))):
            circuits.suspect(b, Suspicion.SILENT, now, silence, waiting)


def _conclude(seen: Observations, silences: list[Silence], ambiguous: frozenset[Subject], now: float) -> None:
    """Note what follows from the connections that are silent, after suspects were named."""
    seen.ambiguous_since = min(seen.ambiguous_since, now) if ambiguous else math.inf
    seen.ambiguous = ambiguous
    # Patience with all grows with each suspect; what waits for a suspect is waited for all the same.
    awaited = {
        s.connection: [b for b in s.candidates if s.is_stalled or b.trust is Trust.SUSPECT] for s in silences
    }
    guilty = _cover({b.subject.id for b in _may_wait_for(seen, c) if b.is_bad} for c in awaited)
    seen.awaited = frozenset(
        b.subject for those in awaited.values() for b in those if b.subject.id in guilty or not b.is_bad
    )
    seen.waited_for = {}
    for c, those in awaited.items():
        bad = {b.subject.id for b in those if b.is_bad}
        if len(bad) == 1:
            (only,) = bad
            seen.waited_for[only] = max(seen.waited_for.get(only, 0.0), seen.silence(c, now))
    seen.held_up = tuple(
        c for c, those in awaited.items() if any(b.is_bad or seen.is_ambiguous(b) for b in those)
    )
    for c in seen.held_up:
        c.held_to = now
    gave_up = (c for c in seen.connections.values() if c.given_up is not None)
    seen.silent = Counter(c.handle for c in {*awaited, *gave_up})
    # What is in flight alone gets no witness by itself: it counts as stuck, and its copy is the witness.
    stalled = {s.connection: s for s in silences if s.is_stalled}
    others = any(c.waiting and c not in stalled for c in seen.connections.values())
    unknown = (c for c, s in stalled.items() if not any(b.is_bad for b in s.candidates))
    seen.alone = frozenset(() if others or any(s.witnessed for s in silences) else unknown)


def _may_wait_for(seen: Observations, connection: BrokerConnection) -> Iterator[BrokerState]:
    """Yield the brokers that a silent connection may wait for, whichever of its first batches is the head."""
    for it in (*connection.heads(seen.policy.linger + _OUT_OF_ORDER_S), *connection.sampled_lately):
        yield from seen.needed(it)


def _cover(suspects: Iterable[set[SubjectId]]) -> set[SubjectId]:
    """Return the suspects that are enough to explain why all connections are silent, of those of each.

    The others may have been named by mistake, and nothing but a probe shows it: they need not wait for that
    until the connections are free, which may be when the one to blame is back.
    """
    left, guilty = [those for those in suspects if those], set[SubjectId]()
    while left:
        times = Counter(id_ for those in left for id_ in those)
        guilty |= {id_ for id_, count in times.items() if count == max(times.values())}
        left = [those for those in left if those.isdisjoint(guilty)]
    return guilty
