"""A small world of brokers and a producer, to see what delivery feedback comes to. No threads, no real time.

What is real in it: `AdaptivePartitioner`, its `DeliveryTracker` and the failure detector behind it, asked and
fed in the order in which `PartitioningProducer` does. What is modelled: a producer that sends at a steady
rate and polls before each record; batches that wait for ``linger``; brokers that answer batches in order,
after a drawn time; their faults; and stops of the producer's own process. One seed, one history.

With ``replication`` above 1 (``acks=all``) a batch is answered when its leader and all in-sync followers have
it, and a connection (of a way, to a leader) serves one request at a time, in order. A broker that is gone for
longer than a session loses what it leads and is out of sync; the client hears of that a moment later.
"""

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Literal

from attrs import define, field, frozen

from kafka_partition_events.health.in_flight import MAIN
from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import BrokerCleared, BrokerSuspected, Event
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.routing.table import NOTHING, Avoidance
from kafka_partition_events.testing.scripted import PartitionSpec, TopicSpec, cluster_of
from tests.partitioner_kit import judged

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
class _Fault:
    """``hits`` says what of a broker is ill: all, its links to clients, or its fetches as a replica."""

    since: float
    hits: Literal["all", "clients", "replica"] = "all"

    def answer_at(self, moment: float) -> float:
        raise NotImplementedError

    def gone(self) -> list[tuple[float, float]]:
        """When it neither leads nor is in sync, to begin with: from, until."""
        return []


@frozen(kw_only=True)
class Frozen(_Fault):
    """The broker stands still for ``stopped`` seconds of each ``period``, from a moment to another."""

    stopped: float = 0.4
    period: float = 0.5
    until: float = float("inf")

    def answer_at(self, moment: float) -> float:
        if not self.since <= moment < self.until:
            return moment
        into = (moment - self.since) % self.period
        return moment + self.stopped - into if into < self.stopped else moment

    def gone(self) -> list[tuple[float, float]]:
        return [(self.since, self.since + self.stopped)]


def once(since: float, seconds: float, hits: Literal["all", "clients", "replica"] = "all") -> Frozen:
    """Return one stop of a broker: a garbage collection, or a longer one."""
    return Frozen(since=since, stopped=seconds, period=float("inf"), hits=hits)


@frozen(kw_only=True)
class Slow(_Fault):
    """The broker takes so many seconds more for everything, from a moment on."""

    more: float = 0.1
    until: float = float("inf")

    def answer_at(self, moment: float) -> float:
        return moment + self.more if self.since <= moment < self.until else moment


@frozen(kw_only=True)
class Throttled(_Fault):
    """The broker's links to other brokers let one batch through each ``a_batch`` seconds; others queue."""

    a_batch: float = 0.05
    hits: Literal["all", "clients", "replica"] = "replica"


@frozen(kw_only=True)
class Dead(_Fault):
    """The broker never answers again. The client is told of the lost connection, or (a lost host) is not."""

    told_after: float | None = 0.002

    def answer_at(self, moment: float) -> float:
        return float("inf") if moment >= self.since else moment

    def gone(self) -> list[tuple[float, float]]:
        return [(self.since, float("inf"))]


@frozen(kw_only=True)
class Restarted(_Fault):
    """The broker hands over what it leads, stops, and comes back: one step of a rolling restart."""

    seconds: float = 5.0
    told_after: float | None = 0.002

    def answer_at(self, moment: float) -> float:
        return self.since + self.seconds if self.since <= moment < self.since + self.seconds else moment


Fault = Frozen | Slow | Throttled | Dead | Restarted


@frozen(kw_only=True)
class Refused:
    """A partition takes nothing for a while (too few in-sync replicas): the client tries again and again."""

    partition: int
    since: float
    until: float


@frozen(kw_only=True)
class Pause:
    """A stop of the producer. A whole process that stops does not read its sockets either."""

    at: float
    seconds: float
    whole_process: bool = True


@define(eq=False)
class _Batch:
    partition: int
    way: int
    broker: int
    closes_at: float
    fails_at: float
    sent_at: list[float] = field(factory=list)
    plans: int = 0  # how often its answer was planned: what was planned before counts no more


