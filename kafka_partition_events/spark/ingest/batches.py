"""From a source's records to the rows of bronze, and what is counted of those that came."""

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from attrs import evolve, frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events
from kafka_partition_events.spark.gold.intervals import day_of
from kafka_partition_events.spark.tables.counts import Counts
from kafka_partition_events.spark.tables.state import INGEST, Reading

_NO_DAY: Final = date(2000, 1, 1)
COORDINATES: Final = ("topic", "partition", "offset", "timestamp", "timestampType")


def rows(records: DataFrame) -> DataFrame:
    """Return the rows of ``bronze/records``: as they came, beside the event that each is, or its ``defect``.

    ``day`` is that of the broker's timestamp, so it is the same when a batch is repeated.
    """
    # A writer may say anything where the topic does not bound it; the record is of the past then.
    sane = F.col("timestamp").between(*(F.to_timestamp(F.lit(year)) for year in events.YEARS))
    day = F.coalesce(day_of(F.unix_micros(F.when(sane, F.col("timestamp")))), F.lit(_NO_DAY)).alias("day")
    kept = records.select(*COORDINATES, "key", "value", day)
    return events.parsed(kept, *COORDINATES, "key", "value", "day")


@frozen(kw_only=True)
class Came:
    """What came since the last refresh.

    Attributes:
        counts: How many records.
        reading: How far its query is now.
    """

    counts: Counts
    reading: Reading


def came(records: DataFrame, reading: Reading, query: str = INGEST) -> Came:
    """Count the rows of ``bronze/records``, or of ``silver/changes``, that a query has added.

    Of changes no offset counts as missing: their topic is compacted, and written in transactions.
    """
    defects = (F.count_if(F.col("defect") == name).alias(name) for name in events.DEFECTS)
    found = (
        records.groupBy("partition")
        .agg(
            F.count("*").alias("read"),
            F.count_if(F.col("defect").isNull()).alias("good"),
            *defects,
            F.count("offset").alias("there"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
        )
        .toArrow()
        .to_pylist()
    )
    counts = Counts(**{name: sum(row[name] for row in found) for name in ("read", "good", *events.DEFECTS)})
    next_, missing = _offsets(found, reading.next)
    counts = evolve(counts, missing=missing if query == INGEST else 0)
    return Came(counts=counts, reading=evolve(reading, next=next_))


def _offsets(found: list[dict[str, Any]], before: Mapping[str, int]) -> tuple[Mapping[str, int], int]:
    """Return the offsets after the last ones, and how many are missing."""
    after, missing = dict(before), 0
    for row in found:
        if row["last"] is None:  # of a source without offsets
            continue
        partition = str(row["partition"])
        # A topic is begun where its first records are, or where the first batch ended (partition 7: all up to
        # 5,000 is expired, and 5,000 comes in the second batch); a partition that came later, at 0.
        first = min(row["first"], before.get(partition, 0)) if before else row["first"]
        missing += max(0, row["last"] + 1 - first - row["there"])
        after[partition] = row["last"] + 1
    return after, missing
