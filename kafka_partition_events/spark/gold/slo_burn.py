"""How fast the error budget burns: the part of time that partitions were offline, against a target."""

from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.gold.availability import Lasting, outages, spans_of_counts, within
from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.gold.intervals import (
    DAY_US,
    HOUR_US,
    SECOND_US,
    long,
    micros,
    parts_of,
    step_of,
)
from kafka_partition_events.spark.tables.days import Period

STEP: Final = timedelta(minutes=5)
REACH: Final = timedelta(days=3)
"""The longest window: a step's rows follow from so much time before it."""

_STEP_US: Final = 300 * SECOND_US
_WINDOWS: Final = {"5m": _STEP_US, "1h": HOUR_US, "6h": 6 * HOUR_US, "3d": 3 * DAY_US}
_TOPIC: Final = ("cluster_id", "topic")
_SUMS: Final = ("observed", "low", "high")


def slo_burn(lasting: Lasting, period: Period) -> DataFrame:
    """Return how fast topics burned their error budgets, every five minutes of a period.

    A rate of 1 uses up exactly what the target allows; 14.4 over one hour uses up 2% of 30 days' budget.
    The error is offline time / time, over partitions, without the time in which no observer polled; so each
    rate is a range. It is null where no observer polled in the whole window.

    Computed from the times at which the number of partitions that are there, or offline, changes: a sum up to
    some time follows from all changes before it, and a window's from two such sums.

    Columns: ``cluster_id, topic, window_start`` (the five minutes at whose end the rates hold), ``target``,
    ``burn_5m_lo, burn_5m_hi``, the same for ``1h``, ``6h`` and ``3d``, ``day, hour_of_day``. Rows with a
    null ``topic`` are of all topics together. A topic without offline time in three days has no rows: its
    rates are 0. Nor has a cluster that no observer polled in three days. Needs the outages of `REACH` before.
    """
    begin, end = micros(period.begin), micros(period.end)
    changes = _changes(lasting, begin - REACH // timedelta(microseconds=1), end)
    rates = [
        f"IF(observed_{window} > 0, least(1D, {name}_{window} / observed_{window}) / (1D - target), NULL) "
        f"AS burn_{window}_{bound}"
        for window in _WINDOWS
        for bound, name in (("lo", "low"), ("hi", "high"))
    ]
    return (
        _windows(changes, lasting.clusters, begin, end)
        .where("high_3d > 0 OR topic IS NULL AND observed_3d > 0")
        .withColumn("target", F.lit(lasting.target))
        .select(
            *_TOPIC,
            F.timestamp_micros("step").alias("window_start"),
            "target",
            *map(F.expr, rates),
            *parts_of(F.col("step")),
        )
    )


def _changes(lasting: Lasting, begin: int, end: int) -> DataFrame:
    """Return by how much the numbers of observed and of offline partitions change, and when, within a time.

    Columns: ``cluster_id, topic`` (null: all topics together), ``at, observed, low, high``.
    """
    there = "struct(begin, end, CAST(count AS BIGINT) AS observed, 0L AS low, 0L AS high) AS span"
    at_most = "struct(begin, end, 0L AS observed, 0L AS low, 1L AS high)"
    at_least = "struct(first_seen AS begin, low_end AS end, 0L AS observed, 1L AS low, 0L AS high)"
    spans = (
        spans_of_counts(lasting)
        .selectExpr(*_TOPIC, there)
        .unionByName(outages(lasting).selectExpr(*_TOPIC, f"explode(array({at_most}, {at_least})) AS span"))
    )
    unseen = lasting.clusters.blind_parts(F.col("begin"), F.col("end"))
    cut = "array(struct(one.begin AS at, -1 AS sign), struct(one.end AS at, 1 AS sign))"
    seen = "array(struct(begin AS at, 1 AS sign), struct(end AS at, -1 AS sign))"
    edges = f"concat({seen}, flatten(transform(unseen, one -> {cut})))"
    return (
        within(spans.select(*_TOPIC, "span.*"), begin, end)
        .withColumn("unseen", unseen)
        # On its own: beside a second explode, Spark 4.1 loses the names of the structs in that one.
        .withColumn("topic", F.expr("explode(array(topic, NULL))"))
        .selectExpr(*_TOPIC, *_SUMS, f"explode({edges}) AS edge")
        .groupBy(*_TOPIC, "edge.at")
        .agg(*(F.expr(f"sum(edge.sign * {name}) AS {name}") for name in _SUMS))
    )


def _windows(changes: DataFrame, clusters: Clusters, begin: int, end: int) -> DataFrame:
    """Return the steps of each topic, and ``observed_5m``, ...: how much time there was in each window.

    That is, over partitions: the sum up to the end of the step, less the sum up to a window before. All these
    times are made from one row per topic, so that they need not be shuffled: they are many more than the
    changes. A topic's steps begin with its first change.
    """
    sums = ", ".join(_SUMS)
    by_topic = clusters.known(
        changes.groupBy("topic", "cluster_id")
        .agg(
            F.expr(f"sort_array(collect_list(struct(at, {sums}, false AS asked))) AS changes"),
            F.min("at").alias("begin"),
            F.max("high").alias("high"),
        )
        .where("topic IS NULL OR high > 0")
    )
    first = F.greatest(step_of(F.col("begin"), _STEP_US), long(begin))
    last = F.least(F.col("until"), long(end)) - 1
    earlier = ", ".join(f"transform(ends, at -> at - {size}L)" for size in _WINDOWS.values())
    nothing = ", ".join(f"0L AS {name}" for name in _SUMS)
    asked = f"transform(array_distinct(concat(ends, {earlier})), at -> struct(at, {nothing}, true AS asked))"
    rows = (
        by_topic.withColumns({"first": first, "last": last})
        .where("first <= last")
        .withColumn("ends", F.expr(f"sequence(first + {_STEP_US}L, last + {_STEP_US}L, {_STEP_US}L)"))
        .selectExpr(*_TOPIC, "begin", "first", "last", f"inline(concat(changes, {asked}))")
    )
    # Each change c of a number at a time t comes to c * (now - t) by now.
    in_time, since = "OVER (PARTITION BY topic, cluster_id ORDER BY at)", "(at - begin)"
    until_now = (
        f"{since} * sum({name}) {in_time} - sum({name} * {since}) {in_time} AS {name}" for name in _SUMS
    )
    summed = rows.selectExpr(*_TOPIC, "first", "last", "at", "asked", *until_now).where("asked")
    # A time is the end of one step, and a window before the ends of others.
    parts = [(-1, 0), *enumerate(_WINDOWS.values())]
    serves = ", ".join(f"struct(at + {size - _STEP_US}L AS step, {part} AS part)" for part, size in parts)
    return (
        summed.selectExpr(*_TOPIC, *_SUMS, "first", "last", f"inline(array({serves}))")
        .where("step BETWEEN first AND last")
        .groupBy(*_TOPIC, "step")
        .agg(*(
            F.expr(f"sum(CASE part WHEN -1 THEN {name} WHEN {part} THEN -{name} END) AS {name}_{window}")
            for part, window in enumerate(_WINDOWS)
            for name in _SUMS
        ))
    )  # fmt: skip
