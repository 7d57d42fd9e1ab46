"""A small world of brokers and a producer, to see what delivery feedback comes to. No threads, no real time.

What is real in it: `AdaptivePartitioner`, its `Deliveries` and the judge behind them, asked and told in the
order in which `PartitioningProducer` asks and tells. What is modelled: a producer that sends at a steady rate
and polls before each record; batches that wait for ``linger``; brokers that answer batches in order, after a
drawn time; their faults; and stops of the producer's own process. One seed, one history.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

from attrs import define, field, frozen

from kafka_partition_events.metadata.events import BrokerCleared, BrokerSuspected, Event
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.partitioners.deliveries import Deliveries
from kafka_partition_events.routing.judgement import Policy
from kafka_partition_events.testing.scripted import cluster_of

TOPIC = "t"
LATE = 0.1
"""A record is late if it is not acknowledged within so many seconds."""

Latency = Callable[[random.Random, float], float]
"""Draws the seconds that a broker takes for a batch that reaches it at a moment."""


def usual(median: float = 0.002, spread: float = 0.3) -> Latency:
    """Return a broker's time to answer on a quiet machine: log-normal."""
    return lambda rng, _now: median * rng.lognormvariate(0, spread)


def noisy(spread: float = 0.8, spikes: float = 0.01, longest: float = 0.15, median: float = 0.004) -> Latency:
    """Return times to answer where all processors are busy: a wide spread, and some answers take long."""

    def draw(rng: random.Random, _now: float) -> float:
        spike = rng.uniform(0.02, longest) if rng.random() < spikes else 0.0
        return median * rng.lognormvariate(0, spread) + spike

    return draw


@frozen(kw_only=True)
class Frozen:
    """The broker stands still for ``stopped`` seconds of each ``period``, from a moment to another."""

    since: float
    stopped: float = 0.4
    period: float = 0.5
    until: float = float("inf")

    def answer_at(self, moment: float) -> float:
        if not self.since <= moment < self.until:
            return moment
        into = (moment - self.since) % self.period
        return moment + self.stopped - into if into < self.stopped else moment


@frozen(kw_only=True)
class Slow:
    """The broker takes so many seconds more for everything, from a moment on."""

    since: float
    more: float = 0.1
    until: float = float("inf")

    def answer_at(self, moment: float) -> float:
        return moment + self.more if self.since <= moment < self.until else moment


@frozen(kw_only=True)
class Dead:
    """The broker never answers again. The client is told of the lost connection, or (a lost host) is not."""

    since: float
    told_after: float | None = 0.002

    def answer_at(self, moment: float) -> float:
        return float("inf") if moment >= self.since else moment


Fault = Frozen | Slow | Dead


@frozen(kw_only=True)
class Pause:
    """A stop of the producer. A whole process that stops does not read its sockets either."""

    at: float
    seconds: float
    whole_process: bool = True


@define(eq=False)
class _Batch:
    partition: int
    broker: int
    closes_at: float
    sent_at: list[float] = field(factory=list)


@define(kw_only=True)
class Outcome:
    """What came of it, of the records that were sent from ``since`` on."""

    records: int = 0
    late: int = 0
    to: Counter[int] = field(factory=Counter)
    by_broker_and_second: Counter[tuple[int, int]] = field(factory=Counter)
    suspected: list[tuple[float, BrokerSuspected]] = field(factory=list)
    cleared: list[tuple[float, BrokerCleared]] = field(factory=list)
    excluded_s: dict[int, float] = field(factory=dict)
    probes: int = 0
    most_probes_at_once: int = 0
    suspects: frozenset[int] = frozenset()

    @property
    def late_share(self) -> float:
        return self.late / max(1, self.records)

    def share_to(self, broker: int) -> float:
        return self.to[broker] / max(1, self.records)


@define(kw_only=True)
class Simulation:
    """Three brokers, a topic of six partitions, one producer. All times in seconds."""

    seed: int = 0
    seconds: float = 9.0
    since: float = 0.0
    rate: float = 2000.0
    turn: float = 0.005
    linger: float = 0.005
    time_out: float = 3.0
    brokers: int = 3
    partitions: int = 6
    latency: Latency = field(factory=usual)
    faults: dict[int, Fault] = field(factory=dict)
    pauses: Sequence[Pause] = ()
    policy: Policy | None = None
    start: float = 0.0
    """What the clock says at the beginning; the moments above count from there."""

    def run(self) -> Outcome:
        state = random.getstate()
        random.seed(self.seed)  # a probe's partition is drawn from the common source
        try:
            return _Run(self).run()
        finally:
            random.setstate(state)


