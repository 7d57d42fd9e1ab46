"""The driver is killed by SIGKILL, again and again, in the middle of things. Nothing is lost or doubled."""

import contextlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kafka_partition_events.spark.errors import SparkJobError
from tests.fleet_feed import Feed
from tests.integration.test_fleet_pipeline import gold_of, rows, tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.testing import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FEED = Feed(5, topics=4, partitions=6, days=1.5)
SEED = 11
PATIENCE_S = 180.0
KILLS = (
    ("ingest batch", 1), ("ingest batch", 2), ("outages batch", 1), ("outages batch", 1),
    ("making the tables anew", 1),
)  # fmt: skip
"""After which line of its progress, told how often, a life ends some moments later."""


class Life:
    """One driver: ``kpe spark fleet`` in a session (a process group) of its own."""

    def __init__(self, *arguments: str) -> None:
        program = "import sys; from kafka_partition_events.cli import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, "spark", "fleet", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._new: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._new.put(line)
        self._new.put(None)

    def wait_for(self, text: str) -> str | None:
        """Return the first line with a text; None if the process ends without."""
        deadline = time.monotonic() + PATIENCE_S
        while (line := self._new.get(timeout=max(0.0, deadline - time.monotonic()))) is not None:
            self.lines.append(line)
            if text in line:
                return line
        return None

    def kill(self) -> None:
        """Kill the driver and its JVM in one moment, as if the power were cut."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        self._reader.join(30)

    def told(self) -> str:
        return "".join(self.lines)


@contextlib.contextmanager
def live(*arguments: str) -> Iterator[Life]:
    life = Life(*arguments)
    try:
        yield life
    finally:
        life.kill()


@pytest.fixture(scope="module")
def topic(kafka_cluster: "KafkaCluster") -> str:
    """A topic of three partitions with all events of the story, each topic's in order."""
    name = "kpe.events-killed"
    kafka_cluster.create_topic(name, partitions=3)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "linger.ms": 5})
    for record in FEED.records:
        producer.produce(name, record.value, key=record.key)
    assert producer.flush(60) == 0
    return name


def test_gold_after_many_kills_is_that_of_an_undisturbed_run(
    spark: "SparkSession", kafka_cluster: "KafkaCluster", topic: str, tmp_path: Path
) -> None:
    from kafka_partition_events.spark.fleet.ledger import Ledger  # noqa: PLC0415
    from kafka_partition_events.spark.fleet.pipeline import Fleet, Pipeline  # noqa: PLC0415
    from kafka_partition_events.spark.fleet.sources import KafkaSource  # noqa: PLC0415
    from kafka_partition_events.spark.fleet.storage import Storage  # noqa: PLC0415

    rng = random.Random(SEED)
    batch = str(len(FEED.records) // 5)
    out = tmp_path / "killed"
    arguments = (
        "-b", kafka_cluster.bootstrap_servers, "--events-topic", topic, "--out", str(out),
        "--max-per-batch", batch, "--json",
    )  # fmt: skip
    for text, times in KILLS:
        with live(*arguments, "--once") as life:
            for _ in range(times):
                assert life.wait_for(text) is not None, life.told()
            time.sleep(rng.uniform(0, 1.0))
    with live(*arguments, "--every", "1s") as life:
        while line := life.wait_for('"totals"'):
            if json.loads(line)["totals"]["read"] == len(FEED.records) and _is_complete(out):
                break
        assert line is not None, life.told()
        os.kill(life.process.pid, signal.SIGTERM)
        assert life.process.wait(PATIENCE_S) == 0, life.told()

    source = KafkaSource(bootstrap=kafka_cluster.bootstrap_servers, topic=topic)
    undisturbed = Pipeline(spark, Fleet(out=str(tmp_path / "undisturbed"))).run_once(source)
    assert undisturbed.totals.read == len(FEED.records)
    mark = Ledger(Storage(spark, str(out / "_kpe"))).mark()
    assert mark.totals == undisturbed.totals
    assert (mark.since, mark.until) == (undisturbed.since, undisturbed.until)
    killed, other = tables_of(spark, out), tables_of(spark, tmp_path / "undisturbed")
    offsets = killed.read("bronze/records").select("partition", "offset")
    assert offsets.count() == offsets.distinct().count() == len(FEED.records)
    assert rows(killed.read("silver/events")) == rows(other.read("silver/events"))
    found = gold_of(spark, out)
    for name, wanted in gold_of(spark, tmp_path / "undisturbed").items():
        assert found[name] == wanted, name
    assert found["partition_outages"]


def _is_complete(out: Path) -> bool:
    """Tell whether the query with the state has taken in everything too."""
    checkpoint = out / "_kpe" / "checkpoints" / "outages"
    last = max((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), default=None)
    if last is None:
        return False
    offsets = json.loads((checkpoint / "offsets" / str(last)).read_text().splitlines()[-1])
    return sum(sum(partitions.values()) for partitions in offsets.values()) == len(FEED.records)


def test_a_topic_that_is_not_there_is_told(
    spark: "SparkSession", kafka_cluster: "KafkaCluster", tmp_path: Path
) -> None:
    from kafka_partition_events.spark.fleet.pipeline import Fleet, Pipeline  # noqa: PLC0415
    from kafka_partition_events.spark.fleet.sources import KafkaSource  # noqa: PLC0415

    source = KafkaSource(bootstrap=kafka_cluster.bootstrap_servers, topic="no-such-topic")
    with pytest.raises(SparkJobError, match=r"no-such-topic at .*; do the topics exist"):
        Pipeline(spark, Fleet(out=str(tmp_path / "out"))).run_once(source)
