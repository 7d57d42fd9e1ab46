"""Finds what new states change of what lasts: outages, and counts of partitions.

Each is found again from where the news begins, on what stands for all before: so it costs what is new,
however long the history is. Nothing is written here.
"""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

from attrs import frozen
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.events import LABELS
from kafka_partition_events.spark.gold import outages, partition_counts
from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.gold.intervals import HOUR_US, day_of
from kafka_partition_events.spark.gold.outages import DECORATED, partition_outages
from kafka_partition_events.spark.refresh.standing import TOGETHER, Standing, of_topics
from kafka_partition_events.spark.tables.days import Days, Hours, since
from kafka_partition_events.spark.tables.tables import COUNTS, OUTAGES, STATES, Tables

_TOPIC: Final = ("cluster_id", "topic")


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

    def applied(self, rows: DataFrame) -> DataFrame:
        """Return the table's rows as they will be when these are in it."""
        if self.rows is None or not self.days:
            return rows
        changed = F.col("day").isin(*self.days)
        return rows.where(~changed).unionByName(self.rows.where(changed).select(*rows.columns))


# -- outages -----------------------------------------------------------------------------------------------


def changed_outages(
    standing: Standing, topics: DataFrame, first: datetime | None, again: datetime | None, clusters: Clusters
) -> Changed:
    """Return what changes of ``gold/partition_outages``.

    Args:
        standing: What stands for all before.
        topics: Those of which there is news of outages.
        first: When that begins; None: there is none.
        again: From when on causes, or blind time, may be others.
        clusters: What is known of them.
    """
    moments = [moment for moment in (first, again) if moment is not None]
    if not moments:
        return Changed()
    found, days = (None, set[date]()) if first is None else _outages_since(standing, topics, first)
    if again is not None:
        days |= set(standing.days_of_open(again) or ())
    from_ = min(moments)
    key = (*outages.KEY, "began_by")
    near = standing.tables.read(OUTAGES, *standing.days_from(from_, days))
    both = near.select(*key, F.struct(*DECORATED).alias("old"))
    if found is not None and first is not None:
        # All of these topics that began since then are found again, or are no more.
        begin, _ = standing.at(first)
        is_gone = F.lit(True) if begin is None else F.col("began_by") >= F.lit(begin)
        both = both.join(F.broadcast(topics.withColumn("_named", F.lit(True))), list(_TOPIC), "left")
        is_gone &= F.col("_named").isNotNull()
        both = both.withColumn("_gone", is_gone).join(
            found.select(*key, F.struct(*outages.OUTAGE).alias("_found")), list(key), "full_outer"
        )
        now = F.coalesce(
            "_found", F.when(~F.col("_gone"), F.struct(*(f"old.{name}" for name in outages.OUTAGE)))
        )
    else:
        now = F.struct(*(f"old.{name}" for name in outages.OUTAGE))
    others = [name for name in outages.OUTAGE if name not in key]
    bare = both.withColumn("_now", now).select(
        *key, *(f"_now.{name}" for name in others), "old", F.col("_now").isNotNull().alias("there")
    )
    around = [Days(day - timedelta(days=1), day + timedelta(days=1)) for day in days]
    start, _ = standing.at(from_)
    wanted = [] if start is None else [since(start - timedelta(days=1)), *around]
    left = standing.tables.read(STATES, *wanted).where("name = 'broker.left'")
    made = F.when(F.col("there"), F.struct(*DECORATED)).alias("new")
    rows = partition_outages(bare, left, clusters, "old", "there").select(*key, "old", made)
    rows, observed = rows.withColumn("until", F.timestamp_micros(clusters.last_news())), Observation()
    rows = rows.observe(observed, F.collect_set(_hours_of_outages()).alias("changes")).localCheckpoint()
    return _changed(rows.where("new IS NOT NULL").select("new.*"), observed)


def _outages_since(standing: Standing, topics: DataFrame, first: datetime) -> tuple[DataFrame, set[date]]:
    """Return the outages that are new or others, and the days on which others of them began."""
    begin, known = standing.at(first)
    reported = of_topics(standing.states_since(begin), topics)
    known = None if known is None else of_topics(known, topics)
    found = outages.outages_of(outages.runs_of(reported, known, begin))
    if begin is None:
        return found, set()
    # Of what began before, only what is news: all days of other outages need not be read.
    is_new, observed = F.col("began_by") >= F.lit(begin), Observation()
    day = F.when(~is_new, day_of(F.unix_micros("began_by")))
    found = found.where(is_new | F.col("news")).observe(observed, F.collect_set(day).alias("days"))
    return found.localCheckpoint(), set(observed.get["days"])


def _changed(rows: DataFrame, observed: Observation) -> Changed:
    found = observed.get["changes"]
    rated, settled = (_hours(span for row in found for span in row[name]) for name in ("rated", "settled"))
    return Changed(rows=rows, days=sorted({row["day"] for row in found}), rated=rated, settled=settled)


