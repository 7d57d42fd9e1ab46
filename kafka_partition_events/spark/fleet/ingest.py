"""What the two streaming queries do with a batch. Doing it twice with one batch changes nothing."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events
from kafka_partition_events.spark.fleet import sightings
from kafka_partition_events.spark.fleet.ledger import INGEST, OUTAGES, Batch, Ledger
from kafka_partition_events.spark.fleet.progress import BatchDone, Counts, Progress
from kafka_partition_events.spark.fleet.tables import OUTAGE_LOG, QUARANTINE, RECORDS, SIGHTINGS, Tables

CLOCKS: Final = timedelta(days=1)
"""So far may an event be in the future and still be news: clocks differ."""

Late = Callable[[DataFrame], DataFrame]
"""Returns the rows of the outage log that came too late."""


class Ingest:
    """Writes a batch of records to bronze, good ones to ``silver/sightings``, the others to quarantine."""

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
        self._tables.put(RECORDS, sightings.raw(records), number)
        observed = Observation()
        told = sightings.parsed(records)
        # What is observed stands between parsing and the filter, so nothing is parsed twice.
        self._tables.put(SIGHTINGS, sightings.good(told.observe(observed, *_metrics(_now()))), number)
        found = observed.get
        counts = Counts(**{name: found[name] for name in ("read", "good", "unparsed", "unknown")})
        if counts.read != counts.good:
            self._tables.put(QUARANTINE, sightings.quarantined(told), number)
        moments = {name: _moment(found[name]) for name in ("first", "last", "seen")}
        self._ledger.note(Batch(query=INGEST, number=number, counts=counts, **moments))
        seconds = time.monotonic() - begin
        self._progress.batch(BatchDone(query=INGEST, batch=number, counts=counts, seconds=seconds))


class LogOutages:
    """Writes what the outages' state said of a batch to ``silver/outage_log``."""

    def __init__(self, tables: Tables, ledger: Ledger, progress: Progress, late: Late) -> None:
        self._tables = tables
        self._ledger = ledger
        self._progress = progress
        self._late = late

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write the batch.

        Args:
            rows: Rows of the log. They are read once, because reading them moves the state on.
            number: Spark's number of the batch.
        """
        begin = time.monotonic()
        self._tables.put(OUTAGE_LOG, rows, number)
        late = self._late(self._tables.read(OUTAGE_LOG, batches=[number])).count()
        counts = Counts(late=late)
        self._ledger.note(Batch(query=OUTAGES, number=number, counts=counts))
        seconds = time.monotonic() - begin
        self._progress.batch(BatchDone(query=OUTAGES, batch=number, counts=counts, seconds=seconds))


def _metrics(now: datetime) -> list[Column]:
    defect, at = F.col("defect"), F.unix_micros("at")
    good = defect.isNull()
    latest = int((now + CLOCKS).timestamp() * 1_000_000)
    return [
        F.count(F.lit(1)).alias("read"),
        F.count(F.when(good, 1)).alias("good"),
        F.count(F.when(defect == events.UNPARSED, 1)).alias("unparsed"),
        F.count(F.when(defect == events.UNKNOWN, 1)).alias("unknown"),
        F.min(F.when(good, at)).alias("first"),
        F.max(F.when(good, at)).alias("last"),
        F.max(F.when(good & (at <= latest), at)).alias("seen"),
    ]


def _now() -> datetime:
    return datetime.now(UTC)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
