"""Makes days of the gold tables anew, from what silver holds. Doing it twice changes nothing."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from functools import reduce
from typing import Final

from attrs import evolve, field, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.fleet import blind, gold
from kafka_partition_events.spark.fleet.days import Days, clipped, joined
from kafka_partition_events.spark.fleet.inputs import GoldTable, Inputs
from kafka_partition_events.spark.fleet.outages_gold import partition_outages
from kafka_partition_events.spark.fleet.partition_counts import spells
from kafka_partition_events.spark.fleet.sightings import day_of, within
from kafka_partition_events.spark.fleet.tables import EVENTS, OUTAGES, Tables

_ALWAYS: Final = Days(date(2000, 1, 1), date(2199, 12, 31))
_AT_ONCE: Final = 4
"""How many tables are made at once."""


@frozen(kw_only=True)
class GoldRefresher:
    """Writes gold tables.

    Attributes:
        tables: Where ``silver/events`` is read and gold is written.
        made: The tables by name, besides ``partition_outages``.
    """

    tables: Tables
    made: Mapping[str, GoldTable] = field(default=gold.TABLES)

    def refresh(
        self, ranges: list[Days], known: Days, outages: DataFrame, until: datetime, *, whole: bool
    ) -> None:
        """Make all tables anew for some days.

        Args:
            ranges: The days, ascending, without overlaps.
            known: From the first to the last day of which anything is known.
            outages: All outages, with the columns of `outage_log.OUTAGE`.
            until: The last news.
            whole: Whether the tables in which news changes any earlier day are to be looked at.
        """
        begun, lived = _begun(ranges, outages, until)
        reached = {name: _reached(name, ranges, known) for name in self.made.keys() - gold.WHOLE}
        near = {gold.near(days) for spans in reached.values() for days in spans}
        lasting = self.tables.read(EVENTS).where(blind.lasting()).persist()
        try:
            events = self._events(reduce(Days.joined, [*begun, *lived, *near]), lasting)
            # Nearly all tables need these two, which are small.
            unseen = blind.by_cluster(events, until).localCheckpoint()
            counts = spells(lasting).localCheckpoint()
            for days in begun:
                rows = partition_outages(_first_seen(outages, days), events, unseen)
                self.tables.replace(OUTAGES, rows, days)
            inputs = Inputs(
                events=lasting, outages=self.tables.read(OUTAGES), until=until, blind=unseen, counts=counts
            )
            # The tables do not need one another, and most of their time is planning.
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                made = [pool.submit(self._refresh_days, *table, inputs) for table in reached.items()]
                if whole:
                    made += [pool.submit(self._refresh_whole, name, inputs) for name in gold.WHOLE]
            for table in made:
                table.result()
        finally:
            lasting.unpersist()

    def _events(self, days: Days, lasting: DataFrame) -> DataFrame:
        """Return the events of some days, and all that tell of all days."""
        return self.tables.read(EVENTS, days).where(~blind.lasting()).unionByName(lasting)

    def _refresh_days(self, name: str, ranges: Iterable[Days], inputs: Inputs) -> None:
        """Make these days of a table anew."""
        for days in ranges:
            told = evolve(inputs, events=self._events(gold.near(days), inputs.events))
            rows = self.made[name](gold.narrowed(told, days), days)
            self.tables.replace(f"gold/{name}", rows, days)

    def _refresh_whole(self, name: str, inputs: Inputs) -> None:
        """Make the days of a table anew whose rows are not what they should be."""
        place, new = f"gold/{name}", self.made[name](inputs, _ALWAYS)
        self.tables.ensure(place, new.schema)
        old = self.tables.read(place).select(*new.columns)
        changed = old.exceptAll(new).union(new.exceptAll(old)).select("day")
        found = changed.distinct().toArrow().column("day").to_pylist()
        for days in joined(Days(day, day) for day in found):
            self.tables.replace(place, within(new, days), days)


def days_of(outages: DataFrame, until: datetime) -> list[Days]:
    """Return the days in which these outages may have been, each span once. What is open is so until now."""
    first, last = first_day("began_after", "began_by"), _last_day(until)
    found = outages.select(first.alias("first"), last.alias("last")).distinct().toArrow().to_pylist()
    return [Days(span["first"], max(span["first"], span["last"])) for span in found]


def first_day(earliest: str, otherwise: str) -> Column:
    """Return the day of a lower bound, or of the upper one if there is none."""
    # Nothing keeps the lower bound of an event from being of the year 1.
    return F.greatest(day_of(F.coalesce(earliest, otherwise)), F.lit(_ALWAYS.first))


def _last_day(until: datetime) -> Column:
    return day_of(F.coalesce(F.col("ended_by"), F.lit(until)))


def _begun(ranges: list[Days], outages: DataFrame, until: datetime) -> tuple[list[Days], Iterable[Days]]:
    """Return the days on which outages began that reach into others, with these; and how long they last."""
    first, last = first_day("began_after", "began_by"), _last_day(until)
    by_day = outages.groupBy(day_of(F.col("began_by")).alias("day")).agg(
        F.min(first).alias("first"), F.max(last).alias("last")
    )
    rows = by_day.toArrow().to_pylist()
    spans = {row["day"]: Days(row["first"], max(row["first"], row["last"])) for row in rows}
    begun = joined([*ranges, *(Days(day, day) for day, span in spans.items() if clipped(ranges, span))])
    return begun, [span for day, span in spans.items() if clipped(begun, Days(day, day))]


def _first_seen(outages: DataFrame, days: Days) -> DataFrame:
    return outages.where(day_of(F.col("began_by")).between(F.lit(days.first), F.lit(days.last)))


def _reached(name: str, ranges: Iterable[Days], known: Days) -> list[Days]:
    """Return the days of a table that change with these."""
    after = timedelta(days=gold.DAYS_AFTER.get(name, 0))
    return joined(clipped((Days(days.first, days.last + after) for days in ranges), known))
