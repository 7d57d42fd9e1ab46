"""The driver is killed by SIGKILL in the middle of a batch: nothing is lost, and nothing doubled in gold."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Producer

from kafka_partition_events.spark.errors import SparkJobError
from tests.fleet_feed import STORY
from tests.fleet_kit import BRIEF_JVM, gold_of, tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.testing import KafkaCluster
    from tests.fleet_kit import Gold

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PATIENCE_S: Final = 180.0
BATCHES: Final = 3


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
            env={**os.environ, **BRIEF_JVM},
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the driver, its JVM and its workers in one moment, as if the power were cut."""
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


def is_planned(out: Path, query: str, batch: int) -> bool:
    return (out / "_kpe" / "checkpoints" / query / "offsets" / str(batch)).exists()


def is_committed(out: Path, query: str, batch: int) -> bool:
    return (out / "_kpe" / "checkpoints" / query / "commits" / str(batch)).exists()


def next_batch(out: Path, query: str) -> int:
    """Return the next batch that is to be done, but not the first: a state and tables are to be spoilt.

    Which one that is after a kill is open, because both queries run at once.
    """
    return next(batch for batch in range(1, BATCHES) if not is_committed(out, query, batch))


@pytest.fixture(scope="module")
def topic(kafka_cluster: "KafkaCluster") -> str:
    """A topic of three partitions with all records of the story, those of one key in order."""
    name = "kpe.events-killed"
    kafka_cluster.create_topic(name, partitions=3)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "linger.ms": 5})
    for record in STORY.records:
        producer.produce(name, record.value, key=record.key)
    assert producer.flush(60) == 0
    return name


def test_gold_after_kills_is_what_the_batch_computation_makes_of_all(
    spark: "SparkSession",
    kafka_cluster: "KafkaCluster",
    topic: str,
    gold_of_the_story: "Gold",
    tmp_path: Path,
) -> None:
    from kafka_partition_events.spark.fleet.ledger import Ledger  # noqa: PLC0415
    from kafka_partition_events.spark.fleet.storage import Storage  # noqa: PLC0415

    out, log = tmp_path / "out", tmp_path / "log"
    arguments = (
        "-b", kafka_cluster.bootstrap_servers, "--events-topic", topic, "--out", str(out), "--once",
        "--max-per-batch", str(len(STORY.records) // BATCHES + 1),
    )  # fmt: skip
    # The batch has written a table, and is not done.
    written = {"ingest": "bronze/records/day=*", "outages": "silver/outage_log"}
    for query, table in written.items():
        batch = next_batch(out, query)
        files = f"{table}/batch={batch}/*.parquet"
        before = {*out.glob(files)}
        with driver(log, *arguments) as process:
            wait_for_file(out, files, before, process, log)
            kill(process)
            assert is_planned(out, query, batch)
            assert not is_committed(out, query, batch), "it was too late to kill the batch in its middle"
            assert is_committed(out, query, batch - 1)
    with driver(log, *arguments) as process:
        assert process.wait(PATIENCE_S) == 0, log.read_text()

    mark = Ledger(Storage(spark, str(out / "_kpe"))).mark()
    assert mark.totals == STORY.counts
    offsets = tables_of(spark, out).read("bronze/records").select("partition", "offset")
    assert offsets.count() == offsets.distinct().count() == len(STORY.records)
    assert tables_of(spark, out).read("bronze/quarantine").count() == STORY.junk + STORY.unknown
    assert gold_of(spark, out) == gold_of_the_story


def test_a_topic_that_is_not_there_is_told(
    spark: "SparkSession", kafka_cluster: "KafkaCluster", tmp_path: Path
) -> None:
    from kafka_partition_events.spark.fleet.pipeline import Fleet, Pipeline  # noqa: PLC0415
    from kafka_partition_events.spark.fleet.sources import KafkaSource  # noqa: PLC0415

    source = KafkaSource(bootstrap=kafka_cluster.bootstrap_servers, topic="no-such-topic")
    with pytest.raises(SparkJobError, match=r"no-such-topic at .*; do the topics exist"):
        Pipeline(spark, Fleet(out=str(tmp_path / "out"))).run_once(source)
