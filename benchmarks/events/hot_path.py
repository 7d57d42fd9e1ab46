"""What the pipeline takes from a producer in the same process: records a second, and pauses of `produce`.

All modes share one process, its producers on librdkafka's mock cluster, and a poller that knows 200,000
partitions; listeners are registered for a run and closed after it.

There are minutes, as users have them: a broker is lost once, and metrics are scraped every 15 s. And there is
the worst of such a minute: 2 s in which the loss falls together with the scrape that is dear.
"""

import logging
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import cycle

import structlog
from attrs import frozen

from benchmarks.events.beside import BARE, BUSY, IDLE, LOSING, SCRAPED, Mode, Pipeline, minute
from benchmarks.events.rows import Row, Target
from benchmarks.measure import Pair, Spread, interleaved
from benchmarks.produce import CONFIG, PARTITIONS, PRODUCERS, VALUE, send_unkeyed
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.testing import MockCluster

KEPT = Target(least=0.95)
_TOPIC = "produce"
_SENDS = 4
"""How often a run sends and flushes: librdkafka's queue can't hold it all."""
_MINUTE_S = 60.0


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
    """Producers that take turns: see `benchmarks.produce.measure` for why one is not enough."""

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

    def cost_for(self, seconds: float, mode: Mode) -> float:
        """Return the microseconds that a record took, when records are sent for so long."""
        sent = 0
        with self._pipeline.running(mode):
            began = time.perf_counter()
            while time.perf_counter() - began < seconds:
                producer = next(self._turns)
                send_unkeyed(producer, _TOPIC, self._count)
                producer.flush()
                sent += self._count
            return (time.perf_counter() - began) / sent * 1e6

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


@contextmanager
def _bench(count: int) -> Iterator[Bench]:
    # The dead target is the point here, and not worth a warning at each attempt.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with ExitStack() as opened:
        cluster = opened.enter_context(MockCluster(3))
        cluster.create_topic(_TOPIC, PARTITIONS)
        config = {**CONFIG, "bootstrap.servers": cluster.bootstrap_servers}
        producers = [opened.enter_context(PartitioningProducer(config)) for _ in range(PRODUCERS)]
        for producer in producers:
            producer.produce(_TOPIC, VALUE)
            producer.poller.refresh("warm-up", wait=10.0)
        pipeline = opened.enter_context(closing(Pipeline()))
        yield Bench(producers, pipeline, count)


def measure_minutes(*, quick: bool) -> Iterator[Row]:
    count, pairs, seconds = (50_000, 1, 8.0) if quick else (500_000, 3, _MINUTE_S)
    ours, peer = (minute(seconds, listeners=listeners) for listeners in (True, False))
    with _bench(count) as bench:
        for mode in (BUSY, BARE):
            bench.cost(mode)  # a warm-up of some seconds will do
        pair = interleaved(
            partial(bench.cost_for, seconds, ours),
            partial(bench.cost_for, seconds, peer),
            pairs,
            warm_up=False,
            more_tries=1,
        )
    what = "a minute: pipeline, a broker lost once, scraped every 15 s"
    yield _row(what, pair, "the same minute, no listeners", KEPT)


def measure(*, quick: bool) -> Iterator[Row]:
    count, pairs = (100_000, 2) if quick else (500_000, 8)
    with _bench(count) as bench:

        def against(mode: Mode, reference: Mode) -> Pair:
            return interleaved(partial(bench.cost, mode), partial(bench.cost, reference), pairs)

        yield _row("2 s: pipeline idle", against(IDLE, BARE), "no listeners", KEPT)
        yield _row("worst 2 s: pipeline, the very first scrape", against(SCRAPED, BARE), "no listeners")
        yield _row("worst 2 s: no listeners, a broker lost", against(LOSING, BARE), "no loss")
        busy = against(BUSY, LOSING)
        yield _row(
            "worst 2 s: pipeline, a broker lost, the very first scrape", busy, "the same loss, no listeners"
        )
        yield from _pauses(bench.pauses, max(2, pairs // 2))


def _row(what: str, pair: Pair, peer: str, target: Target | None = None) -> Row:
    return Row(
        what=f"producer, {what}",
        unit="us a record",
        ours=pair.a,
        peer=(peer, pair.b),
        ratio=pair.ratio,
        target=target,
        judged=pair.ratio,
        digits=2,
        extra={"discarded": pair.discarded},
    )


def _pauses(pauses: Callable[[Mode], Pauses], runs: int) -> Iterator[Row]:
    rounds = [(pauses(BARE), pauses(LOSING), pauses(BUSY)) for _ in range(runs)]
    bare, losing, busy = zip(*rounds, strict=True)
    for name, what in (("worst_ms", "longest call of produce()"), ("above_ms", "calls over 1 ms, together")):
        calm = Spread.of([getattr(found, name) for found in bare])
        for beside, seen in (("no listeners", losing), ("pipeline", busy)):
            yield Row(
                what=f"producer, worst 2 s: {beside}, a broker lost: {what}",
                unit="ms",
                ours=Spread.of([getattr(found, name) for found in seen]),
                peer=("no loss", calm),
                digits=1,
            )
