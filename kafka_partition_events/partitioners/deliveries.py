"""What a partitioner's producers hear of their records: the thread-safe front of `routing.feedback`."""

import math
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from attrs import define, frozen

from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicPartition
from kafka_partition_events.metadata.events import BrokerCleared, BrokerSuspected, Event, Role
from kafka_partition_events.routing.feedback import Feedback
from kafka_partition_events.routing.judgement import Avoidance, Change, Policy, Suspected
from kafka_partition_events.routing.lanes import MAIN, Lane, Subject
from kafka_partition_events.routing.table import Route

LEAST_INTERVAL_S = 0.002
"""How far two looks at all brokers are apart at least: the application may poll for each record."""


_USUAL = 1.5


@frozen(kw_only=True)
class DeliveryStats:
    """What deliveries have told so far.

    Attributes:
        exclusions: How many times a broker became suspect for longer than a hiccup.
        probes: How many single records were sent to suspect brokers, to see whether they answer.
        suspects: The brokers that are avoided now.
        outstanding: Records on their way now, by partition; at high rates that is a sample.
    """

    exclusions: int = 0
    probes: int = 0
    suspects: frozenset[int] = frozenset()
    outstanding: Mapping[TopicPartition, int] = MappingProxyType({})


_LATELY = 0.2
"""How much the last turn counts beside those before."""


@define(eq=False)
class _Pace:
    """How many records of a topic are tracked in one turn."""

    tracked: int = 0  # in this one
    _turns: int = 0
    _usual: float = 0.0

    @property
    def per_turn(self) -> float:
        """How many there are lately, on average."""
        return max(1.0, self._usual if self._turns > 1 else self.tracked)

    def turn_began(self) -> None:
        """Take the turn that is over into account."""
        if self._turns:
            self._usual += max(_LATELY, 1 / self._turns) * (self.tracked - self._usual)
        self._turns += 1
        self.tracked = 0


