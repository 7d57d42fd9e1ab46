"""The query over records of change control: where they come from, and what a batch of them becomes.

Doing a batch twice changes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.spark.control.records import TOPICS, parse, quarantined, told
from kafka_partition_events.spark.events import UNKNOWN, UNPARSED
from kafka_partition_events.spark.ingest.sources import KafkaTopics
from kafka_partition_events.spark.tables.ledger import CONTROL, Batch, Counts
from kafka_partition_events.spark.tables.tables import Tables

QUARANTINE: Final = "bronze/control_quarantine"


@frozen(kw_only=True)
class ControlTopics(KafkaTopics):
    """``kpe.changes``, ``kpe.leases`` and ``kpe.acks``, as far as their records are committed.

    Attributes:
        prefix: What the topics' names begin with.
    """

    prefix: str = PREFIX

    @property
    def topics(self) -> Sequence[str]:
        """The topics."""
        return [f"{self.prefix}{topic}" for topic in TOPICS]

    @property
    def settings(self) -> Mapping[str, str]:
        """The options, and that what a tracker wrote that was fenced in the middle was never said."""
        return {**self.options, "isolation.level": "read_committed"}


def ensure(tables: Tables, records: DataFrame) -> None:
    """Make the tables that are read whether a batch has had rows for them or not. No record is read."""
    parsed, batch = parse(records), F.lit(0).cast("bigint").alias("batch")
    tables.ensure(QUARANTINE, quarantined(parsed).select("*", batch).schema)
    for topic in TOPICS:
        tables.ensure(f"silver/{topic}", told(parsed, topic).select("*", batch).schema)


def write_control(tables: Tables, records: DataFrame, number: int) -> Batch:
    """Write a batch of records, as a source gives them; return what is to be noted.

    Good ones go to ``silver/changes``, ``leases`` and ``acks``, bad ones to quarantine.
    """
    parsed = parse(records).persist()
    try:
        heard = F.max("record.timestamp").alias("heard")
        counted = parsed.groupBy("of", "defect").agg(F.count(F.lit(1)).alias("count"), heard)
        found: list[dict[str, Any]] = counted.toArrow().to_pylist()
        for topic in sorted({row["of"] for row in found if row["defect"] is None}):
            tables.put(f"silver/{topic}", told(parsed, topic), number)
        if any(row["defect"] is not None for row in found):
            tables.put(QUARANTINE, quarantined(parsed), number)
    finally:
        parsed.unpersist()

    good, unparsed, unknown = (
        sum(row["count"] for row in found if row["defect"] == defect) for defect in (None, UNPARSED, UNKNOWN)
    )
    counts = Counts(read=good + unparsed + unknown, good=good, unparsed=unparsed, unknown=unknown)
    last = max((row["heard"] for row in found), default=None)
    return Batch(query=CONTROL, number=number, counts=counts, heard=last)
