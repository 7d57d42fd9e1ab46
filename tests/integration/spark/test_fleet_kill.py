"""Killed at any moment, a run leaves what the next one makes right: nothing is lost, and nothing doubled."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from attrs import evolve

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.tables.days import Days
from tests.fleet_feed import KEPT, STORY, write_feed
from tests.fleet_kit import (
    DAY,
    Begun,
    begun,
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

    from kafka_partition_events.spark.tables.tables import Tables
    from kafka_partition_events.testing import KafkaCluster
    from tests.fleet_kit import Gold

pytestmark = pytest.mark.spark

PATIENCE_S: Final = 300.0
BATCHES: Final = 3
NEXT = DAY + timedelta(days=1)

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


WRITES: Final = frozenset({"append", "replace", "overwrite"})


class Watched:
    """Tables of a run that something happens to before one of its writes."""

    def __init__(self, tables: "Tables", number: int, act: Callable[[], None]) -> None:
        self._tables, self._left, self._act = tables, number, act

    def __getattr__(self, name: str) -> Any:
        if name in WRITES:
            if self._left == 0:
                self._act()
            self._left -= 1
        return getattr(self._tables, name)


class Killed(BaseException):
    """What nobody catches."""


def kill_it() -> None:
    raise Killed


@pytest.fixture(scope="module")
def half(pipelines_spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with the first batch, and the second one in bronze."""
    out = tmp_path_factory.mktemp("half") / "out"
    run = begun(pipelines_spark, out)
    run.take_in(FIRST, 0)
    run = run.refresh()
    run.take_in(SECOND, 1)
    return out


@pytest.fixture(scope="module")
def whole(spark: "SparkSession") -> "Gold":
    return gold_at_once(spark, [*FIRST, *SECOND], Days(DAY, NEXT))


STEPS = [8, pytest.param(1, marks=pytest.mark.weekly)]
"""Before one of so many writes; before each of them once a week."""


@pytest.mark.parametrize("step", STEPS)
def test_a_refresh_that_is_killed_before_any_of_its_writes_is_done_again(
    step: int, pipelines_spark: "SparkSession", half: Path, whole: "Gold", tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(half, out)
    for writes in range(step - 1, 100, step):
        run = begun(pipelines_spark, out)
        run = run._replace(state=evolve(run.state, readings=run.kept.read().readings or run.state.readings))
        try:
            # One thing after another, so that it is known which write is the next one.
            run.refresh(Watched(run.tables, writes, kill_it), at_once=1)
        except Killed:
            continue
        break
    assert writes > 8, "there are more writes than that"
    assert gold_of(pipelines_spark, out) == whole


@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_thaws_before_any_of_its_writes_changes_nothing_and_stops(
    step: int, pipelines_spark: "SparkSession", half: Path, whole: "Gold", tmp_path: Path
) -> None:
    for writes in range(step - 1, 100, step):
        out = tmp_path / str(writes)
        shutil.copytree(half, out)
        frozen, others = begun(pipelines_spark, out), list[Begun]()

        def take_over(out: Path = out, others: list[Begun] = others) -> None:
            others.append(begun(pipelines_spark, out).refresh())

        told = ""
        try:
            frozen.refresh(Watched(frozen.tables, writes, take_over), at_once=1)
        except SparkJobError as error:
            told = str(error)
        assert ("this one (run " in told) == bool(others), "it is told that another one has taken over"
        assert gold_of(pipelines_spark, out) == whole, f"before write {writes}"
        if not others:
            break
    assert writes > 8, "there are more writes than that"


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
    from kafka_partition_events.spark.tables.state_table import StateTable  # noqa: PLC0415

    out, log = tmp_path / "out", tmp_path / "log"
    arguments = (
        "-b", kafka_cluster.bootstrap_servers, "--events-topic", topic, "--out", str(out), "--once",
        "--max-per-batch", str(len(STORY.records) // BATCHES + 1),
    )  # fmt: skip
    # While a batch is written, and while gold is; how far they are then is left to chance.
    for files in ("bronze/records/day=*/*.parquet", "gold/*/day=*/**/*.parquet"):
        before = {*out.glob(files)}
        with driver(log, *arguments) as process:
            wait_for_file(out, files, before, process, log)
            time.sleep(random.uniform(0, 1))
            kill(process)
    with driver(log, *arguments) as process:
        assert process.wait(PATIENCE_S) == 0, log.read_text()

    mark = StateTable(tables_of(spark, out)).read().mark
    assert evolve(mark.totals, doubles=0) == evolve(STORY.counts, doubles=0)
    records = tables_of(spark, out).read("bronze/records")
    offsets = records.select("partition", "offset")
    assert offsets.count() == offsets.distinct().count() == len(STORY.records)
    assert records.where("defect IS NOT NULL").count() == STORY.junk + STORY.unknown
    assert gold_of(spark, out) == gold_of_the_story


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_told(
    spark: "SparkSession", kafka_cluster: "KafkaCluster", tmp_path: Path
) -> None:
    from kafka_partition_events.spark.ingest.sources import KafkaSource  # noqa: PLC0415
    from kafka_partition_events.spark.pipeline import Fleet, Pipeline  # noqa: PLC0415

    source = KafkaSource(bootstrap=kafka_cluster.bootstrap_servers, topic="no-such-topic")
    with pytest.raises(SparkJobError, match=r"no-such-topic at .*; does the topic exist"):
        Pipeline(spark, Fleet(out=str(tmp_path / "out"))).run_once(source)
