"""A broker dies between two batches of a stream: ours goes on, Spark's plain sink waits for the dead."""

import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kafka_partition_events.spark.partition_column import Written, write_to_kafka
from kafka_partition_events.testing import KafkaCluster
from tests.partition_column_kit import stored
from tests.waiting_kit import waiting

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROWS = 2_000
ROW_BYTES = 400
"""Together some fifty of the Java client's batches: its sticky partitioner moves on after each."""

GIVES_UP_MS = 12_000
"""The sink's ``delivery.timeout.ms``, 120 s by default: how long a stalled batch stalls."""

TIMEOUTS = {
    "delivery.timeout.ms": str(GIVES_UP_MS),
    "request.timeout.ms": "5000",
    "max.block.ms": str(GIVES_UP_MS),
}


class Stream:
    """A streaming query over files, each of which is a batch."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory
        (directory / "in").mkdir(parents=True)
        self.query: StreamingQuery | None = None

    def start(self, sink: Callable[[DataStreamWriter], DataStreamWriter]) -> None:
        lines = self._spark.readStream.option("maxFilesPerTrigger", 1).text(str(self._directory / "in"))
        writer = lines.writeStream.option("checkpointLocation", str(self._directory / "checkpoint"))
        self.query = sink(writer).start()

    def feed(self, name: str) -> None:
        """Add a batch of rows that begin with a name."""
        text = "".join(f"{name}-{number:06d}".ljust(ROW_BYTES, ".") + "\n" for number in range(ROWS))
        hidden = self._directory / f"{name}.txt"
        hidden.write_text(text, encoding="ascii")
        hidden.rename(self._directory / "in" / hidden.name)

    def finish(self) -> bool:
        """Wait until everything is written; tell whether it was."""
        assert self.query is not None
        try:
            self.query.processAllAvailable()
        except StreamingQueryException as error:
            sys.stdout.write(f"the query died: {str(error)[:300]}\n")
            return False
        return True

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()


def made(cluster: KafkaCluster, stem: str) -> str:
    """Make a topic of six partitions of one replica, of which broker 2 leads 1 and 4."""
    name = f"{stem}-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, assignment={partition: [partition % 3 + 1] for partition in range(6)})
    return name


def partitions_of(
    spark: SparkSession, cluster: KafkaCluster, topic: str, name: str
) -> tuple[int, set[int], int]:
    """Return how many records a batch left, on which partitions, and how many rows they are."""
    rows = (
        stored(spark, cluster.bootstrap_servers, topic)
        .selectExpr("partition", "substring_index(CAST(value AS STRING), '.', 1) AS row")
        .where(f"row LIKE '{name}-%'")
        .collect()
    )
    return len(rows), {row["partition"] for row in rows}, len({row["row"] for row in rows})


def test_the_batch_after_a_kill_avoids_the_brokers_partitions_and_the_plain_sink_stalls(
    spark: SparkSession, cluster: KafkaCluster, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    topic, plain_topic = made(cluster, "ours"), made(cluster, "plain")
    written: list[Written] = []

    def write(rows: DataFrame, _batch: int) -> None:
        written.append(
            write_to_kafka(
                rows,
                topic=topic,
                cluster=cluster.bootstrap_servers,
                key=None,
                # Spark shares a producer among queries of equal options, and each waits for all its records.
                options={**TIMEOUTS, "client.id": "ours"},
            )
        )

    def plainly(writer: DataStreamWriter) -> DataStreamWriter:
        options: dict[str, Any] = {f"kafka.{name}": value for name, value in TIMEOUTS.items()}
        options["kafka.bootstrap.servers"] = cluster.bootstrap_servers
        options["kafka.client.id"] = "plain"
        return writer.format("kafka").options(**options, topic=plain_topic)

    ours, plain = Stream(spark, tmp_path / "ours"), Stream(spark, tmp_path / "plain")
    try:
        ours.start(lambda writer: writer.foreachBatch(write))
        plain.start(plainly)
        for stream in (ours, plain):
            stream.feed("first")
        assert ours.finish()
        assert plain.finish()

        cluster.kill(2)  # for 9 s metadata names it as a leader all the same
        began = time.monotonic()
        for stream in (ours, plain):
            stream.feed("second")
        assert ours.finish()
        ours_s = time.monotonic() - began
        plain_came_through = plain.finish()
        plain_s = time.monotonic() - began

        cluster.await_registered(1, 3)
        ours.feed("third")  # now metadata says it
        assert ours.finish()

        cluster.restart(2)
        waiting(30)(lambda: None not in cluster.leaders(topic).values(), "broker 2 leads again")
        ours.feed("fourth")
        assert ours.finish()
    finally:
        ours.stop()
        plain.stop()

    record_property("ours_s", round(ours_s, 1))
    record_property("plain_s", round(plain_s, 1))
    outcome = "came through" if plain_came_through else "gave up, and its query died"
    sys.stdout.write(
        f"after the kill: ours took {ours_s:.1f} s; Spark's sink {outcome} after {plain_s:.1f} s\n"
    )
    assert ours_s < plain_s
    assert len(written) == 4
    lost = (1, 4)
    assert [each.offline for each in (written[0], written[2], written[3])] == [(), lost, ()]
    assert (written[1].avoided or written[1].offline) == lost  # avoided, unless we were slower than 9 s
    for name, expected in (
        ("first", {0, 1, 2, 3, 4, 5}),
        ("second", {0, 2, 3, 5}),
        ("third", {0, 2, 3, 5}),
        ("fourth", {0, 1, 2, 3, 4, 5}),
    ):
        records, partitions, rows = partitions_of(spark, cluster, topic, name)
        assert (records, partitions, rows) == (ROWS, expected, ROWS), name
