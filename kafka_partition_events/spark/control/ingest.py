"""The query over records of change control: where they come from, and what a batch of them becomes.

Doing a batch twice changes nothing.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen
from attrs.validators import min_len
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.spark.control.records import TOPICS, parse, quarantined, told
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.events import UNKNOWN, UNPARSED
from kafka_partition_events.spark.ingest.sources import COLUMNS
from kafka_partition_events.spark.kafka import explained, stream_topics
from kafka_partition_events.spark.progress import BatchDone, Progress
from kafka_partition_events.spark.tables.ledger import CONTROL, Batch, Counts, Ledger
from kafka_partition_events.spark.tables.tables import Tables

_COMMITTED: Final = {"isolation.level": "read_committed"}
"""What a tracker wrote that was fenced in the middle was never said."""


QUARANTINE: Final = "bronze/control_quarantine"


@frozen(kw_only=True)
class ControlTopics:
    """``kpe.changes``, ``kpe.leases`` and ``kpe.acks`` from their beginnings: an `ingest.sources.Source`.

    Attributes:
        bootstrap: The brokers, ``host:port,host:port``.
        prefix: What the topics' names begin with.
        options: More options of Kafka's Java consumer by its own names; never shown.
        max_per_batch: How many records a batch holds at the most.
    """

    bootstrap: str = field(validator=min_len(1))
    prefix: str = PREFIX
    options: Mapping[str, str] = field(factory=dict, repr=False)
    max_per_batch: int | None = None

    @property
    def name(self) -> str:
        """The topics; brokers may move."""
        return f"the Kafka topics {', '.join(self._topics)}"

    @property
    def _topics(self) -> list[str]:
        return [f"{self.prefix}{topic}" for topic in TOPICS]

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the topics' records, as far as they are committed."""
        options = {**self.options, **_COMMITTED}
        found = stream_topics(spark, self.bootstrap, self._topics, options, max_per_batch=self.max_per_batch)
        return found.select(*COLUMNS)

    def explain(self, error: Exception) -> SparkJobError:
        """Return the cause and the cure."""
        return explained(error, self._topics, self.bootstrap)


def ensure(tables: Tables, records: DataFrame) -> None:
    """Make the tables that are read whether a batch has had rows for them or not.

    Args:
        tables: Where they are.
        records: As a source gives them; they are not read.
    """
    parsed, batch = parse(records), F.lit(0).cast("bigint").alias("batch")
    tables.ensure(QUARANTINE, quarantined(parsed).select("*", batch).schema)
    for topic in TOPICS:
        tables.ensure(f"silver/{topic}", told(parsed, topic).select("*", batch).schema)


class TakeControl:
    """Writes a batch of records to ``silver/changes``, ``leases`` and ``acks``, bad ones to quarantine."""

    def __init__(self, tables: Tables, ledger: Ledger, progress: Progress) -> None:
        self._tables = tables
        self._ledger = ledger
        self._progress = progress

    def __call__(self, records: DataFrame, number: int) -> None:
        """Write the batch.

        Args:
            records: As a source gives them.
            number: Spark's number of the batch.
        """
        begin = time.monotonic()
        parsed = parse(records).persist()
        try:
            found = _counted(parsed)
            counts = Counts(
                read=sum(row["count"] for row in found),
                good=sum(row["count"] for row in found if row["defect"] is None),
                unparsed=sum(row["count"] for row in found if row["defect"] == UNPARSED),
                unknown=sum(row["count"] for row in found if row["defect"] == UNKNOWN),
            )
            for topic in sorted({row["of"] for row in found if row["defect"] is None}):
                self._tables.put(f"silver/{topic}", told(parsed, topic), number)
            if counts.read != counts.good:
                self._tables.put(QUARANTINE, quarantined(parsed), number)
        finally:
            parsed.unpersist()
        heard = max((row["heard"] for row in found), default=None)
        self._ledger.note(Batch(query=CONTROL, number=number, counts=counts, heard=heard))
        seconds = time.monotonic() - begin
        self._progress.batch(BatchDone(query=CONTROL, batch=number, counts=counts, seconds=seconds))


def _counted(parsed: DataFrame) -> list[dict[str, Any]]:
    heard = F.max("record.timestamp").alias("heard")
    counted = parsed.groupBy("of", "defect").agg(F.count(F.lit(1)).alias("count"), heard)
    rows: list[dict[str, Any]] = counted.toArrow().to_pylist()
    return rows
