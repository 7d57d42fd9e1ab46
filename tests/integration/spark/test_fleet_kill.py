"""Killed at any moment, a run leaves what the next one makes right: nothing is lost, and nothing doubled."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from attrs import evolve

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.progress import Progress
from kafka_partition_events.spark.tables.days import Days
from tests.fleet_feed import KEPT, STORY, write_feed
from tests.fleet_kit import (
    DAY,
    as_taken_in,
    created,
    gold_at_once,
    gold_of,
    grown,
    interpreting,
    left,
    moment,
    moved,
    offline,
    online,
    record,
    recovered,
    tables_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.testing import KafkaCluster
    from tests.fleet_kit import Gold

pytestmark = pytest.mark.spark

PATIENCE_S: Final = 300.0
BATCHES: Final = 3
NEXT = DAY + timedelta(days=1)
WRITTEN = moment("01:00", NEXT)

# -- at each call that writes ----------------------------------------------------------------------------

FIRST = [
    created("orders", moment("08:00"), 3),
    created("payments", moment("08:00"), 2),
    offline("orders", 1, moment("10:20"), prev_at=moment("10:19:50")),
    left(2, moment("10:20"), prev_at=moment("10:19:50")),
    # Nobody looked for thirteen hours, says the first observer.
    online("orders", 1, moment("23:30"), prev_at=moment("10:30"), gap=True),
    recovered(moment("10:30"), moment("23:30")),
    moved("payments", 0, moment("23:31"), 2, 1),
    offline("payments", 1, moment("23:40"), prev_at=moment("23:39")),
]
SECOND = [
    # The second one did look, and tells of another end, of growth, and of a move.
    online("orders", 1, moment("10:40"), prev_at=moment("10:39:50"), observer="b"),
    offline("orders", 2, moment("22:00"), prev_at=moment("10:40"), observer="b"),
    grown("payments", moment("11:00"), 4, prev_at=moment("10:59"), observer="b"),
    moved("payments", 0, moment("12:00"), 1, 2, observer="b"),
    online("payments", 1, moment("00:10", NEXT), prev_at=moment("00:09", NEXT)),
    record("cluster.summary", moment("00:10", NEXT), brokers=[{"broker": 1, "leaders": 5, "replicas": 5}]),
]


class Killed(BaseException):
    """What nobody catches."""


class Mortal:
    """Tables and files that are there until so many writes were begun; then the process is dead."""

    def __init__(self, kept: Any, lives: Iterator[bool]) -> None:
        self._kept, self._lives = kept, lives

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._kept, name)
        if name not in {"put", "replace", "drop", "write", "delete"}:
            return method

        def act(*arguments: Any, **named: Any) -> Any:
            if next(self._lives):
                raise Killed
            return method(*arguments, **named)

        return act


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.weekly)])
def test_a_refresh_that_is_killed_before_any_of_its_writes_is_done_again(
    step: int, pipelines_spark: "SparkSession", tmp_path: Path
) -> None:
    from kafka_partition_events.spark.ingest.batches import write_events  # noqa: PLC0415
    from kafka_partition_events.spark.pipeline import Fleet, Pipeline  # noqa: PLC0415
    from kafka_partition_events.spark.refresh.refresher import Refresher  # noqa: PLC0415
    from kafka_partition_events.spark.tables.ledger import Ledger  # noqa: PLC0415
    from kafka_partition_events.spark.tables.storage import Storage  # noqa: PLC0415

    spark = pipelines_spark
    work = Storage(spark, str(tmp_path / "_kpe"))
    tables, ledger = tables_of(spark, tmp_path), Ledger(work)
    Pipeline(spark, Fleet(out=str(tmp_path)))._ensure(as_taken_in(spark, [], WRITTEN))
    ledger.note(write_events(tables, ledger, as_taken_in(spark, FIRST, WRITTEN), 0))
    Refresher(spark, tables, ledger, Progress()).refresh()
    ledger.note(write_events(tables, ledger, as_taken_in(spark, SECOND, WRITTEN), 1))
    for kills in range(0, 100, step):
        lives = (number >= kills for number in range(10_000))  # and who is dead does nothing more
        mortal = Refresher(
            spark,
            Mortal(tables_of(spark, tmp_path), lives),
            Ledger(Mortal(work, lives)),  # type: ignore[arg-type]
            Progress(),
            at_once=1,  # so that it is known which write is the next one
        )
        try:
            mark = mortal.refresh()
        except Killed:
            continue
        break
    assert kills > 8, "there are more writes than that"
    assert mark.ingest == 1
    assert gold_of(spark, tmp_path) == gold_at_once(spark, [*FIRST, *SECOND], Days(DAY, NEXT))


# -- the process -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def driver(log: Path, *arguments: str) -> "Iterator[subprocess.Popen[bytes]]":
    """Start ``kpe spark fleet`` in a session of its own, and kill what is left of it in the end."""
    program = "import sys; from kafka_partition_events.cli import main; main()"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "spark", "fleet", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=interpreting(log.with_name("conf")),
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the driver and its JVM in one moment."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def wait_for_file(
    out: Path, pattern: str, before: set[Path], process: "subprocess.Popen[bytes]", log: Path
) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not {*out.glob(pattern)} - before:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.002)


@pytest.fixture(scope="module")
def topic(kafka_cluster: "KafkaCluster") -> str:
    """A topic of three partitions with all records of the story, those of one key in order."""
    name = "kpe.events-killed"
    kafka_cluster.create_topic(name, partitions=3, config=KEPT)
    write_feed(kafka_cluster.bootstrap_servers, name, STORY.records)
    return name


@pytest.mark.weekly  # at random; each write by itself is killed above
@pytest.mark.kafka
def test_gold_after_kills_is_what_the_batch_computation_makes_of_all(
    spark: "SparkSession",
    kafka_cluster: "KafkaCluster",
    topic: str,
    gold_of_the_story: "Gold",
    tmp_path: Path,
) -> None:
    from kafka_partition_events.spark.ingest.batches import quarantined  # noqa: PLC0415
    from kafka_partition_events.spark.tables.ledger import Ledger  # noqa: PLC0415
    from kafka_partition_events.spark.tables.storage import Storage  # noqa: PLC0415

    out, log = tmp_path / "out", tmp_path / "log"
    arguments = (
        "-b", kafka_cluster.bootstrap_servers, "--events-topic", topic, "--out", str(out), "--once",
        "--max-per-batch", str(len(STORY.records) // BATCHES + 1),
    )  # fmt: skip
    # While a batch is written, and while gold is; how far they are then is left to chance.
    for files in ("bronze/records/day=*/batch=1/*.parquet", "gold/*/day=*/**/*.parquet"):
        before = {*out.glob(files)}
        with driver(log, *arguments) as process:
            wait_for_file(out, files, before, process, log)
            time.sleep(random.uniform(0, 1))
            kill(process)
    with driver(log, *arguments) as process:
        assert process.wait(PATIENCE_S) == 0, log.read_text()

    mark = Ledger(Storage(spark, str(out / "_kpe"))).mark()
    assert evolve(mark.totals, doubles=0) == evolve(STORY.counts, doubles=0)
    records = tables_of(spark, out).read("bronze/records")
    offsets = records.select("partition", "offset")
    assert offsets.count() == offsets.distinct().count() == len(STORY.records)
    assert quarantined(records).count() == STORY.junk + STORY.unknown
    assert gold_of(spark, out) == gold_of_the_story


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_told(
    spark: "SparkSession", kafka_cluster: "KafkaCluster", tmp_path: Path
) -> None:
    from kafka_partition_events.spark.ingest.sources import KafkaSource  # noqa: PLC0415
    from kafka_partition_events.spark.pipeline import Fleet, Pipeline  # noqa: PLC0415

    source = KafkaSource(bootstrap=kafka_cluster.bootstrap_servers, topic="no-such-topic")
    with pytest.raises(SparkJobError, match=r"no-such-topic at .*; do the topics exist"):
        Pipeline(spark, Fleet(out=str(tmp_path / "out"))).run_once(source)
