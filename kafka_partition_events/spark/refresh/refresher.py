"""Makes anew what batches have changed. Doing it twice changes nothing.

What lasts is found again from where the news begins (`lasting_refresh`). Gold is made anew for the hours that
change by that, for those in which something was told that is counted by the hour, and for those that are not
final yet (`gold`). So a refresh costs what is new, after a year as on the first day.
"""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from attrs import evolve
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events
from kafka_partition_events.spark.control.refresh import ChangeRefresher
from kafka_partition_events.spark.gold import blind
from kafka_partition_events.spark.gold.availability import SETTLED_AFTER
from kafka_partition_events.spark.gold.clusters import Blind, Clusters, rows_of_topics
from kafka_partition_events.spark.gold.intervals import day_of
from kafka_partition_events.spark.gold.outages import AROUND, states
from kafka_partition_events.spark.gold.slo_burn import REACH
from kafka_partition_events.spark.ingest import batches
from kafka_partition_events.spark.ingest.batches import COORDINATES
from kafka_partition_events.spark.progress import Progress, Refreshed
from kafka_partition_events.spark.refresh.gold import Gold, together
from kafka_partition_events.spark.refresh.lasting import Changed, changed_counts, changed_outages
from kafka_partition_events.spark.refresh.news import News, doubles_of, news_of
from kafka_partition_events.spark.refresh.standing import Standing
from kafka_partition_events.spark.tables.days import Days, Hours, joined
from kafka_partition_events.spark.tables.ledger import CONTROL, INGEST, Batch, Counts, Intent, Ledger, Mark
from kafka_partition_events.spark.tables.tables import BLIND, COUNTS, OUTAGES, RECORDS, STATES, UNTIL, Tables
from kafka_partition_events.spark.targets import THREE_NINES, Targets


class Refresher:
    """Keeps silver and gold up to date with what batches have written."""

    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        ledger: Ledger,
        progress: Progress,
        targets: Targets = THREE_NINES,
        *,
        at_once: int = 4,
    ) -> None:
        """Make it, on a session with its time in UTC.

        ``at_once`` things are done at once: most of their time is planning.
        """
        self._spark = spark
        self._tables = tables
        self._ledger = ledger
        self._progress = progress
        self._at_once = at_once
        self._standing = Standing(tables=tables)
        self._gold = Gold(tables=tables, standing=self._standing, targets=targets, at_once=at_once)
        self._blind: tuple[int, Sequence[Blind]] = -1, ()
        """When nobody looked, and the refresh that wrote it."""

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
        ranges: list[Days] = []
        if taken := [batch for batch in batches if batch.query == INGEST and batch.days is not None]:
            days = joined(batch.days for batch in taken if batch.days is not None)
            records = self._tables.read(RECORDS, *days, batches=[batch.number for batch in taken])
            after, ranges = self._refresh_events(records, mark, after)
        if (numbers := [batch.number for batch in batches if batch.query == CONTROL]) and after.heard:
            changes = ChangeRefresher(tables=self._tables, last=after.control, until=after.heard)
            ranges = joined([*ranges, *changes.refresh(numbers)])
        return self._settle(after, mark, noted, ranges, begin)

    def recompute(self, days: Days) -> Mark:
        """Parse the records that were appended on these days anew, and make anew what they tell of.

        So what is in quarantine is taken in by a version that understands it. Killed in the middle, it is to
        be done again.
        """
        mark = self.refresh()
        begin = time.monotonic()
        if mark.heard is not None:
            ChangeRefresher(tables=self._tables, last=mark.control, until=mark.heard).recompute(days)
        before = self._counted(days)
        kept = self._tables.read(RECORDS, days).select(*COORDINATES, "key", "value", "day", "batch")
        self._tables.rewrite(RECORDS, batches.rows(kept, "batch"))
        after = mark.after([])
        after, ranges = self._refresh_events(self._tables.read(RECORDS, days), mark, after, again=days)
        changed = {name: count - before[name] for name, count in self._counted(days).items()}
        after = evolve(after, totals=mark.totals + Counts(**changed))
        return self._settle(after, mark, [], ranges, begin)

    def _settle(
        self, after: Mark, mark: Mark, noted: Sequence[Batch], ranges: Sequence[Days], begin: float
    ) -> Mark:
        self._ledger.settle(after, noted)
        if mark.blind not in {-1, after.blind}:
            self._tables.drop(BLIND, mark.blind)
        if mark.told not in {-1, after.told}:
            self._tables.drop(UNTIL, mark.told)
        self._tell(after, ranges, begin)
        return after

    def _counted(self, days: Days) -> dict[str, int]:
        rows = self._tables.read(RECORDS, days).groupBy("defect").count().toArrow().to_pylist()
        counted = {row["defect"] or "good": row["count"] for row in rows}
        return {name: counted.get(name, 0) for name in ("good", *events.DEFECTS)}

    # -- events --------------------------------------------------------------------------------------

    def _refresh_events(
        self, records: DataFrame, mark: Mark, after: Mark, again: Days | None = None
    ) -> tuple[Mark, list[Days]]:
        told = events.observations(records, "timestamp")
        before = Clusters(until=mark.until, blind=self._blind_of(mark))
        news, doubles = self._taken_up(told, before, after)
        after = _with_news(after, mark, news, doubles)
        clusters = Clusters(until=after.until, blind=before.blind)
        clusters = evolve(clusters, blind=self._blind_anew(clusters, news, mark))
        unseen = blind.hours_between(before.blind, clusters.blind)
        cut_off = self._ledger.intended()
        first = _begin((one.outages for one in news), cut_off.began)
        # A refresh that was cut off while it replaced a day may have lost it: all topics are found again.
        down = {one.cluster_id: one.down for one in news}
        topics = None if cut_off.began else rows_of_topics(self._spark, down)
        left = (one.left - AROUND for one in news if one.left is not None)
        doubtful = min([*left, *(hours.begin for hours in unseen)], default=None)
        found = changed_outages(self._standing, topics, first, doubtful, clusters)
        counts = self._counts_anew(news, cut_off, clusters)
        others = [*unseen, *([] if again is None else [again.hours])]
        intent = self._ledger.intend(_intent(mark, after, news, found, counts, others))
        if clusters.blind != before.blind:
            self._tables.put(BLIND, clusters.rows_of_blind(self._spark), after.serial)
            after = evolve(after, blind=after.serial)
        self._write(OUTAGES, found)
        self._write(COUNTS, counts)
        self._gold.make(intent, clusters)
        self._tables.put(UNTIL, clusters.rows_of_until(self._spark), after.serial)
        after = evolve(after, told=after.serial)
        self._standing.keep(topics, first, after.last_news)
        self._blind = after.blind, clusters.blind
        return after, joined(hours.days for hours in intent.rated)

    def _taken_up(self, told: DataFrame, before: Clusters, after: Mark) -> tuple[Sequence[News], int]:
        """Write the states that are told; return what else is."""
        lasting = states(told).withColumn("day", day_of(F.unix_micros("at")))
        _, news, doubles = together(
            self._at_once,
            lambda: self._tables.put(STATES, lasting, after.serial),
            lambda: news_of(told, before),
            lambda: doubles_of(told),
        )
        return news, doubles

    def _blind_of(self, mark: Mark) -> Sequence[Blind]:
        serial, known = self._blind
        if serial == mark.blind:
            return known
        return blind.spans_of(self._tables.read(BLIND, batches=[mark.blind]))

    def _blind_anew(self, clusters: Clusters, news: Iterable[News], mark: Mark) -> Sequence[Blind]:
        from_: list[datetime] = []
        for one in news:
            from_ += [moment for moment in (one.blind, one.looked) if moment is not None]
            from_ += one.silent_since(mark.beats.get(one.cluster_id))
            # What had not ended by the last news may have ended since, or has not ended by now.
            if (since_then := mark.stopped.get(one.cluster_id)) is not None:
                from_.append(since_then)
        return blind.found_anew(clusters, self._tables, min(from_)) if from_ else clusters.blind

    def _counts_anew(self, news: Sequence[News], cut_off: Intent, clusters: Clusters) -> Changed:
        first = _begin((one.counts for one in news), cut_off.grown)
        if first is None:
            return Changed()
        sized = {one.cluster_id: one.sized for one in news}
        topics = None if cut_off.grown else rows_of_topics(self._spark, sized)
        return changed_counts(self._tables, topics, first, clusters)

    def _write(self, name: str, changed: Changed) -> None:
        if changed.rows is None:
            return
        for one in joined(Days(day, day) for day in changed.days):
            rows = changed.rows.where(F.col("day").between(F.lit(one.first), F.lit(one.last)))
            self._tables.replace(name, rows, one)

    def _tell(self, mark: Mark, ranges: Sequence[Days], begin: float) -> None:
        seconds = time.monotonic() - begin
        done = Refreshed(
            ranges=ranges, totals=mark.totals, until=mark.last_news, seconds=seconds, clusters=mark.until
        )
        self._progress.tell(done)


