"""What a partitioner's producers hear of their records: the thread-safe front of `routing.feedback`."""

import math
import random
import statistics
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from attrs import define, frozen

from kafka_partition_events.metadata.cluster import Cluster, TopicPartition
from kafka_partition_events.metadata.events import BrokerCleared, BrokerSuspected, Event
from kafka_partition_events.routing.feedback import Feedback
from kafka_partition_events.routing.judgement import Avoidance, Change, Policy, Suspected
from kafka_partition_events.routing.table import Route

LEAST_INTERVAL_S = 0.001
"""How far two looks at all brokers are apart at least: the application may poll for each record."""


@define
class _Load:
    """The tracked records of one partition; ``broker`` leads it, None when it is offline."""

    broker: int | None = None
    outstanding: int = 0
    waits_from: float = 0.0  # since when something is outstanding without an answer


_IDLE = _Load()

_USUAL = 1.5


@frozen(kw_only=True)
class DeliveryStats:
    """What deliveries have told so far.

    Attributes:
        exclusions: How many times a broker became suspect.
        probes: How many single records were sent to suspect brokers, to see whether they answer.
        suspects: The brokers that are avoided now.
        outstanding: Records on their way now, by partition; at high rates that is a sample.
    """

    exclusions: int = 0
    probes: int = 0
    suspects: frozenset[int] = frozenset()
    outstanding: Mapping[TopicPartition, int] = MappingProxyType({})


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
        self._loads: dict[tuple[str, int], _Load] = {}
        self._next_look = 0.0
        self._tracked = 0
        self._turns = 0
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
            loads = {TopicPartition(*tp): load.outstanding for tp, load in self._loads.items()}
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

    def turn_began(self) -> None:
        """Note that unkeyed records go to another partition from now on."""
        self._turns += 1

    def outstanding(self, topic: str, partitions: Iterable[int]) -> list[int]:
        """Return, for each partition, how many tracked records are on their way. Takes no lock."""
        loads = self._loads
        return [loads.get((topic, partition), _IDLE).outstanding for partition in partitions]

    def backlogs(self, topic: str, partitions: Collection[int]) -> list[int]:
        """Return, for each partition, how many turns of records wait there beyond what is usual.

        Counted in turns (the records that are tracked in one turn, on average), because 100 records and 101
        are the same and 1 turn and 2 are not. Usual is one and a half times the median and a turn: that
        a cluster is far away or busy says nothing of one partition.
        """
        with self._lock:
            per_turn = max(1.0, self._tracked / max(1, self._turns))
            loads = [self._loads.get((topic, partition), _IDLE) for partition in partitions]
            usual = _USUAL * (per_turn + statistics.median_low([load.outstanding for load in loads]))
            return [
                0 if load.broker is None else math.ceil(max(0.0, load.outstanding - usual) / per_turn)
                for load in loads
            ]

    def silent(self, topic: str, partitions: Collection[int]) -> frozenset[int]:
        """Return those partitions that have not answered for longer than their broker takes when all is well.

        The broker itself may well answer for others: so it is while a client looks for a partition's new
        leader. What is outstanding is answered or fails in the end, so nobody is silent for ever.
        """
        with self._lock:
            now = self._clock()
            return frozenset(partition for partition in partitions if self._is_silent(topic, partition, now))

    def _is_silent(self, topic: str, partition: int, now: float) -> bool:
        load = self._loads.get((topic, partition), _IDLE)
        if not load.outstanding or load.broker is None:
            return False
        return now - load.waits_from > self._feedback.threshold(load.broker)

    def wait_for_batches(self, seconds: float) -> None:
        """Take into account how long the client holds records back (``linger``); the longest one counts."""
        with self._lock:
            self._feedback.linger(seconds)

    # -- what happens --------------------------------------------------------------------------------

    def sent(self, topic: str, partition: int, broker: int | None) -> None:
        """Note a record that was sent, to a partition that the broker leads."""
        with self._lock:
            now = self._clock()
            load = self._loads.get((topic, partition))
            if load is None:
                load = self._loads[topic, partition] = _Load(broker)
            elif load.broker != broker:
                self._move(load, broker, now)
            if not load.outstanding:
                load.waits_from = now
            load.outstanding += 1
            self._tracked += 1
            if broker is not None:
                self._feedback.sent(broker, now)

    def withdrawn(self, topic: str, partition: int) -> None:
        """Take `sent` back: the client refused the record."""
        with self._lock:
            load = self._loads.get((topic, partition))
            if load is not None and load.outstanding:
                load.outstanding -= 1
                if load.broker is not None:
                    self._feedback.withdrawn(load.broker, self._clock())

    def answered(self, topic: str, partition: int, latency: float, name: str) -> tuple[Event, ...]:
        """Note that a broker answered a record, well or not, ``latency`` seconds after it was sent.

        Returns:
            What follows from it, to be emitted; ``name`` is the partitioner's in it.
        """
        return self._settle(topic, partition, name, lambda f, b, now: f.answered(b, latency, now))

    def failed(self, topic: str, partition: int, name: str) -> tuple[Event, ...]:
        """Note that the client gave a record up without an answer."""
        return self._settle(topic, partition, name, lambda f, b, now: f.failed(b, now))

    def _settle(
        self, topic: str, partition: int, name: str,
        note: Callable[[Feedback, int, float], tuple[Change, ...]],
    ) -> tuple[Event, ...]:  # fmt: skip
        with self._lock:
            load = self._loads.get((topic, partition))
            if load is None or not load.outstanding:
                return ()
            load.outstanding -= 1
            load.waits_from = self._clock()
            broker = load.broker
            if broker is None:
                return ()
            return self._told(name, lambda f, now: note(f, broker, now))

    def unreachable(self, broker: int, name: str) -> tuple[Event, ...]:
        """Note that a client lost its connection to a broker, or could not make one."""
        return self._told(name, lambda f, now: f.unreachable(broker, now))

    def heard(self, name: str) -> tuple[Event, ...]:
        """Look at all brokers; call it when all reports that had come in were noted. Cheap to call often."""
        if self._clock() < self._next_look:
            return ()
        return self._told(name, self._look)

    def _look(self, feedback: Feedback, now: float) -> tuple[Change, ...]:
        self._next_look = now + LEAST_INTERVAL_S
        return feedback.heard(now)

    def stuck(self) -> Mapping[tuple[str, int], int]:
        """Return the topics and partitions whose tracked records wait for a suspect broker, and which one."""
        with self._lock:
            brokers = self._feedback.stuck
            return {
                tp: load.broker
                for tp, load in self._loads.items()
                if load.outstanding and load.broker is not None and load.broker in brokers
            }

    def take_probe(self, topic: str, route: Route) -> int | None:
        """Return a partition of a suspect broker that one unkeyed record shall be sent to; None: no need."""
        with self._lock:
            now = self._clock()
            for broker in self._feedback.due_for_a_probe(now):
                led = [partition for partition in route.avoided if route.leader(partition) == broker]
                if led:
                    self._feedback.probed(broker, now)
                    self._probes += 1
                    return random.choice(led)
        return None

    def follow(self, cluster: Cluster | None, name: str) -> tuple[Event, ...]:
        """Take a new snapshot into account: records outstanding go along to a partition's new leader."""
        if cluster is None:
            return ()
        with self._lock:
            now = self._clock()
            for (topic, partition), load in tuple(self._loads.items()):
                info = cluster.partition((topic, partition))
                leader = None if info is None else info.leader
                if load.broker != leader:
                    self._move(load, leader, now)
                if info is None and not load.outstanding:
                    del self._loads[topic, partition]
            return self._told(name, lambda f, now: f.follow(cluster.nodes.keys(), now))

    # -- telling -------------------------------------------------------------------------------------

    def _move(self, load: _Load, broker: int | None, now: float) -> None:
        if load.broker is not None and load.outstanding:
            self._feedback.withdrawn(load.broker, now, load.outstanding)
        if broker is not None and load.outstanding:
            self._feedback.sent(broker, now, load.outstanding)
        load.broker = broker

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
            reason=change.reason,
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
