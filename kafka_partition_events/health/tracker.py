"""What a partitioner's producers have in flight: the thread-safe front of `FailureDetector`."""

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from threading import RLock, get_ident
from types import MappingProxyType
from typing import TypeVar

from attrs import evolve, frozen

from kafka_partition_events.health.avoiding import due_probes
from kafka_partition_events.health.broker_state import BrokerState, Trust
from kafka_partition_events.health.circuits import Change
from kafka_partition_events.health.detector import FailureDetector
from kafka_partition_events.health.in_flight import MAIN, STANDBY, InFlight, Subject, brokers_needed
from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicPartition
from kafka_partition_events.metadata.events import BrokerSuspected, Event, Role
from kafka_partition_events.routing.table import Route

LEAST_INTERVAL_S = 0.002  # between two conclusions: the application may poll for each record
PROBE_DRAWS = 8  # partitions that are drawn for a probe: a record in `produce` pays for it

_T = TypeVar("_T")
_Changes = Iterable[Change] | None


@frozen(kw_only=True)
class TrackerStats:
    """What delivery reports have shown so far.

    Attributes:
        exclusions: How many times a broker became suspect for longer than a hiccup.
        probes: How many single records were sent to suspect brokers, to see whether they answer.
        suspects: The brokers that are avoided now.
        outstanding: Records in flight now, by partition; at high rates that is a sample.
    """

    exclusions: int = 0
    probes: int = 0
    suspects: frozenset[int] = frozenset()
    outstanding: Mapping[TopicPartition, int] = MappingProxyType({})