@define(kw_only=True)
class Outcome:
    """What came of it, of the records that were sent from ``since`` on."""

    records: int = 0
    late: int = 0
    failed: int = 0
    to: Counter[int] = field(factory=Counter)
    by_broker_and_second: Counter[tuple[int, int]] = field(factory=Counter)
    suspected: list[tuple[float, BrokerSuspected]] = field(factory=list)
    cleared: list[tuple[float, BrokerCleared]] = field(factory=list)
    excluded_s: dict[int, float] = field(factory=dict)
    standby_s: float = 0.0
    probes: int = 0
    suspects: frozenset[int] = frozenset()
    avoidance: Avoidance = NOTHING
    standby: bool = False
    avoided: list[tuple[float, int, Avoidance]] = field(factory=list)
    """Each time that the avoidance or the way changed: when, the way and the avoidance from then on."""

    @property
    def late_share(self) -> float:
        return self.late / max(1, self.records)

    def share_to(self, broker: int) -> float:
        return self.to[broker] / max(1, self.records)

    def accused(self) -> Counter[int]:
        """How often each broker was told to be suspect."""
        return Counter(event.broker for _, event in self.suspected)


@define(kw_only=True)
class Simulation:
    """Three brokers, a topic of six partitions, one producer. All times in seconds."""

    seed: int = 0
    seconds: float = 9.0
    since: float = 0.0
    rate: float = 2000.0
    keyed: float = 0.0
    """The share of records that have a key, and go to any partition by the first way."""
    turn: float = 0.005
    linger: float = 0.005
    time_out: float = 3.0
    brokers: int = 3
    partitions: int = 6
    replication: int = 1
    ways: int = 1
    latency: Latency = field(factory=usual)
    copying: Latency = field(factory=lambda: usual(0.001))
    """What a follower takes to fetch a batch."""
    faults: Mapping[int, Fault | Sequence[Fault]] = field(factory=dict)
    refused: Sequence[Refused] = ()
    pauses: Sequence[Pause] = ()
    session: float = 9.0
    """After so long a broker that is gone has lost what it led."""
    lag: float = 30.0
    """After so long a replica that does not fetch is out of sync."""
    news: float = 0.3
    """How long the client takes to hear of a change."""
    policy: DetectorPolicy | None = None

    def faults_of(self, broker: int) -> Sequence[Fault]:
        faults = self.faults.get(broker, ())
        return faults if isinstance(faults, Sequence) else (faults,)

    def run(self) -> Outcome:
        state = random.getstate()
        random.seed(self.seed)  # a probe's partition is drawn from the common source
        try:
            return _Run(self).run()
        finally:
            random.setstate(state)


class _Cluster:
    """Who leads and who is in sync, at any moment: as Kafka places partitions, and as faults have it."""

    def __init__(self, s: Simulation) -> None:
        self.brokers = range(1, s.brokers + 1)
        self.replicas = [self._placed(p, s) for p in range(s.partitions)]
        self.gone: dict[int, list[tuple[float, float]]] = {}
        self.out_of_sync: dict[int, list[tuple[float, float]]] = {}
        for broker in self.brokers:
            gone, out = self.gone.setdefault(broker, []), self.out_of_sync.setdefault(broker, [])
            for fault in s.faults_of(broker):
                if isinstance(fault, Restarted):
                    gone.append((fault.since - 2 * s.news, fault.since + fault.seconds))
                for since, until in fault.gone() if fault.hits != "clients" else ():
                    if fault.hits == "all" and until - since > s.session:
                        gone.append((since + s.session, until))
                    elif fault.hits == "replica" and until - since > s.lag:
                        out.append((since + s.lag, until))
            out += [(since, until + 1) for since, until in gone]  # it has to catch up
        spans = [span for known in (self.gone, self.out_of_sync) for own in known.values() for span in own]
        self.changes = sorted({moment for span in spans for moment in span if math.isfinite(moment)})

    def _placed(self, partition: int, s: Simulation) -> list[int]:
        """Return a partition's replicas: each round of leaders shifts the followers by one more."""
        n, shift = s.brokers, partition // s.brokers
        followers = [(partition + 1 + (shift + i) % (n - 1)) % n for i in range(s.replication - 1)]
        return [self.brokers[place] for place in (partition % n, *followers)]

    def leader(self, partition: int, now: float) -> int | None:
        return next((b for b in self.replicas[partition] if not _during(self.gone[b], now)), None)

    def left_sync_at(self, broker: int, since: float) -> float:
        """Return from when on a leader waits no longer for this follower: inf if it does to the end."""
        return min((max(a, since) for a, b in self.out_of_sync[broker] if b > since), default=math.inf)

    def snapshot(self, now: float, generation: int) -> Cluster:
        alive = [b for b in self.brokers if not _during(self.gone[b], now)]
        words: list[PartitionSpec] = []
        for partition, replicas in enumerate(self.replicas):
            leader = self.leader(partition, now)
            isr = [b for b in replicas if b == leader or not _during(self.out_of_sync[b], now)]
            words.append({"leader": leader, "replicas": replicas, "isr": isr})
        topic: TopicSpec = {"partitions": words}
        return cluster_of({TOPIC: topic}, brokers=alive, generation=generation)


