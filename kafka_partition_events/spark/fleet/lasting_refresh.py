"""Finds what new states change of what lasts: outages, counts of partitions, times in which nobody looked.

Each is found again from where the news begins, on what stands for all before: so it costs what is new,
however long the history is. Nothing is written here but by `Standing`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from attrs import field, frozen
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events, outages
from kafka_partition_events.spark.events import LABELS
from kafka_partition_events.spark.fleet import blind, partition_counts
from kafka_partition_events.spark.fleet.days import Days, Hours
from kafka_partition_events.spark.fleet.intervals import HOUR_US, day_of, micros
from kafka_partition_events.spark.fleet.outages_gold import DECORATED, partition_outages
from kafka_partition_events.spark.fleet.tables import COUNTS, OUTAGES, RECORDS, STANDING, STATES, Tables

TOGETHER: Final = timedelta(hours=1)
"""Observations of one event lie so close together at the most."""
EVER: Final = date(2199, 12, 31)
_KEPT: Final = timedelta(days=32)
_TOPIC: Final = ("cluster_id", "topic")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def since(moment: datetime) -> Days:
    """Return the day of a moment and all after it."""
    return Days(moment.date(), EVER)


# -- outages -----------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Changed:
    """Rows of a table that are not what they were.

    Attributes:
        rows: What shall be on these days.
        days: The days of changed rows.
        rated: The hours in which their values change what is counted.
        settled: The hours for which it changes whether that is final.
    """

    rows: DataFrame | None = None
    days: Sequence[date] = ()
    rated: Sequence[Hours] = ()
    settled: Sequence[Hours] = ()


@frozen(kw_only=True)
class Standing:
    """What stands for all states before the beginnings of some days (``silver/standing``)."""

    tables: Tables
    _open: dict[date, Sequence[date]] = field(factory=dict, init=False, eq=False)
    """What `days_of_open` has found since `keep` was called; several tables ask for the same."""

    def at(self, moment: datetime) -> tuple[datetime | None, DataFrame | None]:
        """Return the last beginning of a day up to a moment of which it is known, and the states."""
        days = [day for day in self.tables.days(STANDING) if day <= moment.date()]
        if not days:
            return None, None
        last = Days(days[-1], days[-1])
        return last.begin, self.tables.read(STANDING, last).drop("day")

    def told_since(self, begin: datetime | None, last: date = EVER) -> DataFrame:
        """Return the states that tell of outages, from so long before that doubles are known as such."""
        told = F.col("name").isin(*outages.TELLING)
        if begin is None:
            return self.tables.read(STATES).where(told)
        from_ = begin - TOGETHER
        return self.tables.read(STATES, Days(from_.date(), last)).where(told & (F.col("at") >= F.lit(from_)))

    def keep(self, topics: DataFrame | None, first: datetime | None, now: datetime | None) -> None:
        """Take up states of topics (None: all) since ``first``; make what stands for all before today."""
        self._open.clear()
        if first is not None:
            for day in self.tables.days(STANDING):
                if day > first.date():
                    self._renew(day, topics)
        if now is None:
            return
        today = (now - TOGETHER).date()
        before, known = self.at(Days(today, today).begin)
        if before is None or before.date() < today:
            self._write(today, self._found(today, before, known))
        for day in self.tables.days(STANDING):
            if day < today - _KEPT:
                self.tables.replace(STANDING, self.tables.read(STANDING).limit(0), Days(day, day))

    def _renew(self, day: date, topics: DataFrame | None) -> None:
        before, known = self.at(Days(day, day).begin - timedelta(microseconds=1))
        found = self._found(day, before, known, topics)
        if topics is None:
            self._write(day, found)
            return
        rest = self.tables.read(STANDING, Days(day, day)).drop("day").join(topics, list(_TOPIC), "left_anti")
        self._write(day, rest.unionByName(found).localCheckpoint())

    def _found(
        self, day: date, before: datetime | None, known: DataFrame | None, topics: DataFrame | None = None
    ) -> DataFrame:
        end = F.lit(Days(day, day).begin)
        told = _of(self.told_since(before, day).where(F.col("at") < end), topics)
        known = None if known is None else _of(known, topics)
        counted = told if before is None else told.where(F.col("at") >= F.lit(before))
        return outages.standing_of(outages.runs_of(told, known, before), counted, known)

    def _write(self, day: date, rows: DataFrame) -> None:
        self.tables.replace(STANDING, rows.withColumn("day", F.lit(day)), Days(day, day))

    def days_of_open(self, moment: datetime) -> Sequence[date] | None:
        """Return the days on which outages began that are open at a moment; None: that is not known."""
        begin, known = self.at(moment)
        if begin is None or known is None:
            return None
        if begin.date() not in self._open:
            down = F.col("name") == "partition.offline"
            still = (
                known.where("partition IS NOT NULL")
                .groupBy(*outages.KEY)
                .agg(F.count_if(~down).alias("up"), F.min(F.when(down, F.col("at"))).alias("began"))
                .where("up = 0")
            )
            self._open[begin.date()] = _days(still.select(day_of(F.unix_micros("began")).alias("day")))
        return self._open[begin.date()]

    def outages_from(self, moment: datetime) -> DataFrame:
        """Return the rows of ``gold/partition_outages`` that begin after a moment, or had not ended then."""
        days = self.days_of_open(moment)
        begin, _ = self.at(moment)
        if days is None or begin is None:
            return self.tables.read(OUTAGES)
        return self.tables.read(OUTAGES, since(begin), *(Days(day, day) for day in days))


def changed_outages(
    standing: Standing, topics: DataFrame | None, first: datetime | None, again: datetime | None,
    unseen: DataFrame, until: DataFrame,
) -> Changed:  # fmt: skip
    """Return what changes of ``gold/partition_outages``.

    Args:
        standing: What stands for all before.
        topics: Those of which there is news that tells of outages; None: all are to be found again.
        first: When that begins; None: there is none.
        again: From when on causes, or blind time, may be others.
        unseen: When nobody looked, as `kafka_partition_events.spark.fleet.blind.by_cluster` returns it.
        until: The last news of each cluster.
    """
    tables = standing.tables
    moments = [moment for moment in (first, again) if moment is not None]
    if not moments:
        return Changed()
    begin: datetime | None = None
    found: DataFrame | None = None
    days: set[date] = set()
    if first is not None:
        begin, known = standing.at(first)
        told = _of(standing.told_since(begin), topics)
        known = None if known is None else _of(known, topics)
        found = outages.outages_of(outages.runs_of(told, known, begin))
        if begin is not None and known is not None:
            # Of what began before, only what is news: all days of other outages need not be read.
            old = outages.outages_of(outages.runs_of(told.limit(0), known, begin))
            is_new = F.col("began_by") >= F.lit(begin)
            found = found.where(is_new).unionByName(found.where(~is_new).exceptAll(old)).localCheckpoint()
            days = set(_days(found.where(~is_new).select(day_of(F.unix_micros("began_by")).alias("day"))))
        else:
            found = found.localCheckpoint()
    from_ = min(moments)
    if again is not None:
        days |= set(standing.days_of_open(again) or ())
    start, _ = standing.at(from_)
    near = tables.read(OUTAGES) if start is None else tables.read(
        OUTAGES, since(start), *(Days(day, day) for day in days)
    )  # fmt: skip
    near = near.select(*DECORATED).localCheckpoint()
    key = [*outages.KEY, "began_by"]
    bare = near.select(*outages.OUTAGE)
    if found is not None:
        again_found = near if begin is None else near.where(F.col("began_by") >= F.lit(begin))
        bare = bare.join(_of(again_found, topics).select(*key), key, "left_anti")
        bare = bare.join(found.select(*key), key, "left_anti").unionByName(found)
    around = [Days(day - timedelta(days=1), day + timedelta(days=1)) for day in days]
    wanted = [] if start is None else [since(start - timedelta(days=1)), *around]
    left = tables.read(STATES, *wanted).where("name = 'broker.left'")
    rows = partition_outages(bare, left, unseen).localCheckpoint()
    differs = _differences(near, rows, key, DECORATED)
    found_days, rated, settled = _hours_of_outages(differs, until)
    return Changed(rows=rows, days=found_days, rated=rated, settled=settled)


def _of(rows: DataFrame, topics: DataFrame | None) -> DataFrame:
    return rows if topics is None else rows.join(topics, list(_TOPIC), "left_semi")


def _differences(old: DataFrame, new: DataFrame, key: Sequence[str], columns: Iterable[str]) -> DataFrame:
    """Return ``old`` and ``new`` (structs, null: there is none) of rows that are not the same."""
    wanted = list(columns)

    def packed(rows: DataFrame, name: str) -> DataFrame:
        return rows.select(*key, F.struct(*wanted).alias(name))

    both = packed(old, "old").join(packed(new, "new"), list(key), "full_outer")
    return both.where(~F.col("old").eqNullSafe(F.col("new")))


def _hours_of_outages(
    differs: DataFrame, until: DataFrame
) -> tuple[Sequence[date], Sequence[Hours], Sequence[Hours]]:
    """Return the days on which these outages began, and the hours that they change."""
    sides = {side: {name: F.unix_micros(F.col(side)[name]) for name in _MOMENTS} for side in ("old", "new")}
    last = F.col("until")

    def bound(side: str) -> tuple[Column, Column, Column, Column]:
        told = sides[side]
        begin = F.coalesce(told["began_after"], told["began_by"])
        end = F.when(told["began_by"].isNotNull(), F.coalesce(told["ended_by"], last))
        surely = F.greatest(told["began_by"], F.coalesce(told["ended_after"], told["began_by"]))
        return begin, told["began_by"], F.when(told["ended_by"].isNull(), end).otherwise(surely), end

    old, new = bound("old"), bound("new")
    both = F.col("old").isNotNull() & F.col("new").isNotNull()
    begins = both & ~((old[0] == new[0]) & (old[1] == new[1]))
    ends = both & ~_same(sides, "ended_by") | both & ~_same(sides, "ended_after")
    closes = both & (sides["old"]["ended_by"].isNull() != sides["new"]["ended_by"].isNull())

    def span(wanted: Column, first: Column, last_: Column) -> Column:
        hours = F.struct(F.floor(first / HOUR_US).alias("first"), F.floor(last_ / HOUR_US).alias("last"))
        return F.when(wanted, hours)

    whole = (F.least(old[0], new[0]), F.greatest(old[3], new[3]))
    rows = differs.join(F.broadcast(until), "cluster_id", "left").select(
        day_of(F.unix_micros("began_by")).alias("day"),
        F.array_compact(
            F.array(
                span(~both, *whole),
                span(begins, F.least(old[0], new[0]), F.greatest(old[1], new[1])),
                span(ends, F.least(old[2], new[2]), F.greatest(old[3], new[3])),
            )
        ).alias("rated"),
        F.array_compact(F.array(span(closes, *whole))).alias("settled"),
    )
    found = rows.distinct().toArrow().to_pylist()
    return (
        sorted({row["day"] for row in found}),
        [Hours(**span) for row in found for span in row["rated"] if span["first"] <= span["last"]],
        [Hours(**span) for row in found for span in row["settled"] if span["first"] <= span["last"]],
    )


_MOMENTS: Final = ("began_after", "began_by", "ended_after", "ended_by")


def _same(sides: Mapping[str, Mapping[str, Column]], name: str) -> Column:
    return sides["old"][name].eqNullSafe(sides["new"][name])


def _days(rows: DataFrame) -> Sequence[date]:
    found: Sequence[date] = rows.distinct().toArrow().column("day").to_pylist()
    return found


# -- counts of partitions ----------------------------------------------------------------------------------


def changed_counts(tables: Tables, topics: DataFrame | None, first: datetime, until: DataFrame) -> Changed:
    """Return what changes of ``gold/partition_count_history``.

    Args:
        tables: Where it is.
        topics: Those of which there is news that tells of counts; None: all are to be found again.
        first: When that begins.
        until: The last news of each cluster.
    """
    begin = Days(first.date(), first.date()).begin
    columns = (*_TOPIC, "topic_id", "valid_from", "valid_to", "count", *LABELS)
    history = _of(tables.read(COUNTS).select(*columns), topics).localCheckpoint()
    near = _of(tables.read(STATES, since(begin - TOGETHER)), topics)
    near = near.where((F.col("at") >= F.lit(begin - TOGETHER)) & F.col("name").isin(*partition_counts.NAMES))
    # Of an event that somebody told before, what others tell of it now is in what stands for all before.
    earlier = near.where((F.col("at") < F.lit(begin)) & ~F.col("initial")).select("cluster_id", "identity")
    told = near.where(F.col("at") >= F.lit(begin)).join(earlier, ["cluster_id", "identity"], "left_anti")
    known = partition_counts.standing(history, begin)
    names = (
        *_TOPIC,
        "name",
        "initial",
        "identity",
        "at",
        "topic_id",
        "count_after",
        *LABELS,
    )
    new = partition_counts.spells(told.select(*names).unionByName(known.select(*names)))
    last = (
        history.where(F.col("valid_from") < F.lit(begin))
        .groupBy(*_TOPIC)
        .agg(F.max("valid_from").alias("_last"))
    )
    old = history.join(last, list(_TOPIC), "left").where("_last IS NULL OR valid_from >= _last").drop("_last")
    key = [*_TOPIC, "valid_from"]
    differs = _differences(old, new, key, columns).localCheckpoint()
    days, rated = _hours_of_counts(differs, until)
    if not days:
        return Changed()
    there = tables.read(COUNTS, *(Days(day, day) for day in days)).select(*columns)
    rest = there.join(differs.select(*key), key, "left_anti")
    rows = rest.unionByName(differs.where("new IS NOT NULL").select("new.*")).withColumn(
        "day", day_of(F.unix_micros("valid_from"))
    )
    return Changed(rows=rows.localCheckpoint(), days=days, rated=rated)


def _hours_of_counts(differs: DataFrame, until: DataFrame) -> tuple[Sequence[date], Sequence[Hours]]:
    def end(side: str) -> Column:
        there = F.col(side).isNotNull()
        return F.when(there, F.coalesce(F.unix_micros(F.col(side)["valid_to"]), F.col("until")))

    # A spell that only ends otherwise is another one from its earlier end on.
    only_ends = F.col("old")["count"].eqNullSafe(F.col("new")["count"])
    first = F.when(only_ends, F.least(end("old"), end("new"))).otherwise(F.unix_micros("valid_from"))
    last = F.greatest(end("old"), end("new"))
    rows = differs.join(F.broadcast(until), "cluster_id", "left").select(
        day_of(F.unix_micros("valid_from")).alias("day"),
        F.floor(first / HOUR_US).alias("first"),
        F.floor(last / HOUR_US).alias("last"),
    )
    found = rows.distinct().toArrow().to_pylist()
    spans = [(row["first"], row["last"]) for row in found if row["first"] is not None]
    return sorted({row["day"] for row in found}), [Hours(*span) for span in spans if span[0] <= span[1]]


_BOUNDS: Final = ("begin", "end")


# -- blind time --------------------------------------------------------------------------------------------


@frozen(order=True)
class Blind:
    """A time in which nobody looked at a cluster."""

    cluster: str
    begin: datetime
    end: datetime


@frozen(kw_only=True)
class BlindTimes:
    """All of them, of all clusters: they are few."""

    spans: Sequence[Blind] = field(factory=tuple)

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return ``cluster_id, begin, end`` (microseconds)."""
        spans = [(span.cluster, micros(span.begin), micros(span.end)) for span in self.spans]
        return spark.createDataFrame(spans, "cluster_id STRING, begin BIGINT, end BIGINT")

    @classmethod
    def of(cls, rows: DataFrame) -> "BlindTimes":
        """Return those of such rows."""
        found = rows.select("cluster_id", "begin", "end").toArrow().to_pylist()
        return cls(
            spans=sorted(
                Blind(row["cluster_id"], *(_EPOCH + timedelta(microseconds=row[name]) for name in _BOUNDS))
                for row in found
            )
        )

    def anew(self, tables: Tables, first: datetime, until: DataFrame) -> "BlindTimes":
        """Return them with those since a moment found anew from the records.

        Args:
            tables: Where the records are.
            first: The moment; those that it lies in are found anew, too.
            until: The last news of each cluster.
        """
        begin = first
        while touching := [span.begin for span in self.spans if span.begin < begin <= span.end]:
            begin = min(touching)
        told = tables.read(RECORDS, since(begin - timedelta(days=1))).where("defect IS NULL")
        snapshot = F.col("event.data.snapshot")
        looked = told.select(
            F.coalesce("event.data.cluster_id", F.lit(events.NO_CLUSTER)).alias("cluster_id"),
            "name",
            F.coalesce(snapshot["gap"], F.lit(False)).alias("gap"),
            events.prev_at().alias("prev_at"),
            snapshot["at"].alias("at"),
            "body",
        )
        found = self.of(blind.intervals(looked, until).where(F.col("end") > micros(begin)))
        return BlindTimes(spans=sorted([*(span for span in self.spans if span.end < begin), *found.spans]))

    def hours_to(self, other: "BlindTimes") -> Sequence[Hours]:
        """Return the hours in which these times and others differ."""
        edges: dict[tuple[str, datetime], int] = defaultdict(int)
        for span in set(self.spans) ^ set(other.spans):  # those of one side do not overlap each other
            edges[span.cluster, span.begin] += 1
            edges[span.cluster, span.end] -= 1
        found, covered, since_ = [], 0, datetime.max.replace(tzinfo=UTC)
        for (_, moment), change in sorted(edges.items()):
            if covered == 1:  # one side says so, and the other one does not
                found.append(Hours.touched(since_, moment))
            covered, since_ = covered + change, moment
        return found


def until_rows(spark: SparkSession, until: Mapping[str, datetime]) -> DataFrame:
    """Return the last news of each cluster as `kafka_partition_events.spark.fleet.inputs.Inputs` has it."""
    rows: list[tuple[Any, ...]] = [(cluster, micros(moment)) for cluster, moment in sorted(until.items())]
    return spark.createDataFrame(rows, "cluster_id STRING, until BIGINT")