def _begin(moments: Iterable[datetime | None], cut_off: Iterable[Days]) -> datetime | None:
    """Return the earliest of these, and of the days that a refresh was about to change that was cut off."""
    known = (moment for moment in moments if moment is not None)
    return min([*known, *(days.begin for days in cut_off)], default=None)


def _with_news(after: Mark, mark: Mark, news: Iterable[News], doubles: int) -> Mark:
    until, beats, stopped = dict(mark.until), dict(mark.beats), dict(mark.stopped)
    for one in news:
        if one.until is not None:
            until[one.cluster_id] = max(one.until, until.get(one.cluster_id, one.until))
        if one.stopped is not None:
            stopped[one.cluster_id] = min(one.stopped, stopped.get(one.cluster_id, one.stopped))
        elif one.ended:
            stopped.pop(one.cluster_id, None)
        for beat in one.beats:
            beats[one.cluster_id] = max(beat["at"], beats.get(one.cluster_id, beat["at"]))
    return evolve(
        after, until=until, beats=beats, stopped=stopped, totals=after.totals + Counts(doubles=doubles)
    )


def _intent(
    mark: Mark, after: Mark, news: Iterable[News], found: Changed, counts: Changed, unseen: Sequence[Hours]
) -> Intent:
    open_: list[Hours] = []
    for one in news:
        if (until := after.until.get(one.cluster_id)) is not None:
            before = mark.until.get(one.cluster_id)
            begin = min(one.first, until) if before is None else before - SETTLED_AFTER
            open_.append(Hours.touched(begin, until))
    last = after.last_news
    now = -1 if last is None else Hours.touched(last, last).last

    def known(spans: Iterable[Hours]) -> list[Hours]:
        return joined(Hours(one.first, min(one.last, now)) for one in spans if one.first <= now)

    changed = [*found.rated, *counts.rated, *unseen, *open_]
    reach = REACH // timedelta(hours=1)
    return Intent(
        rated=known([*changed, *found.settled]),
        burnt=known(Hours(one.first, one.last + reach) for one in changed),
        churned=joined(hours for one in news for hours in one.moved),
        summed=joined(hours for one in news for hours in one.summed),
        began=joined(Days(day, day) for day in found.days),
        grown=joined(Days(day, day) for day in counts.days),
    )
