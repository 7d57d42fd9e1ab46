"""Transitions a second from a real topic to gold tables, and what ten times as many cost."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from benchmarks.command import say
from benchmarks.errors import BenchError
from benchmarks.measure import Spread
from benchmarks.rows import Row, Target
from benchmarks.spark.fleet_story import records
from benchmarks.spark.rounds import cpu_by_process
from benchmarks.spark.session import jvm_of
from kafka_partition_events.jvm import spark_jars
from kafka_partition_events.spark.ingest.sources import KafkaSource
from kafka_partition_events.spark.pipeline import Fleet, Pipeline
from kafka_partition_events.spark.progress import Progress, Refreshed
from kafka_partition_events.spark.session import LASTING, opened_session
from kafka_partition_events.testing import KafkaCluster

BATCHES = 10
TARGETS: Final = {True: 50_000.0, False: 25_000.0}
"""Transitions a second: packed, or one in each record."""
MORE_CPU: Final = 10.5
"""What ten times the input may cost at the most."""
_M = 1_000_000
_KEYS = 10_000
_TOPIC_PARTITIONS = 4
_EVERY = timedelta(seconds=1)
_SETTINGS = {**LASTING, "spark.driver.memory": "3g"}
"""Those of the command, with room for what Spark keeps of run after run."""


@frozen(kw_only=True)
class Case:
    """So many transitions of two clusters that two observers tell, taken in ten batches."""

    name: str
    transitions: int
    keys: int = _KEYS
    packed: bool

    @property
    def topic(self) -> str:
        return f"kpe.events-{self.transitions}-{self.keys}-{self.packed}"


@frozen(kw_only=True)
class Took:
    """Seconds of one run, and bytes.

    Attributes:
        wall_s: From the first batch to the last table.
        refresh_s: Making silver and gold, beside that.
        cpu_s: Seconds of the processors that the JVM took.
        refreshes: How often tables were made anew.
        shuffled_bytes: What all shuffles wrote, compressed.
        out_bytes: What all tables come to.
    """

    wall_s: float
    refresh_s: float
    cpu_s: float
    refreshes: int
    shuffled_bytes: int
    out_bytes: int


@frozen
class Size:
    """The cases, in pairs: the second of each has ten times as much.

    Of the CPU the JVM's compilers take a third in the first round, a quarter in the second, a sixth in the
    third. A pipeline lasts, so the first ones don't count.
    """

    cases: Sequence[Case] = (
        Case(name="packed", transitions=_M // 5, packed=True),
        Case(name="packed, 10x", transitions=2 * _M, packed=True),
        Case(name="single", transitions=_M // 10, packed=False),
        Case(name="single, 10x", transitions=_M, packed=False),
    )
    warm_up: int = 2
    rounds: int = 2


QUICK = Size(
    cases=(
        Case(name="packed", transitions=20_000, keys=2_000, packed=True),
        Case(name="packed, 10x", transitions=200_000, keys=2_000, packed=True),
        Case(name="single", transitions=20_000, keys=2_000, packed=False),
        Case(name="single, 10x", transitions=200_000, keys=2_000, packed=False),
    ),
    warm_up=1,
    rounds=1,
)


@define
class _Watch(Progress):
    """Adds up what a pipeline says that it took, and calls a function when all is read."""

    records: int
    done: Callable[[], None]
    refresh_s: float = 0.0
    refreshes: list[Refreshed] = field(factory=list)

    def report(self, what: str | Refreshed) -> None:
        if isinstance(what, Refreshed):
            self.refresh_s += what.seconds
            self.refreshes.append(what)
            if what.totals.read >= self.records:
                self.done()


def measure(*, quick: bool) -> Iterator[Row]:
    size = QUICK if quick else Size()
    with (
        tempfile.TemporaryDirectory(prefix="kpe-bench-") as directory,
        KafkaCluster(brokers=1, progress=say) as cluster,
        opened_session(spark_jars, settings=_SETTINGS) as spark,
    ):
        spark.sparkContext.setLogLevel("ERROR")
        written = {case.name: _fill(cluster, case) for case in size.cases}
        took: dict[str, list[Took]] = {case.name: [] for case in size.cases}
        for number in range(size.warm_up + size.rounds):
            for case in size.cases:
                found = run(spark, cluster.bootstrap_servers, case, written[case.name], Path(directory))
                say(f"{case.name}: {found}")
                if number >= size.warm_up:
                    took[case.name].append(found)
    transitions = {name: transitions for name, (_, transitions) in written.items()}
    yield from rows_of(size, transitions, took)


def _fill(cluster: KafkaCluster, case: Case) -> tuple[int, int]:
    """Write a case's records; return how many, and how many transitions they tell."""
    say(f"writing {case.transitions:,} transitions of {case.keys:,} partitions")
    cluster.create_topic(case.topic, _TOPIC_PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 50, "compression.type": "lz4"}
    )
    count = transitions = 0
    for told in records(case.keys, case.transitions, packed=case.packed):
        count, transitions = count + 1, transitions + told.transitions
        at_ms = round(told.at.timestamp() * 1000)
        while True:
            try:
                producer.produce(case.topic, told.value, key=told.key, timestamp=at_ms)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(120):
        raise BenchError(f"{left} records were not written")
    return count, transitions


