"""Makes anew what batches have changed. Doing it twice changes nothing.

What lasts is found again from where the news begins (`lasting_refresh`). Gold is made anew for the hours that
change by that, for those in which something was told that is counted by the hour, and for those that are not
final yet. So a refresh costs what is new, after a year as on the first day.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Final

from attrs import evolve
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events, outages
from kafka_partition_events.spark.changes.refresh import ChangeRefresher
from kafka_partition_events.spark.fleet import blind, gold, ingest, partition_counts
from kafka_partition_events.spark.fleet.availability import SETTLED_AFTER
from kafka_partition_events.spark.fleet.days import Days, Hours, joined_days, joined_hours
from kafka_partition_events.spark.fleet.ingest import COORDINATES
from kafka_partition_events.spark.fleet.inputs import GoldTable, Inputs
from kafka_partition_events.spark.fleet.intervals import day_of
from kafka_partition_events.spark.fleet.lasting_refresh import (
    TOGETHER,
    BlindTimes,
    Changed,
    Standing,
    changed_counts,
    changed_outages,
    since,
    until_rows,
)
from kafka_partition_events.spark.fleet.ledger import CONTROL, INGEST, Batch, Intent, Ledger, Mark
from kafka_partition_events.spark.fleet.news import News, news_of
from kafka_partition_events.spark.fleet.outages_gold import AROUND
from kafka_partition_events.spark.fleet.progress import Counts, Progress, Refreshed
from kafka_partition_events.spark.fleet.slo_burn import REACH
from kafka_partition_events.spark.fleet.states import states
from kafka_partition_events.spark.fleet.tables import BLIND, COUNTS, OUTAGES, RECORDS, STATES, UNTIL, Tables

_TOPIC: Final = ("cluster_id", "topic")


class Refresher:
    """Keeps silver and gold up to date with what batches have written."""

    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        ledger: Ledger,
        progress: Progress,
        gold_tables: Mapping[str, GoldTable] = gold.TABLES,
        *,
        at_once: int = 4,
    ) -> None:
        """Make it.

        Args:
            spark: A session with its time in UTC.
            tables: Where silver and gold are.
            ledger: Where it is written down what is done.
            progress: Hears of it.
            gold_tables: How they are made.
            at_once: How many are made at once: most of their time is planning.
        """
        self._spark = spark
        self._tables = tables
        self._ledger = ledger
        self._progress = progress
        self._made = gold_tables
        self._at_once = at_once
        self._standing = Standing(tables=tables)
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
        ranges: list[Days] = []
        if taken := [batch for batch in batches if batch.query == INGEST and batch.days is not None]:
            days = joined_days(batch.days for batch in taken if batch.days is not None)
            records = self._tables.read(RECORDS, *days, batches=[batch.number for batch in taken])
            after, ranges = self._refresh_events(records, mark, after)
        if (numbers := [batch.number for batch in batches if batch.query == CONTROL]) and after.heard:
            ranges = joined_days([*ranges, *self._followed.refresh(numbers, after.control, after.heard)])
        return self._settle(after, mark, noted, ranges, begin)

    def recompute(self, days: Days) -> Mark:
        """Parse the records that were appended on these days anew, and make anew what they tell of.

        So what is in quarantine is taken in by a version that understands it. Killed in the middle, it is to
        be done again.
        """
        mark = self.refresh()
        begin = time.monotonic()
        if mark.heard is not None:
            self._followed.recompute(days, mark.control, mark.heard)
        before = self._counted(days)
        kept = self._tables.read(RECORDS, days).select(*COORDINATES, "key", "value", "day", "batch")
        self._tables.rewrite(RECORDS, ingest.rows(kept, "batch"))
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
        lasting = states(told).withColumn("day", day_of(F.unix_micros("at")))
        self._tables.put(STATES, lasting, after.serial)
        times = self._blind(mark)
        news = news_of(told, blind.by_cluster(times.rows(self._spark)))
        after = _with_news(after, mark, news)
        until = until_rows(self._spark, after.until)
        new_times = self._blind_anew(times, news, mark, until)
        unseen = blind.by_cluster(new_times.rows(self._spark)).localCheckpoint()
        unseen_hours = times.hours_to(new_times)
        new = self._tables.read(STATES, *_days_of(news), batches=[after.serial])
        before = self._ledger.intended()
        found, topics, first = self._outages_anew(new, news, before, unseen_hours, unseen, until)
        counts = self._counts_anew(new, news, before, until)
        others = [*unseen_hours, *([] if again is None else [again.hours])]
        intent = self._ledger.intend(_intent(mark, after, news, found, counts, others))
        if new_times != times:
            self._tables.put(BLIND, new_times.rows(self._spark), after.serial)
            after = evolve(after, blind=after.serial)
        self._write(OUTAGES, found)
        self._write(COUNTS, counts)
        self._make_gold(intent, unseen, until)
        last = until.select("cluster_id", F.timestamp_micros("until").alias("until"))
        self._tables.put(UNTIL, last, after.serial)
        after = evolve(after, told=after.serial)
        self._standing.keep(topics, first, after.last_news)
        return after, joined_days(hours.days for hours in intent.rated)

    def _blind(self, mark: Mark) -> BlindTimes:
        return (
            BlindTimes.of(self._tables.read(BLIND, batches=[mark.blind])) if mark.blind >= 0 else BlindTimes()
        )

    def _blind_anew(
        self, times: BlindTimes, news: Iterable[News], mark: Mark, until: DataFrame
    ) -> BlindTimes:
        from_: list[datetime] = []
        for one in news:
            from_ += [moment for moment in (one.blind, one.looked) if moment is not None]
            from_ += one.silent_since(mark.beats.get(one.cluster))
            # What had not ended by the last news may have ended since, or has not ended by now.
            if (since_then := mark.stopped.get(one.cluster)) is not None:
                from_.append(since_then)
        return times.anew(self._tables, min(from_), until) if from_ else times

    def _outages_anew(
        self, new: DataFrame, news: Iterable[News], before: Intent, unseen_hours: Sequence[Hours],
        unseen: DataFrame, until: DataFrame,
    ) -> tuple[Changed, DataFrame | None, datetime | None]:  # fmt: skip
        # A refresh that was cut off while it replaced a day may have lost it: all topics are found again.
        cut_off = [days.begin for days in before.began]
        first = _first([*(one.outages for one in news), *cut_off])
        again = _first(
            [*(one.left and one.left - AROUND for one in news), *(hours.begin for hours in unseen_hours)]
        )
        topics = None
        if first is not None and not cut_off:
            topics = (
                new.where(F.col("name").isin(*outages.TELLING)).select(*_TOPIC).distinct().localCheckpoint()
            )
        found = changed_outages(self._standing, topics, first, again, unseen, until)
        return found, topics, first

    def _counts_anew(self, new: DataFrame, news: Iterable[News], before: Intent, until: DataFrame) -> Changed:
        cut_off = [days.begin for days in before.grown]
        first = _first([*(one.counts for one in news), *cut_off])
        if first is None:
            return Changed()
        tell = F.col("name").isin(*partition_counts.NAMES)
        topics = None if cut_off else new.where(tell).select(*_TOPIC).distinct().localCheckpoint()
        return changed_counts(self._tables, topics, first, until)

    def _write(self, name: str, changed: Changed) -> None:
        if changed.rows is None:
            return
        for one in joined_days(Days(day, day) for day in changed.days):
            rows = changed.rows.where(F.col("day").between(F.lit(one.first), F.lit(one.last)))
            self._tables.replace(name, rows, one)

    # -- gold ----------------------------------------------------------------------------------------

    def _make_gold(self, intent: Intent, unseen: DataFrame, until: DataFrame) -> None:
        with ThreadPoolExecutor(self._at_once) as pool:
            written: list[Future[None]] = [
                pool.submit(self._tables.replace, f"gold/{name}", self._made[name](inputs, period), period)
                for name, period, inputs in self._gold_of(intent, unseen, until)
            ]
        for one in written:
            one.result()

    def _gold_of(
        self, intent: Intent, unseen: DataFrame, until: DataFrame
    ) -> Iterator[tuple[str, Hours | Days, Inputs]]:
        """Return which tables are to be made anew, for which time, and from what."""
        now = timedelta(0)
        for hours in intent.rated:
            yield "availability_hourly", hours, self._lasting(hours, now, unseen, until)
        for days in joined_days(hours.days for hours in intent.rated):
            yield "availability_daily", days, self._lasting(days, now, unseen, until)
        for hours in intent.burnt:
            yield "slo_burn", hours, self._lasting(hours, REACH, unseen, until)
        for table, event, spans in (
            ("leader_churn", "leadership.moved", intent.churned),
            ("skew", "cluster.summary", intent.summed),
            ("reroutes", "producer.counters", intent.counted),
        ):
            for hours in spans:
                yield table, hours, self._events(hours, event, unseen, until)

    def _lasting(self, period: Hours | Days, reach: timedelta, unseen: DataFrame, until: DataFrame) -> Inputs:
        """Return what the tables of outages need for a period, and for so long before it."""
        begin = period.begin - reach
        begins = F.coalesce("began_after", "began_by") < F.lit(period.end)
        ends = F.col("ended_by").isNull() | (F.col("ended_by") >= F.lit(begin))
        there = (F.col("valid_from") < F.lit(period.end)) & (
            F.col("valid_to").isNull() | (F.col("valid_to") > F.lit(begin))
        )
        down = self._standing.outages_from(begin).where(begins & ends)
        counts = self._tables.read(COUNTS).where(there)
        return Inputs(events=down, outages=down, blind=unseen, counts=counts, until=until)

    def _events(self, period: Hours | Days, name: str, unseen: DataFrame, until: DataFrame) -> Inputs:
        """Return the events of one kind, of a period and so long before it that doubles are known as such."""
        begin = period.begin - TOGETHER
        at = F.col("event.data.snapshot.at")
        near = (F.col("name") == name) & (at >= F.lit(begin)) & (at < F.lit(period.end + TOGETHER))
        told = events.distinct(events.observations(self._tables.read(RECORDS, since(begin)).where(near)))
        return Inputs(events=told, outages=told, blind=unseen, counts=told, until=until)

    def _tell(self, mark: Mark, ranges: Sequence[Days], begin: float) -> None:
        seconds = time.monotonic() - begin
        done = Refreshed(ranges=ranges, totals=mark.totals, until=mark.last_news, seconds=seconds)
        self._progress.refreshed(done)


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _days_of(news: Iterable[News]) -> list[Days]:
    """Return the days of which there may be new states."""
    first = _first(moment for one in news for moment in (one.outages, one.counts, one.left))
    return [] if first is None else [since(first)]


def _with_news(after: Mark, mark: Mark, news: Iterable[News]) -> Mark:
    until, beats, stopped, doubles = dict(mark.until), dict(mark.beats), dict(mark.stopped), 0
    for one in news:
        doubles += one.doubles
        if one.until is not None:
            until[one.cluster] = max(one.until, until.get(one.cluster, one.until))
        if one.stopped is not None:
            stopped[one.cluster] = min(one.stopped, stopped.get(one.cluster, one.stopped))
        elif one.ended:
            stopped.pop(one.cluster, None)
        for at, _ in one.beats:
            beats[one.cluster] = max(at, beats.get(one.cluster, at))
    return evolve(
        after, until=until, beats=beats, stopped=stopped, totals=after.totals + Counts(doubles=doubles)
    )


def _intent(
    mark: Mark, after: Mark, news: Iterable[News], found: Changed, counts: Changed, unseen: Sequence[Hours]
) -> Intent:
    open_: list[Hours] = []
    for one in news:
        if (until := after.until.get(one.cluster)) is not None:
            before = mark.until.get(one.cluster)
            begin = min(one.first, until) if before is None else before - SETTLED_AFTER
            open_.append(Hours.touched(begin, until))
    last = after.last_news
    now = -1 if last is None else Hours.touched(last, last).last

    def known(spans: Iterable[Hours]) -> list[Hours]:
        return joined_hours(Hours(one.first, min(one.last, now)) for one in spans if one.first <= now)

    changed = [*found.rated, *counts.rated, *unseen, *open_]
    reach = REACH // timedelta(hours=1)
    return Intent(
        rated=known([*changed, *found.settled]),
        burnt=known(Hours(one.first, one.last + reach) for one in changed),
        churned=joined_hours(hours for one in news for hours in one.moved),
        summed=joined_hours(hours for one in news for hours in one.summed),
        counted=joined_hours(hours for one in news for hours in one.counted),
        began=joined_days(Days(day, day) for day in found.days),
        grown=joined_days(Days(day, day) for day in counts.days),
    )
