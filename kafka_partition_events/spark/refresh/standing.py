"""What stands for all states before a day (``silver/standing``)."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from attrs import field, frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.gold import outages
from kafka_partition_events.spark.gold.intervals import day_of
from kafka_partition_events.spark.tables.days import EVER, Days, since
from kafka_partition_events.spark.tables.tables import OUTAGES, STANDING, STATES, Tables

TOGETHER: Final = timedelta(hours=1)
"""Observations of one event lie so close together at the most."""
_KEPT: Final = timedelta(days=32)
_TOPIC: Final = ("cluster_id", "topic")


def of_topics(rows: DataFrame, topics: DataFrame) -> DataFrame:
    """Return the rows of some topics."""
    return rows.join(F.broadcast(topics), list(_TOPIC), "left_semi")


@frozen(kw_only=True)
class Standing:
    """What stands for all states before the beginnings of some days (``silver/standing``)."""

    tables: Tables
    _open: dict[date, Sequence[date]] = field(factory=dict, init=False, eq=False)
    """What `days_of_open` has found since `keep` was called; several tables ask for the same."""
    _listed: list[date] = field(factory=list, init=False, eq=False)
    """The days of which it is known, if they were asked for since the last one was written."""

    def at(self, moment: datetime) -> tuple[datetime | None, DataFrame | None]:
        """Return the last beginning of a day up to a moment of which it is known, and the states."""
        days = [day for day in self._days() if day <= moment.date()]
        if not days:
            return None, None
        last = Days(days[-1], days[-1])
        return last.begin, self.tables.read(STANDING, last).drop("day")

    def _days(self) -> Sequence[date]:
        if not self._listed:
            self._listed.extend(self.tables.days(STANDING))
        return tuple(self._listed)

    def states_since(self, begin: datetime | None, last: date = EVER) -> DataFrame:
        """Return the states that are about outages, from so long before that doubles are known as such."""
        kinds = F.col("name").isin(*outages.OUTAGE_EVENTS)
        if begin is None:
            return self.tables.read(STATES).where(kinds)
        from_ = begin - TOGETHER
        return self.tables.read(STATES, Days(from_.date(), last)).where(kinds & (F.col("at") >= F.lit(from_)))

    def keep(self, topics: DataFrame, first: datetime | None, now: datetime | None) -> None:
        """Take up states of topics since ``first``; make what stands for all before today."""
        self._open.clear()
        if first is not None:
            for day in self._days():
                if day > first.date():
                    self._renew(day, topics)
        if now is None:
            return
        today = (now - TOGETHER).date()
        before, known = self.at(Days(today, today).begin)
        if before is None or before.date() < today:
            self._write(today, self._found(today, before, known))
        for day in self._days():
            if day < today - _KEPT:
                self._write(day, self.tables.read(STANDING).drop("day").limit(0))

    def _renew(self, day: date, topics: DataFrame) -> None:
        before, known = self.at(Days(day, day).begin - timedelta(microseconds=1))
        found = self._found(day, before, known, topics)
        rest = self.tables.read(STANDING, Days(day, day)).drop("day").join(topics, list(_TOPIC), "left_anti")
        self._write(day, rest.unionByName(found).localCheckpoint())

    def _found(
        self, day: date, before: datetime | None, known: DataFrame | None, topics: DataFrame | None = None
    ) -> DataFrame:
        end = F.lit(Days(day, day).begin)
        reported = self.states_since(before, day).where(F.col("at") < end)
        if topics is not None:
            reported, known = of_topics(reported, topics), None if known is None else of_topics(known, topics)
        counted = reported if before is None else reported.where(F.col("at") >= F.lit(before))
        return outages.standing_of(outages.runs_of(reported, known, before), counted, known)

    def _write(self, day: date, rows: DataFrame) -> None:
        self._listed.clear()
        self.tables.replace(STANDING, rows.withColumn("day", F.lit(day)), Days(day, day))

    def days_of_open(self, moment: datetime) -> Sequence[date] | None:
        """Return the days on which outages began that are open at a moment; None: that is not known."""
        begin, known = self.at(moment)
        if begin is None or known is None:
            return None
        if begin.date() not in self._open:
            still = (
                known.where("partition IS NOT NULL")
                .groupBy(*outages.KEY)
                .agg(
                    F.expr("count_if(name != 'partition.offline') AS up"),
                    F.expr("min(IF(name = 'partition.offline', at, NULL)) AS began"),
                )
                .where("up = 0")
                .select(day_of(F.unix_micros("began")).alias("day"))
            )
            self._open[begin.date()] = still.distinct().toArrow().column("day").to_pylist()
        return self._open[begin.date()]

    def outages_from(self, moment: datetime) -> DataFrame:
        """Return the rows of ``gold/partition_outages`` that begin after a moment, or had not ended then."""
        days = self.days_of_open(moment)
        return self.tables.read(OUTAGES, *([] if days is None else self.days_from(moment, days)))

    def days_from(self, moment: datetime, others: Iterable[date] = ()) -> list[Days]:
        """Return the days to be read of outages since a moment, and other ones; none: all."""
        begin, _ = self.at(moment)
        return [] if begin is None else [since(begin), *(Days(day, day) for day in others)]
