"""What the query does with a batch: one read, one parse, one table. Doing it twice changes nothing."""

from datetime import date
from typing import Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events
from kafka_partition_events.spark.gold.intervals import day_of
from kafka_partition_events.spark.kafka import count_between, offsets_in
from kafka_partition_events.spark.tables.days import Days
from kafka_partition_events.spark.tables.ledger import INGEST, Batch, Counts, Ledger
from kafka_partition_events.spark.tables.tables import RECORDS, Tables

_NO_DAY: Final = date(2000, 1, 1)
COORDINATES: Final = ("topic", "partition", "offset", "timestamp", "timestampType")


def rows(records: DataFrame, *keep: str) -> DataFrame:
    """Return the rows of ``bronze/records``: as they came, beside what they tell, or why they tell nothing.

    ``day`` is that of the broker's timestamp, so it is the same when a batch is repeated. Columns to
    ``keep`` come last but one.
    """
    # A writer may say anything where the topic does not bound it; the record is of the past then.
    sane = F.col("timestamp").between(*(F.to_timestamp(F.lit(year)) for year in events.YEARS))
    day = F.coalesce(day_of(F.unix_micros(F.when(sane, F.col("timestamp")))), F.lit(_NO_DAY)).alias("day")
    kept = records.select(*COORDINATES, "key", "value", *keep, day)
    return events.parsed(kept, *COORDINATES, "key", "value", *keep, "day")


def quarantined(records: DataFrame) -> DataFrame:
    """Return the rows of ``bronze/records`` that are no events of ours, with the ``reason``."""
    bad = records.where(F.col("defect").isNotNull())
    return bad.select(*COORDINATES, "key", "value", F.col("defect").alias("reason"), "day", "batch")


def write_events(tables: Tables, ledger: Ledger, records: DataFrame, number: int) -> Batch:
    """Write a batch of records, as a source gives them, to ``bronze/records``; return what is to be noted."""
    observed = Observation()
    tables.put(RECORDS, rows(records).observe(observed, *_metrics()), number)
    found = observed.get
    begin = offsets_in(ledger.offsets(INGEST, number - 1) or ledger.first_offsets(INGEST))
    # More than there were, if some are gone.
    planned = count_between(begin, offsets_in(ledger.offsets(INGEST, number)))
    names = ("read", "good", *events.DEFECTS)
    counts = Counts(**{name: found[name] for name in names}, missing=max(0, planned - found["with_offset"]))
    days = Days(found["first_day"], found["last_day"]) if found["first_day"] else None
    return Batch(query=INGEST, number=number, counts=counts, days=days)


def _metrics() -> list[Column]:
    defect = F.col("defect")
    return [
        F.count(F.lit(1)).alias("read"),
        F.count("offset").alias("with_offset"),
        F.count(F.when(defect.isNull(), 1)).alias("good"),
        *(F.count(F.when(defect == name, 1)).alias(name) for name in events.DEFECTS),
        F.min("day").alias("first_day"),
        F.max("day").alias("last_day"),
    ]