def _during(spans: Sequence[tuple[float, float]], now: float) -> bool:
    return any(since <= now < until for since, until in spans)


class _Run:
    def __init__(self, simulation: Simulation) -> None:
        self.s = simulation
        self.rng = random.Random(simulation.seed)
        self.keys = random.Random(simulation.seed)
        self.now = 0.0
        self.out = Outcome()
        self.partitioner = AdaptivePartitioner(rng=random.Random(simulation.seed), clock=self.clock)
        self.deliveries = judged(self.partitioner, self.clock, simulation.policy)
        acks_all, standbys = simulation.replication > 1, simulation.ways - 1
        self.deliveries.serve(linger=simulation.linger, acks_all=acks_all, standbys=standbys)
        self.cluster = _Cluster(simulation)
        self.generation = 0
        self.leaders: list[int | None] = []
        self.apply_snapshot(-1.0)
        self.open: dict[tuple[int, int], _Batch] = {}
        self.waiting: dict[_Batch, None] = {}
        self.order = count()
        self.reports: list[tuple[float, int, _Batch, bool, int]] = []
        self.free_at: dict[tuple[int, int], float] = {}  # by way and leader
        self.through_at: dict[tuple[int, int], float] = {}  # by leader and follower
        self.turn_ends = 0.0
        self.stuck_to = -1

    def clock(self) -> float:
        return self.now

    def run(self) -> Outcome:
        pauses = sorted(self.s.pauses, key=lambda p: p.at)
        told = sorted(
            (fault.since + fault.told_after, broker)
            for broker in self.cluster.brokers
            for fault in self.s.faults_of(broker)
            if isinstance(fault, Dead | Restarted) and fault.told_after is not None
        )
        news = [moment + self.s.news for moment in self.cluster.changes]
        step = 1 / self.s.rate
        while self.now < self.s.seconds:
            while told and told[0][0] <= self.now:
                self.note(self.deliveries.unreachable(told.pop(0)[1]))
            while news and news[0] <= self.now:
                self.apply_snapshot(news.pop(0) - self.s.news)
            if pauses and pauses[0].at <= self.now:
                self.pause(pauses.pop(0))
            self.poll()
            self.produce()
            self.note_avoided()
            for broker in self.deliveries.avoidance.suspect:
                self.out.excluded_s[broker] = self.out.excluded_s.get(broker, 0.0) + step
            self.out.standby_s += step * (self.deliveries.handle != MAIN)
            self.now += step
        self.out.avoidance, self.out.standby = self.deliveries.avoidance, self.deliveries.handle != MAIN
        self.out.suspects = self.out.avoidance.suspect
        self.out.probes = self.deliveries.stats.probes
        for batch in self.waiting:
            self.settle(batch, self.now)
        return self.out

    def apply_snapshot(self, moment: float) -> None:
        """Hand the cluster over as it is since a moment; what waits for a leader that lost it goes along."""
        self.generation += 1
        snapshot = self.cluster.snapshot(moment, self.generation)
        self.note(self.partitioner.apply_snapshot(snapshot))
        before, self.leaders = self.leaders, [p.leader for p in snapshot.by_topic[TOPIC].partitions]
        if before == self.leaders or not before:
            return
        for way, broker in tuple(self.free_at):
            if broker not in snapshot.nodes:
                del self.free_at[way, broker]
        for batch in self.waiting:
            leader = self.leaders[batch.partition]
            if leader is not None and leader != batch.broker:
                batch.broker = leader
                self.plan(batch, max(self.now, batch.closes_at))

    def pause(self, pause: Pause) -> None:
        end = self.now + pause.seconds
        if pause.whole_process:
            self.reports = [
                (at if at >= end else end + self.rng.uniform(0, 0.005), order, batch, answered, plan)
                for at, order, batch, answered, plan in self.reports
            ]
            heapq.heapify(self.reports)
            for batch in self.open.values():
                batch.closes_at = self.now
        self.now = end

    def poll(self) -> None:
        while self.reports and self.reports[0][0] <= self.now:
            at, _, batch, answered, plan = heapq.heappop(self.reports)
            if plan != batch.plans:
                continue
            del self.waiting[batch]
            for sent_at in batch.sent_at:
                if answered:
                    latency = at - sent_at
                    events = self.deliveries.answered(TOPIC, batch.partition, latency, batch.way)
                else:
                    events = self.deliveries.failed(TOPIC, batch.partition, batch.way)
                    self.out.failed += sent_at >= self.s.since
                self.note(events)
            self.settle(batch, at)
        self.note(self.deliveries.polled())

    def settle(self, batch: _Batch, at: float) -> None:
        self.out.late += sum(at - sent_at > LATE for sent_at in batch.sent_at if sent_at >= self.s.since)

    def produce(self) -> None:
        if self.now >= self.turn_ends:
            self.turn_ends = self.now + self.s.turn
            if self.stuck_to >= 0:
                self.partitioner.move_on(TOPIC, self.stuck_to)
        route, way = self.partitioner.route(TOPIC), MAIN
        if self.s.keyed and self.keys.random() < self.s.keyed:
            partition = self.keys.randrange(self.s.partitions)
        else:
            partition = self.partitioner.current(TOPIC)
            route = self.partitioner.route(TOPIC)
            if route is not None and route.is_safe(partition):
                way = self.deliveries.handle
            if route is not None and not route.avoids(partition):
                self.stuck_to = partition
        assert route is not None
        broker, followers = route.leader(partition), route.info.partitions[partition].followers
        self.deliveries.sent(TOPIC, partition, broker, followers, way)
        self.batch(partition, way, broker).sent_at.append(self.now)
        broker = broker or 0
        if self.now >= self.s.since:
            self.out.records += 1
            self.out.to[broker] += 1
        self.out.by_broker_and_second[broker, int(self.now)] += 1

    def batch(self, partition: int, way: int, broker: int | None) -> _Batch:
        batch = self.open.get((way, partition))
        if batch is None or batch.closes_at <= self.now:
            closes_at, fails_at = self.now + self.s.linger, self.now + self.s.time_out
            batch = _Batch(partition, way, broker or 0, closes_at, fails_at)
            self.open[way, partition] = batch
            self.waiting[batch] = None
            self.begin(batch)
        return batch

    def begin(self, batch: _Batch) -> None:
        self.plan(batch, batch.closes_at)

    def plan(self, batch: _Batch, starts_at: float) -> None:
        """Draw when a batch is answered, and put the report there."""
        at = self.answered_at(batch, starts_at)
        batch.plans += 1
        report = min(at, batch.fails_at), next(self.order), batch, at <= batch.fails_at, batch.plans
        heapq.heappush(self.reports, report)

    def answered_at(self, batch: _Batch, starts_at: float) -> float:
        if not batch.broker:
            return math.inf
        for refused in self.s.refused:
            if refused.partition == batch.partition and refused.since <= starts_at < refused.until:
                return refused.until + self.s.latency(self.rng, starts_at)  # the connection goes on
        key = batch.way, batch.broker
        free_at = self.free_at.get(key, 0.0)
        if self.s.replication > 1:
            starts_at = max(starts_at, free_at)
        if math.isinf(starts_at):
            return starts_at
        at = starts_at + self.s.latency(self.rng, starts_at)
        for fault in self.s.faults_of(batch.broker):
            if fault.hits != "replica":
                at = fault.answer_at(at)
        at = max([at, free_at, *self.copied_at(batch, at)])
        self.free_at[key] = at
        return at

    def copied_at(self, batch: _Batch, at: float) -> Iterator[float]:
        """Yield when each follower has what its leader has since a moment, or is waited for no longer."""
        for broker in self.cluster.replicas[batch.partition] if math.isfinite(at) else ():
            if broker != batch.broker:
                copied = at + self.s.copying(self.rng, at)
                for fault in (*self.s.faults_of(broker), *self.s.faults_of(batch.broker)):
                    if isinstance(fault, Throttled) and copied >= fault.since:
                        link = batch.broker, broker
                        copied = max(copied, self.through_at.get(link, 0.0)) + fault.a_batch
                        self.through_at[link] = copied
                for fault in self.s.faults_of(broker):
                    if fault.hits != "clients" and not isinstance(fault, Throttled):
                        copied = fault.answer_at(copied)
                yield max(at, min(copied, self.cluster.left_sync_at(broker, at)))

    def note_avoided(self) -> None:
        way, avoidance = self.deliveries.handle, self.deliveries.avoidance
        _, way_before, before = self.out.avoided[-1] if self.out.avoided else (0.0, MAIN, NOTHING)
        if (way, avoidance) != (way_before, before):
            self.out.avoided.append((self.now, way, avoidance))

    def note(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, BrokerSuspected):
                self.out.suspected.append((self.now, event))
            elif isinstance(event, BrokerCleared):
                self.out.cleared.append((self.now, event))
