"""Refreshes what new records have changed. Doing it twice changes nothing.

What lasts is found again from where the news begins (`lasting`). Gold is refreshed for the hours that change
by that, for those with events that are counted by the hour, and for those that are not final yet (`gold`).
So a refresh costs what is new, after a year as on the first day.

What is derived is written first, and what the difference is found against last. So a second try, of the same
records, finds the same difference.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from attrs import evolve
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events
from kafka_partition_events.spark.control.convergence import CONVERGENCE, change_convergence
from kafka_partition_events.spark.gold import blind
from kafka_partition_events.spark.gold.availability import SETTLED_AFTER
from kafka_partition_events.spark.gold.clusters import Clusters, rows_of_topics
from kafka_partition_events.spark.gold.intervals import day_of
from kafka_partition_events.spark.gold.outages import AROUND, states
from kafka_partition_events.spark.gold.slo_burn import REACH
from kafka_partition_events.spark.ingest.batches import came
from kafka_partition_events.spark.progress import Progress, Refreshed
from kafka_partition_events.spark.refresh.gold import DueTables, Gold, together
from kafka_partition_events.spark.refresh.lasting import Changed, changed_counts, changed_outages
from kafka_partition_events.spark.refresh.news import News, doubles_of, news_of
from kafka_partition_events.spark.refresh.standing import Standing
from kafka_partition_events.spark.tables.counts import Counts
from kafka_partition_events.spark.tables.days import Days, Hours, joined
from kafka_partition_events.spark.tables.state import CONTROL, INGEST, StateRow, Taken, Taking
from kafka_partition_events.spark.tables.state_table import StateTable
from kafka_partition_events.spark.tables.tables import (
    CHANGES,
    CLUSTER_OUTAGES,
    COUNTS,
    OUTAGES,
    RECORDS,
    STATES,
    Tables,
)

WRITTEN: Final = {INGEST: RECORDS, CONTROL: CHANGES}
"""The table that each query writes."""


class Refresher:
    """Keeps silver and gold up to date with what queries have written."""

    def __init__(
        self, tables: Tables, kept: StateTable, progress: Progress, target: float = 0.999, *, at_once: int = 4
    ) -> None:
        """Make it, on tables whose session has its time in UTC.

        ``at_once`` things are done at once: most of their time is planning.
        """
        self._tables = tables
        self._kept = kept
        self._progress = progress
        self._at_once = at_once
        self._standing = Standing(tables=tables)
        self._gold = Gold(tables=tables, standing=self._standing, target=target, at_once=at_once)

    def refresh(self, state: StateRow, *, last: bool = False) -> StateRow:
        """Take up what queries have written, after what was cut off; the state after the `last` is ended."""
        if state.taking is not None:
            state = self._take_up(state, state.taking)
        upto = {query: self._tables.version(WRITTEN[query]) for query in state.readings}
        if all(upto[query] == state.mark.taken.get(query, 0) for query in upto):
            self._show(state, {}, [], time.monotonic())
            return state
        taking = Taking(serial=state.mark.serial + 1, upto=upto)
        state = evolve(state, taking=taking)
        self._kept.write(state)
        return self._take_up(state, taking, last=last)

    def _take_up(self, state: StateRow, taking: Taking, *, last: bool = False) -> StateRow:
        begin, mark = time.monotonic(), state.mark
        after, ranges = mark, list[Days]()
        added = {
            query: self._tables.added(WRITTEN[query], before, last)
            for query, last in taking.upto.items()
            if last > (before := mark.taken.get(query, 0))
        }
        new = {query: came(rows, state.readings[query], query) for query, rows in added.items()}
        readings = {**state.readings, **{query: one.reading for query, one in new.items()}}
        counts = new[INGEST].counts if INGEST in new else Counts()
        if counts.read:
            self._tables.as_of[RECORDS] = taking.upto[INGEST]
            try:
                after, ranges = self._refresh_events(added[INGEST], mark, taking.serial)
            finally:
                del self._tables.as_of[RECORDS]
        if CONTROL in new and new[CONTROL].counts.read:
            self._tables.overwrite(CONVERGENCE, change_convergence(self._tables.read(CHANGES)))
        after = evolve(after, serial=taking.serial, taken=dict(taking.upto), totals=after.totals + counts)
        state = evolve(state, mark=after, readings=readings, taking=None, ended=last)
        self._kept.write(state)
        self._show(state, {query: one.counts for query, one in new.items()}, ranges, begin)
        return state

    # -- events --------------------------------------------------------------------------------------

    def _refresh_events(self, records: DataFrame, mark: Taken, serial: int) -> tuple[Taken, list[Days]]:
        reported = events.observations(records, "timestamp")
        before = Clusters(until=mark.until, blind=mark.blind, out=mark.out)
        news, doubles = self._taken_up(reported, before, serial)
        after = evolve(_with_news(mark, news, doubles), serial=serial)
        clusters = self._with_blind_times(evolve(before, until=after.until), news, mark)
        unseen = blind.hours_between(before.blind, clusters.blind)
        first = _first(one.outages for one in news)
        down = {one.cluster_id: one.down for one in news}
        topics = rows_of_topics(self._tables.spark, down)
        left = (one.left - AROUND for one in news if one.left is not None)
        doubtful = min([*left, *(hours.begin for hours in unseen)], default=None)
        found = changed_outages(self._standing, topics, first, doubtful, clusters)
        counts = self._new_counts(news, clusters)
        due = _due(mark, after, news, found, counts, unseen)
        self._gold.make(due, clusters, found, counts)
        self._write(OUTAGES, found)
        self._write(COUNTS, counts)
        if clusters.out != before.out:
            self._tables.overwrite(CLUSTER_OUTAGES, blind.rows_of(self._tables.spark, clusters.out))
        self._standing.keep(topics, first, after.last_news)
        after = evolve(after, blind=clusters.blind, out=clusters.out)
        return after, joined(hours.days for hours in due.rated)

    def _taken_up(self, reported: DataFrame, before: Clusters, serial: int) -> tuple[Sequence[News], int]:
        """Write the states that are reported; return what else is."""
        lasting = states(reported).withColumn("day", day_of(F.unix_micros("at")))
        _, news, doubles = together(
            self._at_once,
            lambda: self._tables.append(STATES, lasting, serial),
            lambda: news_of(reported, before),
            lambda: doubles_of(reported),
        )
        return news, doubles

    def _with_blind_times(self, clusters: Clusters, news: Iterable[News], mark: Taken) -> Clusters:
        from_: list[datetime] = []
        for one in news:
            from_ += [moment for moment in (one.blind, one.polled) if moment is not None]
            from_ += one.silent_since(mark.beats.get(one.cluster_id))
            # What had not ended by the last news may have ended since, or has not ended by now.
            if (since_then := mark.stopped.get(one.cluster_id)) is not None:
                from_.append(since_then)
        return blind.found_again(clusters, self._tables, min(from_)) if from_ else clusters

    def _new_counts(self, news: Sequence[News], clusters: Clusters) -> Changed:
        first = _first(one.counts for one in news)
        if first is None:
            return Changed()
        sized = {one.cluster_id: one.sized for one in news}
        return changed_counts(self._tables, rows_of_topics(self._tables.spark, sized), first, clusters)

    def _write(self, name: str, changed: Changed) -> None:
        if changed.rows is None:
            return
        for one in joined(Days(day, day) for day in changed.days):
            rows = changed.rows.where(F.col("day").between(F.lit(one.first), F.lit(one.last)))
            self._tables.replace(name, rows, one)

    def _show(self, row: StateRow, counts: Mapping[str, Counts], days: Sequence[Days], begin: float) -> None:
        mark = row.mark
        done = Refreshed(
            ranges=days,
            counts=counts,
            totals=mark.totals,
            until=mark.last_news,
            seconds=time.monotonic() - begin,
            clusters={name: until for name, until in mark.until.items() if name != events.NO_CLUSTER},
            behind={query: one.behind for query, one in row.readings.items()},
        )
        self._progress.report(done)


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _with_news(mark: Taken, news: Iterable[News], doubles: int) -> Taken:
    until, beats, stopped = dict(mark.until), dict(mark.beats), dict(mark.stopped)
    for one in news:
        if one.until is not None:
            until[one.cluster_id] = max(one.until, until.get(one.cluster_id, one.until))
        if one.stopped is not None and one.cluster_id != events.NO_CLUSTER:  # which no event ends
            stopped[one.cluster_id] = min(one.stopped, stopped.get(one.cluster_id, one.stopped))
        elif one.ended:
            stopped.pop(one.cluster_id, None)
        for beat in one.beats:
            beats[one.cluster_id] = max(beat["at"], beats.get(one.cluster_id, beat["at"]))
    totals = mark.totals + Counts(doubles=doubles)
    return evolve(mark, until=until, beats=beats, stopped=stopped, totals=totals)


def _due(
    mark: Taken, after: Taken, news: Iterable[News], found: Changed, counts: Changed, unseen: Sequence[Hours]
) -> DueTables:
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
    return DueTables(
        rated=known([*changed, *found.settled]),
        burnt=known(Hours(one.first, one.last + reach) for one in changed),
        churned=joined(hours for one in news for hours in one.moved),
        summed=joined(hours for one in news for hours in one.summed),
    )