def run(spark: SparkSession, bootstrap: str, case: Case, written: tuple[int, int], directory: Path) -> Took:
    out = Path(tempfile.mkdtemp(dir=directory))
    count, transitions = written
    source = KafkaSource(bootstrap=bootstrap, topic=case.topic, max_per_batch=count // BATCHES + 1)
    watch = _Watch(count, lambda: pipeline.stop())  # noqa: PLW0108 - it comes later
    pipeline = Pipeline(spark, Fleet(out=str(out)), watch)
    jvm = jvm_of(spark)
    shuffled, cpu, begin = _shuffled(spark), _cpu_seconds(jvm), time.perf_counter()
    mark = pipeline.run(source, _EVERY)
    wall_s, cpu_s = time.perf_counter() - begin, _cpu_seconds(jvm) - cpu
    if mark.totals.read != count:
        raise BenchError(f"{mark.totals}, but {count:,} records were written, of {transitions:,} transitions")
    found = Took(
        wall_s=wall_s,
        refresh_s=watch.refresh_s,
        cpu_s=cpu_s,
        refreshes=len(watch.refreshes),
        shuffled_bytes=_shuffled(spark) - shuffled,
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


_COSTS: Mapping[str, tuple[str, Callable[[Took, int], float]]] = {
    "CPU": ("us a transition", lambda took, n: took.cpu_s * _M / n),
    "refresh": ("us of the clock a transition, beside that", lambda took, n: took.refresh_s * _M / n),
    "a refresh": ("s of the clock", lambda took, _: took.refresh_s / took.refreshes),
    "shuffled": ("bytes a transition", lambda took, n: took.shuffled_bytes / n),
    "tables": ("bytes a transition", lambda took, n: took.out_bytes / n),
}


def rows_of(size: Size, transitions: Mapping[str, int], took: Mapping[str, Sequence[Took]]) -> Iterator[Row]:
    """Return the lines of the table."""
    for base, more in zip(size.cases[::2], size.cases[1::2], strict=True):
        for case in (base, more):
            n, runs = transitions[case.name], took[case.name]
            yield Row(
                what=f"{case.name}: end to end",
                unit="transitions/s on 2 cores",
                ours=Spread.of([n / one.wall_s for one in runs]),
                target=Target(least=TARGETS[case.packed]) if case is more else None,
            )
            for what, (unit, cost) in _COSTS.items():
                yield Row(
                    what=f"{case.name}: {what}", unit=unit, ours=Spread.of([cost(one, n) for one in runs])
                )
        scale = transitions[more.name] / transitions[base.name]
        yield Row(
            what=f"{more.name}: CPU, as often as of {base.name}, for {scale:.1f} times the input",
            unit="times",
            ours=Spread.of(
                [b.cpu_s / a.cpu_s for a, b in zip(took[base.name], took[more.name], strict=True)]
            ),
            target=Target(most=MORE_CPU),
        )