class _Run:
    def __init__(self, simulation: Simulation) -> None:
        self.s = simulation
        self.rng = random.Random(simulation.seed)
        self.now = 0.0
        self.out = Outcome()
        self.partitioner = AdaptivePartitioner(rng=random.Random(simulation.seed), clock=self.clock)
        self.deliveries = self.partitioner.deliveries = Deliveries(
            self.partitioner._use_current_routes, simulation.policy, self.clock
        )
        self.deliveries.wait_for_batches(simulation.linger)
        brokers = range(1, simulation.brokers + 1)
        self.leaders = [brokers[p % simulation.brokers] for p in range(simulation.partitions)]
        self.partitioner.adopt(cluster_of({TOPIC: list(self.leaders)}, brokers=list(brokers)))
        self.open: dict[int, _Batch] = {}
        self.order = count()
        self.reports: list[tuple[float, int, _Batch, bool]] = []
        self.last_answer: dict[int, float] = {}
        self.turn_ends = 0.0
        self.stuck_to = -1

    def clock(self) -> float:
        return self.s.start + self.now

    def run(self) -> Outcome:
        pauses = sorted(self.s.pauses, key=lambda p: p.at)
        told = sorted(
            (fault.since + fault.told_after, broker)
            for broker, fault in self.s.faults.items()
            if isinstance(fault, Dead) and fault.told_after is not None
        )
        step = 1 / self.s.rate
        while self.now < self.s.seconds:
            while told and told[0][0] <= self.now:
                self.note(self.deliveries.unreachable(told.pop(0)[1], "p"))
            if pauses and pauses[0].at <= self.now:
                self.pause(pauses.pop(0))
            self.poll()
            self.produce()
            for broker in self.deliveries.avoidance.suspect:
                self.out.excluded_s[broker] = self.out.excluded_s.get(broker, 0.0) + step
            self.now += step
        self.out.suspects = self.deliveries.avoidance.suspect
        self.out.probes = self.deliveries.stats.probes
        for batch in {id(b): b for _, _, b, _ in self.reports}.values():
            self.settle(batch, self.now)
        return self.out

    def pause(self, pause: Pause) -> None:
        end = self.now + pause.seconds
        if pause.whole_process:
            self.reports = [
                (at if at >= end else end + self.rng.uniform(0, 0.005), order, batch, answered)
                for at, order, batch, answered in self.reports
            ]
            heapq.heapify(self.reports)
            for batch in self.open.values():
                batch.closes_at = self.now
        self.now = end

    def poll(self) -> None:
        while self.reports and self.reports[0][0] <= self.now:
            at, _, batch, answered = heapq.heappop(self.reports)
            for sent_at in batch.sent_at:
                if answered:
                    events = self.deliveries.answered(TOPIC, batch.partition, at - sent_at, "p")
                else:
                    events = self.deliveries.failed(TOPIC, batch.partition, "p")
                self.note(events)
            self.settle(batch, at)
        self.note(self.deliveries.heard("p"))

    def settle(self, batch: _Batch, at: float) -> None:
        self.out.late += sum(at - sent_at > LATE for sent_at in batch.sent_at if sent_at >= self.s.since)

    def produce(self) -> None:
        if self.now >= self.turn_ends:
            self.turn_ends = self.now + self.s.turn
            if self.stuck_to >= 0:
                self.partitioner.move_on(TOPIC, self.stuck_to)
        partition = self.partitioner.partition(TOPIC, None, None, None, None, None)
        broker = self.leaders[partition]
        if broker not in self.deliveries.avoidance.suspect:
            self.stuck_to = partition
        self.deliveries.sent(TOPIC, partition, broker)
        self.batch(partition, broker).sent_at.append(self.now)
        if self.now >= self.s.since:
            self.out.records += 1
            self.out.to[broker] += 1
        self.out.by_broker_and_second[broker, int(self.now)] += 1

    def batch(self, partition: int, broker: int) -> _Batch:
        batch = self.open.get(partition)
        if batch is None or batch.closes_at <= self.now:
            batch = self.open[partition] = _Batch(partition, broker, self.now + self.s.linger)
            at = batch.closes_at + self.s.latency(self.rng, batch.closes_at)
            if (fault := self.s.faults.get(broker)) is not None:
                at = fault.answer_at(at)
            at = self.last_answer[broker] = max(at, self.last_answer.get(broker, 0.0))
            fails_at = self.now + self.s.time_out
            heapq.heappush(self.reports, (min(at, fails_at), next(self.order), batch, at <= fails_at))
        return batch

    def note(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, BrokerSuspected):
                self.out.suspected.append((self.now, event))
            elif isinstance(event, BrokerCleared):
                self.out.cleared.append((self.now, event))
