"""What the third streaming query does with a batch of control records. Doing it twice changes nothing."""

import time
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.changes.records import TOPICS, parse, quarantined, told
from kafka_partition_events.spark.events import UNKNOWN, UNPARSED
from kafka_partition_events.spark.fleet.ledger import CONTROL, Batch, Ledger
from kafka_partition_events.spark.fleet.progress import BatchDone, Counts, Progress
from kafka_partition_events.spark.fleet.tables import Tables

QUARANTINE: Final = "bronze/control_quarantine"


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
