"""Events a second from a real topic to gold tables; how time and state grow with events and partitions."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.command import say
from benchmarks.errors import BenchError
from benchmarks.events.rows import Row, Target
from benchmarks.measure import Spread
from benchmarks.spark.fleet_story import records
from benchmarks.spark.rounds import cpu_by_process
from benchmarks.spark.session import jvm_of
from kafka_partition_events.jvm import spark_jars
from kafka_partition_events.spark.fleet.pipeline import Fleet, Pipeline
from kafka_partition_events.spark.fleet.progress import BatchDone, Refreshed
from kafka_partition_events.spark.fleet.sources import KafkaSource
from kafka_partition_events.spark.session import LASTING, opened_session
from kafka_partition_events.testing import KafkaCluster

BATCHES = 10
TARGET = 50_000.0
_M = 1_000_000
_TOPIC_PARTITIONS = 4
_SETTINGS = {**LASTING, "spark.driver.memory": "3g"}
"""Those of the command, with room for what Spark keeps of run after run."""


@frozen(kw_only=True)
class Case:
    """So many events of a cluster with so many partitions, taken in ten batches by each query."""

    name: str
    events: int
    keys: int

    @property
    def topic(self) -> str:
        return f"kpe.events-{self.events}-{self.keys}"


@frozen(kw_only=True)
class Took:
    """Seconds of one run, and bytes.

    Attributes:
        wall_s: From the first batch to the last table.
        ingest_s: Of these, writing bronze and ``silver/sightings``.
        outages_s: Folding the outages' state, beside that.
        refresh_s: Making ``silver/events`` and gold, after that.
        cpu_s: Seconds of the processors that the JVM and its Python workers took.
        shuffled_bytes: What all shuffles wrote, compressed.
        state_bytes: What the state of all topics comes to, packed.
        out_bytes: What all tables come to.
    """

    wall_s: float
    ingest_s: float
    outages_s: float
    refresh_s: float
    cpu_s: float
    shuffled_bytes: int
    state_bytes: int
    out_bytes: int


@frozen
class Size:
    """The cases: the first one is the base, which the two others have ten times as many of."""

    base: Case = Case(name="10,000 partitions", events=_M // 10, keys=10_000)
    more_events: Case = Case(name="10,000 partitions, 10x the events", events=_M, keys=10_000)
    more_keys: Case = Case(name="100,000 partitions, 10x the events", events=_M, keys=100_000)
    rounds: int = 2

    @property
    def cases(self) -> Sequence[Case]:
        return self.base, self.more_events, self.more_keys


QUICK = Size(
    base=Case(name="1,000 partitions", events=20_000, keys=1_000),
    more_events=Case(name="1,000 partitions, 10x the events", events=200_000, keys=1_000),
    more_keys=Case(name="10,000 partitions, 10x the events", events=200_000, keys=10_000),
    rounds=1,
)


@frozen
class _Times:
    """Adds up what a pipeline says that it took."""

    seconds: dict[str, float] = field(factory=lambda: {"ingest": 0.0, "outages": 0.0, "refresh": 0.0})

    def step(self, text: str) -> None:
        """Steps are not timed."""

    def batch(self, done: BatchDone) -> None:
        self.seconds[done.query] += done.seconds

    def refreshed(self, done: Refreshed) -> None:
        self.seconds["refresh"] += done.seconds


def measure(*, quick: bool) -> Iterator[Row]:
    size = QUICK if quick else Size()
    with (
        tempfile.TemporaryDirectory(prefix="kpe-bench-") as directory,
        KafkaCluster(brokers=1, progress=say) as cluster,
        opened_session(spark_jars, settings=_SETTINGS) as spark,
    ):
        spark.sparkContext.setLogLevel("ERROR")
        for case in size.cases:
            say(f"writing {case.events:,} events of {case.keys:,} partitions")
            _fill(cluster, case)
        took: dict[str, list[Took]] = {case.name: [] for case in size.cases}
        run(spark, cluster.bootstrap_servers, size.base, Path(directory))  # a JVM that has compiled
        for _ in range(size.rounds):
            for case in size.cases:
                found = run(spark, cluster.bootstrap_servers, case, Path(directory))
                say(f"{case.name}: {found}")
                took[case.name].append(found)
    yield from rows_of(size, took)


def _fill(cluster: KafkaCluster, case: Case) -> None:
    cluster.create_topic(case.topic, _TOPIC_PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 50, "compression.type": "lz4"}
    )
    for key, value in records(case.keys, case.events):
        while True:
            try:
                producer.produce(case.topic, value, key=key)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(120):
        raise BenchError(f"{left} events were not written")


def run(spark: SparkSession, bootstrap: str, case: Case, directory: Path) -> Took:
    # Never one of before: Spark goes on caring for the state that it had there.
    out, times = Path(tempfile.mkdtemp(dir=directory)), _Times()
    source = KafkaSource(bootstrap=bootstrap, topic=case.topic, max_per_batch=case.events // BATCHES)
    jvm = jvm_of(spark)
    shuffled, cpu, begin = _shuffled(spark), _cpu_seconds(jvm), time.perf_counter()
    mark = Pipeline(spark, Fleet(out=str(out)), times).run_once(source)
    wall_s, cpu_s = time.perf_counter() - begin, _cpu_seconds(jvm) - cpu
    if mark.totals.good != case.events:
        raise BenchError(f"{mark.totals}, but {case.events:,} events were written")
    found = Took(
        wall_s=wall_s,
        ingest_s=times.seconds["ingest"],
        outages_s=times.seconds["outages"],
        refresh_s=times.seconds["refresh"],
        cpu_s=cpu_s,
        shuffled_bytes=_shuffled(spark) - shuffled,
        state_bytes=_state_bytes(spark, out),
        out_bytes=sum(path.stat().st_size for path in out.rglob("*.parquet")),
    )
    shutil.rmtree(out)
    return found


def _cpu_seconds(jvm: int) -> float:
    return sum(cpu_by_process(jvm).values())


def _shuffled(spark: SparkSession) -> int:
    """Return how many bytes all shuffles have written so far."""
    context: Any = spark.sparkContext
    executors = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001 - what the web page asks
    return sum(int(executors.apply(number).totalShuffleWrite()) for number in range(executors.size()))


def _state_bytes(spark: SparkSession, out: Path) -> int:
    state = spark.read.format("statestore").option("stateVarName", "outages")
    packed = state.load(str(out / "_kpe" / "checkpoints" / "outages"))
    [[total]] = packed.agg(F.sum(F.octet_length("value.packed"))).collect()
    return int(total)


_RATES: Mapping[str, Callable[[Took], float]] = {
    "end to end": lambda took: took.wall_s,
    "ingest": lambda took: took.ingest_s,
    "outages": lambda took: took.outages_s,
    "refresh": lambda took: took.refresh_s,
}
_COSTS: Mapping[str, tuple[str, Callable[[Took, Case], float]]] = {
    "CPU": ("us an event", lambda took, case: took.cpu_s * _M / case.events),
    "shuffled": ("bytes an event", lambda took, case: took.shuffled_bytes / case.events),
    "state": ("bytes a partition", lambda took, case: took.state_bytes / case.keys),
    "tables": ("bytes an event", lambda took, case: took.out_bytes / case.events),
}


def rows_of(size: Size, took: Mapping[str, Sequence[Took]]) -> Iterator[Row]:
    """Return the lines of the table."""
    for case, peer in zip(size.cases, (None, size.base, size.more_events), strict=True):
        for what, seconds in _RATES.items():
            judged = case is size.more_events and what == "end to end"
            yield _row(
                f"{case.name}: {what}",
                "events/s on 2 cores",
                [case.events / seconds(found) for found in took[case.name]],
                None if peer is None else (peer.name, [peer.events / seconds(f) for f in took[peer.name]]),
                target=Target(least=TARGET) if judged else None,
            )
        for what, (unit, cost) in _COSTS.items():
            yield _row(
                f"{case.name}: {what}",
                unit,
                [cost(found, case) for found in took[case.name]],
                None if peer is None else (peer.name, [cost(found, peer) for found in took[peer.name]]),
            )


def _row(
    what: str,
    unit: str,
    ours: Sequence[float],
    peer: tuple[str, Sequence[float]] | None,
    *,
    target: Target | None = None,
) -> Row:
    ratio = None if peer is None else [one / other for one, other in zip(ours, peer[1], strict=True)]
    return Row(
        what=what,
        unit=unit,
        ours=Spread.of(ours),
        peer=None if peer is None else (peer[0], Spread.of(peer[1])),
        ratio=None if ratio is None else Spread.of(ratio),
        target=target,
    )