def _hours_of_outages() -> Column:
    """Return the day on which an outage began that changes, and the hours that it changes.

    Of rows with ``old``, ``new`` and ``until``, the last news of their cluster.
    """
    (began, seen, surely, ended), (began_now, seen_now, surely_now, ended_now) = map(_moments, ("old", "new"))
    both = "old IS NOT NULL AND new IS NOT NULL"
    begins = f"{both} AND NOT ({began} = {began_now} AND {seen} = {seen_now})"
    ends = f"{both} AND NOT (old.ended_by <=> new.ended_by AND old.ended_after <=> new.ended_after)"
    closes = f"{both} AND (old.ended_by IS NULL) != (new.ended_by IS NULL)"
    whole = f"least({began}, {began_now})", f"greatest({ended}, {ended_now})"
    rated = (
        _span(f"NOT ({both})", *whole),
        _span(begins, f"least({began}, {began_now})", f"greatest({seen}, {seen_now})"),
        _span(ends, f"least({surely}, {surely_now})", f"greatest({ended}, {ended_now})"),
    )
    change = F.struct(
        day_of(F.unix_micros("began_by")).alias("day"),
        F.expr(f"array_compact(array({', '.join(rated)})) AS rated"),
        F.expr(f"array_compact(array({_span(closes, *whole)})) AS settled"),
    )
    return F.when(F.expr("NOT (old <=> new)"), change)


def _moments(side: str) -> tuple[str, str, str, str]:
    """Return when an outage began, and when it ended, at the earliest and at the latest."""
    seen, ended = f"{side}.began_by", f"IF({side}.began_by IS NULL, NULL, coalesce({side}.ended_by, until))"
    surely = f"IF({side}.ended_by IS NULL, {ended}, greatest({seen}, coalesce({side}.ended_after, {seen})))"
    return f"coalesce({side}.began_after, {seen})", seen, surely, ended


def _span(wanted: str, first: str, last: str) -> str:
    first, last = (f"floor(unix_micros({moment}) / {HOUR_US})" for moment in (first, last))
    return f"IF({wanted}, struct({first} AS first, {last} AS last), NULL)"


# -- counts of partitions ----------------------------------------------------------------------------------


def changed_counts(tables: Tables, topics: DataFrame, first: datetime, clusters: Clusters) -> Changed:
    """Return what changes of ``gold/partition_count_history``; all else as for outages."""
    begin = Days(first.date(), first.date()).begin
    columns = (*_TOPIC, "topic_id", "valid_from", "valid_to", "count", *LABELS)
    history = of_topics(tables.read(COUNTS).select(*columns), topics).localCheckpoint()
    near = of_topics(tables.read(STATES, since(begin - TOGETHER)), topics)
    near = near.where((F.col("at") >= F.lit(begin - TOGETHER)) & F.col("name").isin(*partition_counts.NAMES))
    # What is reported again now of an earlier event is in what stands for all before.
    earlier = near.where((F.col("at") < F.lit(begin)) & ~F.col("initial")).select("cluster_id", "identity")
    reported = near.where(F.col("at") >= F.lit(begin)).join(earlier, ["cluster_id", "identity"], "left_anti")
    known = partition_counts.standing(history, begin)
    names = (*_TOPIC, "name", "initial", "identity", "at", "topic_id", "count_after", *LABELS)
    found = partition_counts.spells(reported.select(*names).unionByName(known.select(*names)))
    last = (
        history.where(F.col("valid_from") < F.lit(begin))
        .groupBy(*_TOPIC)
        .agg(F.max("valid_from").alias("_last"))
    )
    before = history.join(last, list(_TOPIC), "left").where("_last IS NULL OR valid_from >= _last")
    key, observed = [*_TOPIC, "valid_from"], Observation()
    old, new = (
        rows.select(*key, F.struct(*columns).alias(side)) for rows, side in ((before, "old"), (found, "new"))
    )
    differs = (
        old.join(new, key, "full_outer")
        .where("NOT (old <=> new)")
        .observe(observed, F.collect_set(_hours_of_counts(clusters)).alias("changes"))
        .localCheckpoint()
    )
    changes = observed.get["changes"]
    if not changes:
        return Changed()
    days = sorted({change["day"] for change in changes})
    there = tables.read(COUNTS, *(Days(day, day) for day in days)).select(*columns)
    rest = there.join(differs.select(*key), key, "left_anti")
    rows = rest.unionByName(differs.where("new IS NOT NULL").select("new.*")).withColumn(
        "day", day_of(F.unix_micros("valid_from"))
    )
    return Changed(rows=rows.localCheckpoint(), days=days, rated=_hours(changes))


def _hours_of_counts(clusters: Clusters) -> Column:
    """Return the day on which a spell began that changes, and the hours that it changes."""

    def end(side: str) -> Column:
        ended = F.coalesce(F.expr(f"unix_micros({side}.valid_to)"), clusters.last_news())
        return F.when(F.col(side).isNotNull(), ended)

    # A spell that only ends otherwise is another one from its earlier end on.
    only_ends = F.expr("old.count <=> new.count")
    first = F.when(only_ends, F.least(end("old"), end("new"))).otherwise(F.unix_micros("valid_from"))
    last = F.greatest(end("old"), end("new"))
    return F.struct(
        day_of(F.unix_micros("valid_from")).alias("day"),
        F.floor(first / HOUR_US).alias("first"),
        F.floor(last / HOUR_US).alias("last"),
    )


def _hours(spans: Iterable[Any]) -> list[Hours]:
    return [
        Hours(span["first"], span["last"])
        for span in spans
        if span["first"] is not None and span["first"] <= span["last"]
    ]
