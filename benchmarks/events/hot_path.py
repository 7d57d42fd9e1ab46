"""What the pipeline takes from a producer in the same process: records a second, and pauses of `produce`.

All modes share one process, its producers on librdkafka's mock cluster, and a poller that knows 200,000
partitions; listeners are registered for a run and closed after it. What a broker loss costs beyond the
poller's own work is told by comparing "busy" with "losing".
"""

import gc
import logging
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import cycle
from threading import Timer

import structlog
from attrs import frozen
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.events.dispatching import Prepared
from benchmarks.events.rows import Row, Target
from benchmarks.measure import Pair, Spread, interleaved
from benchmarks.produce import CONFIG, PARTITIONS, PRODUCERS, VALUE, send_unkeyed
from kafka_partition_events import MetadataPoller, PartitionChangeListener, Registration
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.outbox import MemoryOutbox
from kafka_partition_events.testing import MockCluster
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events_listeners.journal import JournalListener
from kafka_partition_events_listeners.prometheus_listener import PrometheusListener
from kafka_partition_events_listeners.webhook import WebhookListener

KEPT = Target(least=0.95)
_TOPIC = "produce"
_SENDS = 4
"""How often a run sends and flushes: librdkafka's queue can't hold it all."""
_LOSS_AFTER_S, _SCRAPE_AFTER_S = 0.1, 0.5
_LIMIT_S = 60.0


@frozen(kw_only=True)
class Mode:
    """What there is beside the producer.

    Attributes:
        listeners: `JournalListener` in memory, `WebhookListener` on a port where nobody listens, and
            `PrometheusListener`.
        scraped: Metrics are read once in each run; the first time that a snapshot is, which is dear.
        losing: A broker goes, or comes back, once in each run.
    """

    listeners: bool = False
    scraped: bool = False
    losing: bool = False


BARE = Mode()
IDLE = Mode(listeners=True)
SCRAPED = Mode(listeners=True, scraped=True)
LOSING = Mode(losing=True)
BUSY = Mode(listeners=True, scraped=True, losing=True)


class Pipeline:
    """A poller of the large cluster, and what listens to it for a while."""

    def __init__(self) -> None:
        self._source = Prepared()
        self._poller = MetadataPoller(self._source)
        self._poller.poll_once()

    @contextmanager
    def running(self, mode: Mode) -> Iterator[None]:
        """Let happen what the mode says while the block runs; what is not over at its end is waited for."""
        registry = CollectorRegistry()
        listeners = self._make_listeners(registry) if mode.listeners else []
        registrations = [self._poller.register(listener) for listener in listeners]
        timers = []
        if mode.losing:
            self._source.prepare()
            timers.append(Timer(_LOSS_AFTER_S, self._poller.poll_once))
        if mode.scraped:
            timers.append(Timer(_SCRAPE_AFTER_S, generate_latest, [registry]))
        _await_all(registrations)
        gc.collect()  # what the preparation left is not the run's
        for timer in timers:
            timer.start()
        yield
        for timer in timers:
            timer.join(_LIMIT_S)
        _await_all(registrations)
        for registration in registrations:
            registration.close(wait=_LIMIT_S)

    def _make_listeners(self, registry: CollectorRegistry) -> list[PartitionChangeListener]:
        [port] = free_ports(1)
        return [
            JournalListener(MemoryOutbox()),
            WebhookListener(f"http://{HOST}:{port}/", allow_private=True, drain_timeout=0),
            PrometheusListener(self._poller, registry=registry),
        ]

    def close(self) -> None:
        self._poller.close(_LIMIT_S)


def _await_all(registrations: Sequence[Registration]) -> None:
    for registration in registrations:
        registration.wait_synced(_LIMIT_S)


@frozen(kw_only=True)
class Pauses:
    """How long `produce` kept its caller.

    Attributes:
        worst_ms: The longest call.
        above_ms: All calls of more than a millisecond, together.
    """

    worst_ms: float
    above_ms: float