class DeliveryTracker:
    """Records in flight by partition and broker, and which brokers to avoid because of them.

    The producers that share the partitioner report here: confluent-kafka's delivery callbacks run in the
    thread that polls, kafka-python's in its I/O thread. Thread-safe, also in signal handlers and finalizers.
    Nothing waits for I/O under the lock. Events that are returned are the caller's to emit.
    """

    def __init__(
        self,
        on_change: Callable[[], None],
        policy: DetectorPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        name: Callable[[], str] = lambda: "",
    ) -> None:
        """Begin with nothing in flight.

        ``on_change`` is called, without the lock, after `avoidance` has changed; ``name`` returns what events
        call the partitioner.
        """
        self._on_change = on_change
        self._clock = clock
        self._name = name
        self._detector = FailureDetector(policy)
        self._lock = RLock()
        self._player: int | None = None  # the thread that takes a step
        self._steps: deque[Callable[[float], _Changes]] = deque()
        self._events: list[Event] = []  # that were not taken yet
        self._in_flight: dict[tuple[int, str, int], InFlight] = {}  # by handle, topic and partition
        self._needs_replicas = False
        self._next_conclusions = 0.0
        self._tracked: Counter[str] = Counter()
        self._by_producer: dict[int, Counter[InFlight]] = {}
        self._producers = count(1)
        self._exclusions = 0
        self._probes = 0
        self._renew()

    def _renew(self) -> None:
        self.avoidance = self._detector.avoidance  # what to avoid now
        self.handle = self._detector.handle  # for records that need no suspect
        self.probing = self._detector.probing  # it is worth asking for `take_probe`
        # Also where none is avoided as all are silent: another handle shows whether it is us. The last one,
        # which others read first, without the lock.
        self.avoiding = bool(self.avoidance) or self.handle != MAIN

    def _play(self, step: Callable[[float], _Changes]) -> tuple[Event, ...]:
        """Take a step under the lock; within another one of this very thread put it off until that is over.

        One that returns changes has events returned, with those that steps without had left.
        A signal handler or a finalizer runs between any two byte codes, and may report there. The lock lets
        its own thread in again: to take it and to note whose it is are one step, in C. Other threads wait.

        - Within a step ``_player`` is set: the handler only appends, and who was interrupted finds that.
        - Before it is set, and after it was, the handler plays all that is there. Who was interrupted finds
          nothing left, or checks the deque again before the lock is free.
        """
        events: list[Event] = []
        with self._lock:
            before = self.avoidance, self.avoiding
            self._steps.append(step)
            while self._steps and self._player is None:
                try:
                    self._player = get_ident()
                    while self._steps:
                        played = self._steps.popleft()
                        changes = played(self._clock())
                        for change in changes or ():
                            self._exclusions += isinstance(change, BrokerSuspected)
                            self._events.append(evolve(change, partitioner=self._name()))
                        if played is step and changes is not None:
                            events, self._events = self._events, []
                    self._renew()
                finally:
                    self._player = None
        if before != (self.avoidance, self.avoiding):
            self._on_change()
        return tuple(events)

    def _ask(self, question: Callable[[float], _T], meanwhile: _T) -> _T:
        """Return what a step returns; ``meanwhile`` where this thread is interrupted within another one."""
        if self._player == get_ident():
            return meanwhile
        answers: list[_T] = []
        self._play(lambda now: answers.append(question(now)))
        return answers[0]

    def suspects(self) -> frozenset[int]:
        """Return the brokers that are avoided now."""
        return self.avoidance.suspect

    @property
    def stats(self) -> TrackerStats:
        """What delivery reports have shown so far. Takes no lock."""
        loads: Counter[TopicPartition] = Counter()
        for it in tuple(self._in_flight.values()):
            loads[TopicPartition(it.topic, it.partition)] += it.outstanding
        outstanding, suspects = MappingProxyType(loads), self.suspects()
        return TrackerStats(
            exclusions=self._exclusions, probes=self._probes, suspects=suspects, outstanding=outstanding
        )

    @property
    def linger(self) -> float:
        """How many seconds the producers hold records back; the longest of them."""
        return self._detector.seen.policy.linger

    @property
    def usual_answer(self) -> float | None:
        """How many seconds brokers usually take to answer, beyond linger; None: not known yet."""
        usual = self._ask(lambda _: self._detector.seen.usual, None)
        return None if usual is None else max(0.0, usual - self.linger)

    def outstanding(self, topic: str, partitions: Iterable[int]) -> list[int]:
        """Return, for each partition, how many tracked records are in flight. Takes no lock."""
        handles, get = range(MAIN, STANDBY + self._detector.standbys), self._in_flight.get
        return [sum(it.outstanding for h in handles if (it := get((h, topic, p)))) for p in partitions]

    def waiting(self, topic: str, partitions: Iterable[int]) -> list[int]:
        """Return the same of records on the handle that they take now, of partitions that have a leader."""
        those = [self._in_flight.get((self.handle, topic, p)) for p in partitions]
        return [0 if it is None or it.leader is None else it.outstanding for it in those]

    def tracks(self, handle: int, topic: str, partition: int) -> bool:
        """Return whether a record that is in flight there is tracked. Takes no lock."""
        return bool((it := self._in_flight.get((handle, topic, partition))) and it.sent_at)

    def tracked(self, topic: str) -> int:
        """Return how many records of a topic have been tracked so far."""
        return self._tracked[topic]

    def lagging(self) -> frozenset[int]:
        """Return the brokers that answer more slowly than they are sent to: their oldest record waits."""
        return self._ask(self._detector.lagging, frozenset())

    def serve(self, *, linger: float = 0.0, acks_all: bool = False, standbys: int = 0) -> None:
        """Take one more client into account; the most of all counts.

        It holds records back for so many seconds, has them wait for every in-sync replica, and has so many
        more handles, each with connections of its own.
        """
        self._needs_replicas |= acks_all
        self._detector.standbys = max(standbys, self._detector.standbys)
        with self._lock:
            seen = self._detector.seen
            seen.policy = evolve(seen.policy, linger=max(linger, seen.policy.linger))

    def new_producer(self) -> int:
        """Return what stands for one producer in what is reported of its records."""
        producer = next(self._producers)
        self._by_producer[producer] = Counter()
        return producer

    def producer_ended(self, producer: int) -> None:
        """Count what a producer has in flight no more: it was dropped, and reports nothing any more."""

        def step(now: float) -> None:
            for it, records in self._by_producer.pop(producer, Counter[InFlight]()).items():
                self._detector.withdrawn(it, now, records, ended=True)

        self._play(step)

    def sent(self, topic: str, partition: int, broker: int | None, followers: frozenset[int] = frozenset(),
             handle: int = MAIN, producer: int = 0, *, sampled: bool = False) -> None:  # fmt: skip
        """Take note of a record that was sent to a partition that ``broker`` leads and others follow.

        ``producer``: what `new_producer` has returned, here and in what is reported of the record.
        ``sampled``: see `FailureDetector.sent`.
        """
        key, needed = (handle, topic, partition), followers if self._needs_replicas else frozenset[int]()

        def step(now: float) -> None:
            own = self._by_producer.get(producer)
            if producer and own is None:  # it has ended: nothing that is reported of this would be heard
                return
            if (it := self._in_flight.get(key)) is None:
                it = self._in_flight[key] = InFlight(topic, partition, handle, broker, needed)
            self._detector.moved(it, broker, needed, now)
            self._tracked[topic] += 1
            self._detector.sent(it, now, sampled=sampled)
            if own is not None:
                own[it] += 1

        self._play(step)

    def withdrawn(self, topic: str, partition: int, handle: int = MAIN, producer: int = 0) -> None:
        """Take `sent` back: the client refused the record."""
        key = (topic, partition, handle, producer)
        self._play(lambda now: self._detector.withdrawn(it, now) if (it := self._settled(*key)) else None)

    def answered(
        self, topic: str, partition: int, latency: float, handle: int = MAIN, producer: int = 0
    ) -> tuple[Event, ...]:
        """Take note that a record was answered, well or not, ``latency`` seconds after it was sent."""
        key, detector = (topic, partition, handle, producer), self._detector
        return self._play(
            lambda now: detector.answered(it, latency, now) if (it := self._settled(*key)) else ()
        )

    def failed(self, topic: str, partition: int, handle: int = MAIN, producer: int = 0) -> tuple[Event, ...]:
        """Take note that the client gave a record up without an answer."""
        key = (topic, partition, handle, producer)
        return self._play(lambda now: self._detector.failed(it, now) if (it := self._settled(*key)) else ())

    def _settled(self, topic: str, partition: int, handle: int, producer: int) -> InFlight | None:
        """Return where a record is in flight that its producer has no more; None: it is not tracked."""
        if (it := self._in_flight.get((handle, topic, partition))) is None or not it.sent_at:
            return None
        own = self._by_producer.get(producer)
        if own:
            own[it] -= 1
        return it if own is not None or not producer else None  # what has ended took along what it had

    def throttled(self, broker: int, seconds: float) -> None:
        """Take note that a broker throttles the client for so long, for a quota: that is no silence."""
        self._play(lambda now: self._detector.throttled(broker, seconds, now))

    def unreachable(self, broker: int) -> tuple[Event, ...]:
        """Take note that a client lost its connection to a broker, or could not make one."""
        return self._play(lambda now: self._detector.unreachable(broker, now))

    def polled(self) -> tuple[Event, ...]:
        """Draw conclusions; call it when all reports that had come in were noted. Cheap to call often."""
        if (now := self._clock()) < self._next_conclusions:
            return ()
        self._next_conclusions = now + LEAST_INTERVAL_S
        return self._play(self._detector.polled)

    def snapshot(self, cluster: Cluster | None) -> tuple[Event, ...]:
        """Take a new snapshot into account: what is in flight goes along to a partition's new leader."""
        if cluster is None:
            return ()
        needed, moved = None, []
        if self.avoidance:
            every = (p for info in cluster.by_topic.values() for p in info.partitions)
            placed = {(p.leader, self._followers(p)) for p in every}
            needed = {subject for place in placed for subject in brokers_needed(*place)}
        for it in tuple(self._in_flight.values()):  # without the lock: a copy is made in one step
            info = cluster.partition((it.topic, it.partition))
            leader, followers = (None if info is None else info.leader), self._followers(info)
            if info is None or (leader, followers) != (it.leader, it.followers):
                moved.append((it, leader, followers, info is None))

        def step(now: float) -> Iterable[Change]:
            for it, leader, followers, is_gone in moved:
                self._detector.moved(it, leader, followers, now)
                if is_gone and not it.sent_at:
                    self._detector.forget(it)
                    self._in_flight.pop((it.handle, it.topic, it.partition), None)
                    for own in tuple(self._by_producer.values()):
                        own.pop(it, None)
            for topic in self._tracked.keys() - cluster.by_topic.keys():
                del self._tracked[topic]
            return self._detector.snapshot(cluster.nodes.keys(), now, needed)

        return self._play(step)

    def _followers(self, info: PartitionInfo | None) -> frozenset[int]:
        return info.followers if info is not None and self._needs_replicas else frozenset()

    def stuck(self) -> Mapping[tuple[int, str, int], int | None]:
        """Return where tracked records wait for a suspect: handle, topic and partition, with its leader."""
        stuck = self._ask(self._detector.stuck, list[InFlight]())
        return {(it.handle, it.topic, it.partition): it.leader for it in stuck}

    def take_probe(self, topic: str, route: Route) -> int | None:
        """Return a partition that one unkeyed record shall be sent to, to try a suspect; None: no need."""
        drawn = random.sample(route.avoided, min(PROBE_DRAWS, len(route.avoided)))
        return self._ask(lambda now: self._probe(topic, route, drawn, now), None)

    def take_keyed_probe(self, topic: str, route: Route, partition: int) -> int | None:
        """Return by which handle a keyed record shall try a suspect that its partition needs; None: by none.

        By the first, for it blocks what it takes if the suspect still hangs; unless that is blocked already.
        """
        if not self.probing:
            return None

        def probe(now: float) -> int | None:
            if self._probe(topic, route, [partition], now) is None:
                return None
            leader, held_up = route.leader(partition), self._detector.seen.held_up
            is_blocked = any((c.handle, c.broker) == (MAIN, leader) for c in held_up)
            return self._detector.handle if is_blocked else MAIN

        return self._ask(probe, None)

    def _probe(self, topic: str, route: Route, drawn: list[int], now: float) -> int | None:
        detector, places = self._detector, {p: Subject(None, (topic, p)) for p in drawn}
        due = due_probes(detector.seen, now, places.values())
        bad = {p: self._bad(places[p], route.info.partitions[p]) for p in drawn} if due else {}
        for b in due:
            # Where each partition needs two of them both are tried at once: they would wait for ever.
            fit = [p for p in drawn if bad[p] == [b]] or [
                p for p in drawn if b in bad[p] and all(it.trust is Trust.PROBATION for it in bad[p])
            ]
            idle = [p for p in fit if not any(self.outstanding(topic, (p,)))]
            if b.subject.role is Role.LEADER and b.trust is not Trust.PROBATION:
                fit = idle  # what waits already shows nothing of its leader
            if fit := idle or fit:
                detector.probed(b.subject, now)
                self._probes += 1
                return fit[0]
        return None

    def _bad(self, itself: Subject, info: PartitionInfo) -> list[BrokerState]:
        seen = self._detector.seen
        needs = map(seen.states.get, brokers_needed(info.leader, self._followers(info)))
        known = (*needs, seen.partitions.get(itself))
        return [b for b in known if b and (b.is_bad or b.subject in seen.ambiguous)]
