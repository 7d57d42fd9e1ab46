"""Makes the days anew that batches have touched. Doing it twice changes nothing.

What a changed event changes in gold: its own day, and the days between its bounds; if it is one of those that
tell of all days after them (`blind.LASTING`, or one with a gap), the days until now. A changed outage changes
its days, and more news the days since the last news, for what is open is open until now.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import outages
from kafka_partition_events.spark.changes.refresh import ChangeRefresher
from kafka_partition_events.spark.fleet import gold, outage_log, sightings
from kafka_partition_events.spark.fleet.availability import SETTLED_AFTER
from kafka_partition_events.spark.fleet.blind import lasting
from kafka_partition_events.spark.fleet.days import Days, clipped, joined
from kafka_partition_events.spark.fleet.gold_refresh import GoldRefresher, days_of, first_day
from kafka_partition_events.spark.fleet.inputs import GoldTable
from kafka_partition_events.spark.fleet.ledger import CONTROL, INGEST, OUTAGES, Batch, Ledger, Mark
from kafka_partition_events.spark.fleet.progress import Progress, Refreshed
from kafka_partition_events.spark.fleet.sightings import REACH_DAYS, day_of, within
from kafka_partition_events.spark.fleet.tables import (
    EVENTS,
    OUTAGE_LOG,
    SIGHTINGS,
    SNAPSHOT,
    Tables,
)
from kafka_partition_events.spark.outages import KEY

TELL_OUTAGES: Final = (
    "partition.offline", "partition.online", "topic.created", "topic.deleted", "topic.recreated",
)  # fmt: skip
"""The events that the batch computation of outages is made from."""

_NEAR: Final = 2 * REACH_DAYS
"""Days so close together share sightings, which must be counted once."""


@frozen(kw_only=True)
class _Changes:
    """What changed in silver.

    Attributes:
        spans: The days that changed events and outages tell of.
        lasting: Whether one of the events tells of all days after it.
        doubles: How many sightings told of an event that another one had told of.
    """

    spans: Sequence[Days] = ()
    lasting: bool = False
    doubles: int = 0


class Refresher:
    """Keeps ``silver/events``, ``silver/outages`` and gold up to date with what batches have written."""

    def __init__(
        self,
        tables: Tables,
        ledger: Ledger,
        progress: Progress,
        gold_tables: Mapping[str, GoldTable] = gold.TABLES,
    ) -> None:
        self._tables = tables
        self._ledger = ledger
        self._progress = progress
        self._gold = GoldRefresher(tables=tables, made=gold_tables)
        self._followed = ChangeRefresher(tables=tables)

    def refresh(self) -> Mark:
        """Take up all batches that are noted; return the mark that then holds."""
        begin = time.monotonic()
        noted, mark = self._ledger.noted(), self._ledger.mark()
        batches = [batch for batch in noted if mark.is_new(batch)]
        if not batches:
            self._ledger.forget(noted)  # a crash has kept the refresh that took them up from doing so
            self._tell(mark, [], begin)
            return mark
        after = mark.after(batches)
        changed = self._refresh_events(batches, mark, after)
        spans, snapshot = self._refresh_outages(batches, mark, after)
        spans = [*changed.spans, *spans]
        if mark.until is not None and after.until is not None and mark.until < after.until:
            spans.append(Days((mark.until - SETTLED_AFTER).date(), after.until.date()))
        ranges = self._refresh_gold(spans, after, snapshot, whole=changed.lasting)
        ranges = joined([*ranges, *self._refresh_changes(batches, after)])
        settled = mark.after(batches, doubles=changed.doubles, snapshot=snapshot)
        return self._settle(settled, mark, noted, ranges, begin)

    def recompute(self, days: Days) -> Mark:
        """Make these days anew from ``silver/sightings``, outages by the batch computation.

        What it finds of an outage holds until there is news of that outage.
        """
        mark = self.refresh()
        begin = time.monotonic()
        if mark.heard is not None:
            self._followed.recompute(days, mark.control, mark.heard)
        if mark.since is None or mark.until is None:
            return mark
        self._replace_events([days])
        told = self._tables.read(SIGHTINGS).where(F.col("name").isin(*TELL_OUTAGES))
        found = _begun(outages.partition_outages(told), days).select(*outage_log.OUTAGE)
        base = self._snapshot(mark.snapshot)
        gone = _begun(base, days)
        rest = base.join(gone.select(*KEY, "began_by"), [*KEY, "began_by"], "left_anti")
        spans = [days, *days_of(gone.unionByName(found), mark.until)]
        serial = mark.serial + 1
        self._tables.put(SNAPSHOT, rest.unionByName(found), serial)
        ranges = self._refresh_gold(spans, mark, serial, whole=True)
        return self._settle(mark.after([], snapshot=serial), mark, [], ranges, begin)

    # -- events --------------------------------------------------------------------------------------

    def _refresh_events(self, batches: Iterable[Batch], mark: Mark, after: Mark) -> _Changes:
        """Make the events anew that new sightings tell of."""
        told = [batch for batch in batches if batch.query == INGEST and batch.first and batch.last]
        if not told:
            return _Changes()
        firsts = [batch.first.date() for batch in told if batch.first]
        reach = Days(min(firsts), max(batch.last.date() for batch in told if batch.last))
        if mark.ingest < 0:  # all there is, is new
            doubles = self._replace_events([reach], mark, after)
            until = reach.last if after.until is None else max(reach.last, after.until.date())
            return _Changes(spans=[Days(reach.first, until)], lasting=True, doubles=doubles)
        numbers = [batch.number for batch in told]
        new = self._tables.read(SIGHTINGS, reach, batches=numbers)
        old = self._tables.read(SIGHTINGS, reach.widened(REACH_DAYS)).where(F.col("batch") < min(numbers))
        touched = sightings.touched(old, new).toArrow().column("day").to_pylist()
        days = joined((Days(day, day) for day in touched), gap=_NEAR)
        ids = new.select("source", "id").distinct()
        before = self._spans(ids, days, after)
        doubles = self._replace_events(days, mark, after)
        now = self._spans(ids, days, after)
        return _Changes(
            spans=[*(Days(day, day) for day in touched), *before.spans, *now.spans],
            lasting=before.lasting or now.lasting,
            doubles=doubles,
        )

    def _replace_events(
        self, ranges: Iterable[Days], mark: Mark | None = None, after: Mark | None = None
    ) -> int:
        """Make the events of these days anew; return the number of doubles among the new sightings."""
        doubles = 0
        for days in ranges:
            told = self._tables.read(SIGHTINGS, days.widened(REACH_DAYS))
            if mark is None or after is None:
                self._tables.replace(EVENTS, within(sightings.merged(told), days), days)
                continue
            # A batch that is being written now is the next refresh's.
            found = sightings.merged(told.where(F.col("batch") <= after.ingest), new_after=mark.ingest)
            observed = Observation()
            counted = found.observe(observed, F.sum("doubles").alias("doubles")).drop("doubles")
            self._tables.replace(EVENTS, within(counted, days), days)
            doubles += observed.get["doubles"] or 0
        return doubles

    def _spans(self, ids: DataFrame, ranges: Sequence[Days], after: Mark) -> _Changes:
        """Return of what days besides their own these events tell, as ``silver/events`` has them."""
        spans: list[dict[str, Any]] = []
        for days in ranges:
            found = (
                self._tables.read(EVENTS, days)
                .select(
                    "source",
                    "id",
                    lasting().alias("lasting"),
                    first_day("prev_at", "at").alias("first"),
                    day_of(F.col("at")).alias("last"),
                )
                .where(F.col("lasting") | (F.col("first") < F.col("last")))
                .join(ids, ["source", "id"], "left_semi")
                .select("first", "last", "lasting")
                .distinct()
            )
            spans += found.toArrow().to_pylist()
        now = None if after.until is None else after.until.date()
        return _Changes(
            spans=[
                Days(span["first"], max(span["last"], now) if span["lasting"] and now else span["last"])
                for span in spans
                if span["first"] <= span["last"]
            ],
            lasting=any(span["lasting"] for span in spans),
        )

    # -- outages -------------------------------------------------------------------------------------

    def _refresh_outages(
        self, batches: Iterable[Batch], mark: Mark, after: Mark
    ) -> tuple[Sequence[Days], int]:
        """Apply the log's new words; return the days of the outages that they change, and the snapshot."""
        numbers = [batch.number for batch in batches if batch.query == OUTAGES]
        words = self._tables.read(OUTAGE_LOG, batches=numbers).where("late IS NULL") if numbers else None
        if words is None or words.isEmpty():
            return (), mark.snapshot
        begun = words.groupBy(*KEY).agg(F.min("since").alias("_since"))
        base = self._snapshot(mark.snapshot).join(begun, list(KEY), "left")
        # Outages do not overlap. One that reaches into what the words tell is told by them, or has been put
        # there by a recomputation, which they overrule.
        stays = F.col("_since").isNull() | F.coalesce(F.col("ended_by") <= F.col("_since"), F.lit(False))
        found = outage_log.latest(words)
        gone = base.where(~stays).select(*outage_log.OUTAGE)
        rest = base.where(stays).select(*outage_log.OUTAGE)
        serial = mark.serial + 1
        self._tables.put(SNAPSHOT, rest.unionByName(found), serial)
        if after.until is None:
            return (), serial
        return days_of(gone.unionByName(found), after.until), serial

    def _snapshot(self, serial: int) -> DataFrame:
        return self._tables.read(SNAPSHOT, batches=[serial]).select(*outage_log.OUTAGE)

    def _refresh_gold(self, spans: Sequence[Days], mark: Mark, snapshot: int, *, whole: bool) -> list[Days]:
        if mark.since is None or mark.until is None:
            return []
        known = Days(mark.since.date(), max(mark.since, mark.until).date())
        ranges = joined(clipped(spans, known), gap=1)
        if ranges:
            self._gold.refresh(ranges, known, self._snapshot(snapshot), mark.until, whole=whole)
        return ranges

    # -- changes -------------------------------------------------------------------------------------

    def _refresh_changes(self, batches: Iterable[Batch], after: Mark) -> Sequence[Days]:
        """Make the tables of changes anew; return the days on which these were requested."""
        numbers = [batch.number for batch in batches if batch.query == CONTROL]
        if not numbers or after.heard is None:
            return ()
        return self._followed.refresh(numbers, after.control, after.heard)

    # -- the end -------------------------------------------------------------------------------------

    def _settle(
        self, settled: Mark, before: Mark, batches: Sequence[Batch], ranges: Sequence[Days], begin: float
    ) -> Mark:
        self._ledger.settle(settled, batches)
        if before.snapshot not in {-1, settled.snapshot}:
            self._tables.drop(SNAPSHOT, before.snapshot)
        self._tell(settled, ranges, begin)
        return settled

    def _tell(self, mark: Mark, ranges: Sequence[Days], begin: float) -> None:
        seconds = time.monotonic() - begin
        self._progress.refreshed(
            Refreshed(ranges=ranges, totals=mark.totals, until=mark.until, seconds=seconds)
        )


def _begun(rows: DataFrame, days: Days) -> DataFrame:
    """Return the outages that were first seen on these days."""
    return rows.where(day_of(F.col("began_by")).between(F.lit(days.first), F.lit(days.last)))