class Deliveries:
    """Outstanding records by partition and broker, and which brokers to avoid because of them.

    The producers that share the partitioner report here: confluent-kafka's delivery callbacks run in the
    thread that polls, kafka-python's in its I/O thread. Thread-safe. Nothing waits for I/O under the lock.
    The lock is re-entrant because the garbage collector may run in here and close a producer.
    """

    def __init__(
        self,
        on_change: Callable[[], None],
        policy: Policy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make an account without records.

        Args:
            on_change: Called, without the lock, after `avoidance` has changed.
            policy: When a broker is suspected and how it comes back.
            clock: Monotonic seconds; for tests.
        """
        self.avoiding = False
        """Whether there is anybody to avoid."""
        self.probing = False
        """Whether it is worth asking for `take_probe`."""
        self._on_change = on_change
        self._clock = clock
        self._lock = threading.RLock()
        self._feedback = Feedback(policy)
        self._lanes: list[dict[tuple[str, int], Lane]] = [{}]  # by way
        self._needs_replicas = False
        self._next_look = 0.0
        self._paces: dict[str, _Pace] = {}
        self._exclusions = 0
        self._probes = 0

    @property
    def avoidance(self) -> Avoidance:
        """Whom to avoid now."""
        return self._feedback.avoidance

    def suspects(self) -> frozenset[int]:
        """Return the brokers that are avoided now."""
        return self.avoidance.suspect

    @property
    def stats(self) -> DeliveryStats:
        """What deliveries have told so far."""
        with self._lock:
            loads: Counter[TopicPartition] = Counter()
            for lanes in self._lanes:
                for tp, lane in lanes.items():
                    loads[TopicPartition(*tp)] += lane.outstanding
            return DeliveryStats(
                exclusions=self._exclusions,
                probes=self._probes,
                suspects=self.suspects(),
                outstanding=MappingProxyType(loads),
            )

    @property
    def linger(self) -> float:
        """How many seconds the producers hold records back; the longest of them."""
        return self._feedback.policy.linger

    @property
    def usual_answer(self) -> float | None:
        """How many seconds brokers usually take to answer, beyond linger; None: not known yet."""
        with self._lock:
            usual = self._feedback.usual
            return None if usual is None else max(0.0, usual - self._feedback.policy.linger)

    def turn_began(self, topic: str) -> None:
        """Note that a topic's unkeyed records go to another partition from now on."""
        with self._lock:
            self._paces.setdefault(topic, _Pace()).turn_began()

    def outstanding(self, topic: str, partitions: Iterable[int]) -> list[int]:
        """Return, for each partition, how many tracked records are on their way. Takes no lock."""
        return [
            sum(
                lane.outstanding
                for lanes in self._lanes
                if (lane := lanes.get((topic, partition))) is not None
            )
            for partition in partitions
        ]

    def backlogs(self, topic: str, partitions: Collection[int]) -> list[int]:
        """Return, for each partition, how many turns of records wait there beyond what is usual.

        Counted in turns (the records of the topic that are tracked in one, lately), because 100 records and
        101 are the same and 1 turn and 2 are not. Usual is one and a half times the median and a turn: that
        a cluster is far away or busy says nothing of one partition.
        """
        with self._lock:
            pace = self._paces.get(topic)
            per_turn = 1.0 if pace is None else pace.per_turn
            lanes = [self._lane(topic, partition) for partition in partitions]
            waiting = [0 if lane is None or lane.leader is None else lane.outstanding for lane in lanes]
            usual = _USUAL * (per_turn + statistics.median_low(waiting))
            return [math.ceil(max(0.0, outstanding - usual) / per_turn) for outstanding in waiting]

    def lagging(self) -> frozenset[int]:
        """Return the brokers that are behind: their oldest record waits longer than it need.

        They may well answer, but more slowly than they are sent to, as over a link of little bandwidth.
        """
        with self._lock:
            return self._feedback.lagging(self._clock())

    def _lane(self, topic: str, partition: int) -> Lane | None:
        """Return what waits on the way that records take now."""
        return self._lanes[self._feedback.way].get((topic, partition))

    @property
    def way(self) -> int:
        """Which way records that need nobody suspect are to take."""
        return self._feedback.way

    @property
    def on_standby(self) -> bool:
        """Whether they are to take another way than the first."""
        return self._feedback.way != MAIN

    def has_standby(self, ways: int = 1) -> None:
        """Note that the client has so many more ways, each with connections of its own."""
        with self._lock:
            self._feedback.standbys = max(ways, self._feedback.standbys)
            self._lanes += [{} for _ in range(1 + ways - len(self._lanes))]

    def wait_for_replicas(self) -> None:
        """Note that records wait for every in-sync replica (``acks=all``)."""
        self._needs_replicas = True

    def wait_for_batches(self, seconds: float) -> None:
        """Take into account how long the client holds records back (``linger``); the longest one counts."""
        with self._lock:
            self._feedback.linger(seconds)

    # -- what happens --------------------------------------------------------------------------------

    def sent(
        self,
        topic: str,
        partition: int,
        broker: int | None,
        followers: frozenset[int] = frozenset(),
        way: int = MAIN,
    ) -> None:
        """Note a record that was sent, to a partition that the broker leads and these others follow."""
        if not self._needs_replicas:
            followers = frozenset()
        with self._lock:
            now = self._clock()
            lane = self._lanes[way].get((topic, partition))
            if lane is None:
                lane = Lane(topic, partition, way, broker, followers)
                self._lanes[way][topic, partition] = lane
            else:
                self._feedback.move(lane, broker, followers, now)
            pace = self._paces.get(topic)
            if pace is None:
                pace = self._paces[topic] = _Pace()
            pace.tracked += 1
            self._feedback.sent(lane, now)

    def withdrawn(self, topic: str, partition: int, way: int = MAIN) -> None:
        """Take `sent` back: the client refused the record."""
        with self._lock:
            lane = self._lanes[way].get((topic, partition))
            if lane is not None:
                self._feedback.withdrawn(lane, self._clock())

    def answered(
        self, topic: str, partition: int, latency: float, name: str, way: int = MAIN
    ) -> tuple[Event, ...]:
        """Note that a record was answered, well or not, ``latency`` seconds after it was sent.

        Returns:
            What follows from it, to be emitted; ``name`` is the partitioner's in it.
        """
        return self._settle(topic, partition, name, way, lambda f, lane, now: f.answered(lane, latency, now))

    def failed(self, topic: str, partition: int, name: str, way: int = MAIN) -> tuple[Event, ...]:
        """Note that the client gave a record up without an answer."""
        return self._settle(topic, partition, name, way, lambda f, lane, now: f.failed(lane, now))

    def _settle(
        self, topic: str, partition: int, name: str, way: int,
        note: Callable[[Feedback, Lane, float], tuple[Change, ...]],
    ) -> tuple[Event, ...]:  # fmt: skip
        with self._lock:
            lane = self._lanes[way].get((topic, partition))
            if lane is None or not lane.sent_at:
                return ()
            return self._told(name, lambda f, now: note(f, lane, now))

    def unreachable(self, broker: int, name: str) -> tuple[Event, ...]:
        """Note that a client lost its connection to a broker, or could not make one."""
        return self._told(name, lambda f, now: f.unreachable(broker, now))

    def heard(self, name: str) -> tuple[Event, ...]:
        """Look at all brokers; call it when all reports that had come in were noted. Cheap to call often."""
        return () if self._clock() < self._next_look else self._told(name, self._look)

    def _look(self, feedback: Feedback, now: float) -> tuple[Change, ...]:
        self._next_look = now + LEAST_INTERVAL_S
        return feedback.heard(now)

    def stuck(self) -> Mapping[tuple[int, str, int], int | None]:
        """Return the ways, topics and partitions whose tracked records wait for a suspect, or behind some.

        With each the broker that leads it.
        """
        with self._lock:
            return {
                (way, *tp): lane.leader
                for way, lanes in enumerate(self._lanes)
                for tp, lane in lanes.items()
                if lane.sent_at and self._feedback.is_stuck(lane)
            }

    def take_probe(self, topic: str, route: Route) -> int | None:
        """Return a partition that one unkeyed record shall be sent to, to try a suspect; None: no need."""
        with self._lock:
            now = self._clock()
            for subject in self._feedback.due_for_a_probe(now):
                # Where each partition needs two of them both are tried at once: they would wait for ever.
                fit = [p for p in route.avoided if self._tries(subject, route, p, alone=True)] or [
                    p for p in route.avoided if self._tries(subject, route, p, alone=False)
                ]
                idle = [p for p in fit if not any(self.outstanding(topic, (p,)))]
                if not self._feedback.may_be_tried(subject) and subject.role is Role.LEADER:
                    fit = idle  # what waits already tells nothing of its leader
                if fit := idle or fit:
                    self._feedback.probed(subject, now)
                    self._probes += 1
                    return random.choice(fit)
        return None

    def _tries(self, subject: Subject, route: Route, partition: int, *, alone: bool) -> bool:
        """Tell whether a record to a partition tries this suspect, and no others (or some on probation)."""
        own = self._lane_of(route.info.name, route.info.partitions[partition])
        bad = [s for s in (*own.brokers, own.own) if self._feedback.is_avoided(s)]
        if alone:
            return bad == [subject]
        return subject in bad and all(self._feedback.may_be_tried(s) for s in bad)

    def _lane_of(self, topic: str, info: PartitionInfo) -> Lane:
        """Return an empty lane, to ask it whom records of a partition need."""
        followers = info.followers if self._needs_replicas else frozenset()
        return Lane(topic, info.partition, MAIN, info.leader, followers)

    def follow(self, cluster: Cluster | None, name: str) -> tuple[Event, ...]:
        """Take a new snapshot into account: records outstanding go along to a partition's new leader."""
        if cluster is None:
            return ()
        with self._lock:
            now = self._clock()
            for lanes in self._lanes:
                for (topic, partition), lane in tuple(lanes.items()):
                    info = cluster.partition((topic, partition))
                    followers = info.followers if info is not None and self._needs_replicas else frozenset()
                    self._feedback.move(lane, None if info is None else info.leader, followers, now)
                    if info is None and not lane.sent_at:
                        self._feedback.forget(lane)
                        del lanes[topic, partition]
            for topic in self._paces.keys() - cluster.by_topic.keys():
                del self._paces[topic]
            needed = self._needed_by(cluster) if self.avoidance else None
            return self._told(name, lambda f, now: f.follow(cluster.nodes.keys(), now, needed))

    def _needed_by(self, cluster: Cluster) -> frozenset[Subject]:
        """Return whom records of some partition need. Takes a look at each: for when somebody is suspect."""
        return frozenset(
            subject
            for topic, info in cluster.by_topic.items()
            for partition in info.partitions
            for subject in self._lane_of(topic, partition).brokers
        )

    # -- telling -------------------------------------------------------------------------------------

    def _told(self, name: str, note: Callable[[Feedback, float], tuple[Change, ...]]) -> tuple[Event, ...]:
        with self._lock:
            before = self.avoidance
            changes = note(self._feedback, self._clock())
            self.probing = self._feedback.probing
            self.avoiding = bool(self.avoidance)
            changed = self.avoidance is not before
        if changed:
            self._on_change()
        if not changes:
            return ()
        self._exclusions += sum(isinstance(change, Suspected) for change in changes)
        return tuple(_event(change, name) for change in changes)


def _event(change: Change, name: str) -> Event:
    usual_ms = None if change.usual is None else change.usual * 1000
    if isinstance(change, Suspected):
        return BrokerSuspected(
            broker=change.broker,
            role=change.role,
            reason=change.reason,
            waiting=tuple(TopicPartition(*tp) for tp in change.waiting),
            outstanding=change.outstanding,
            silence_ms=change.silence * 1000,
            usual_ms=usual_ms,
            partitioner=name,
        )
    return BrokerCleared(
        broker=change.broker,
        reason=change.reason,
        suspected_ms=change.lasted * 1000,
        probes=change.probes,
        usual_ms=usual_ms,
        partitioner=name,
    )