class Bench:
    """Producers that take turns, run by run: see `benchmarks.produce.measure` for why one is not enough."""

    def __init__(self, producers: list[PartitioningProducer], pipeline: Pipeline, count: int) -> None:
        self._turns = cycle(producers)
        self._pipeline = pipeline
        self._count = count

    def cost(self, mode: Mode) -> float:
        """Return the microseconds that a record took, `flush` included."""
        producer = next(self._turns)
        with self._pipeline.running(mode):
            began = time.perf_counter()
            for _ in range(_SENDS):
                send_unkeyed(producer, _TOPIC, self._count)
                producer.flush()
            return (time.perf_counter() - began) / (_SENDS * self._count) * 1e6

    def pauses(self, mode: Mode) -> Pauses:
        """Time every single call of a run; it takes longer than a plain run."""
        producer = next(self._turns)
        produce, clock, value = producer.produce, time.perf_counter_ns, VALUE
        took = array("q", bytes(8 * self._count * 2))
        with self._pipeline.running(mode):
            before = clock()
            for number in range(len(took)):
                produce(_TOPIC, value)
                now = clock()
                took[number] = now - before
                before = now
        producer.flush()
        return Pauses(worst_ms=max(took) / 1e6, above_ms=sum(ns for ns in took if ns > 1_000_000) / 1e6)


def measure(*, quick: bool) -> Iterator[Row]:
    # The dead target is the point here, and not worth a warning at each attempt.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    count, pairs = (100_000, 2) if quick else (500_000, 8)
    with ExitStack() as opened:
        cluster = opened.enter_context(MockCluster(3))
        cluster.create_topic(_TOPIC, PARTITIONS)
        config = {**CONFIG, "bootstrap.servers": cluster.bootstrap_servers}
        producers = [opened.enter_context(PartitioningProducer(config)) for _ in range(PRODUCERS)]
        for producer in producers:
            producer.produce(_TOPIC, VALUE)
            producer.poller.refresh("warm-up", wait=10.0)
        pipeline = opened.enter_context(closing(Pipeline()))
        yield from _rows(Bench(producers, pipeline, count), _SENDS * count, pairs)


def _rows(bench: Bench, records: int, pairs: int) -> Iterator[Row]:
    def against(mode: Mode, reference: Mode) -> Pair:
        return interleaved(partial(bench.cost, mode), partial(bench.cost, reference), pairs)

    yield _row("pipeline idle", against(IDLE, BARE), "no listeners", KEPT)
    yield _row("pipeline, a new snapshot scraped in each run", against(SCRAPED, BARE), "no listeners")
    yield _row("no listeners, a broker lost in each run", against(LOSING, BARE), "no loss")
    busy = against(BUSY, LOSING)
    yield _row("pipeline, a broker lost in each run, scraped", busy, "the same loss, no listeners")
    share = once_a_minute(busy, records)
    yield Row(
        what="producer: the same, were it once a minute (computed)",
        unit="of the records",
        ours=Spread(share, share, share),
        target=KEPT,
        digits=3,
    )
    yield from _pauses(bench.pauses, max(2, pairs // 2))


def _row(what: str, pair: Pair, peer: str, target: Target | None = None) -> Row:
    return Row(
        what=f"producer: {what}",
        unit="us a record",
        ours=pair.a,
        peer=(peer, pair.b),
        ratio=pair.ratio,
        target=target,
        judged=pair.ratio,
        digits=2,
        extra={"discarded": pair.discarded},
    )


def once_a_minute(pair: Pair, records: int) -> float:
    """Return the share of a minute's records that is left if what one run lost is lost once a minute."""
    return 1 - (pair.a.median - pair.b.median) * records / 60e6


def _pauses(pauses: Callable[[Mode], Pauses], runs: int) -> Iterator[Row]:
    rounds = [(pauses(BARE), pauses(LOSING), pauses(BUSY)) for _ in range(runs)]
    bare, losing, busy = zip(*rounds, strict=True)
    for name, what in (("worst_ms", "longest call of produce()"), ("above_ms", "calls over 1 ms, together")):
        calm = Spread.of([getattr(found, name) for found in bare])
        for beside, seen in (("no listeners", losing), ("pipeline", busy)):
            yield Row(
                what=f"producer: {beside}, a broker lost: {what}",
                unit="ms",
                ours=Spread.of([getattr(found, name) for found in seen]),
                peer=("no loss", calm),
                digits=1,
            )
