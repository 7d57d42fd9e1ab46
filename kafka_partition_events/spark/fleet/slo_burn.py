"""How fast the error budget burns: the part of time that partitions were offline, against a target."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.fleet.availability import Lasting, outages, spans_of_counts, within
from kafka_partition_events.spark.fleet.clusters import Clusters
from kafka_partition_events.spark.fleet.days import Period
from kafka_partition_events.spark.fleet.intervals import (
    DAY_US,
    HOUR_US,
    SECOND_US,
    long,
    micros,
    parts_of,
    step_of,
    time_of,
)

TARGET: Final = 0.999
STEP: Final = timedelta(minutes=5)
REACH: Final = timedelta(days=3)
"""The longest window: a step's rows follow from so much time before it."""

_STEP_US: Final = 300 * SECOND_US
_WINDOWS: Final = {"5m": _STEP_US, "1h": HOUR_US, "6h": 6 * HOUR_US, "3d": 3 * DAY_US}
_SIZES: Final = tuple(_WINDOWS.values())
_TOPIC: Final = ("cluster_id", "topic")
_SUMS: Final = ("observed", "low", "high")


def with_target(target: float) -> Callable[[Lasting, Period], DataFrame]:
    """Return the table for another target.

    Raises:
        ValueError: ``target`` is not between 0 and 1, both excluded.
    """
    if not 0 < target < 1:
        raise ValueError(f"the target must be between 0 and 1, both excluded, but is {target}")
    return partial(slo_burn, target=target)


def slo_burn(lasting: Lasting, period: Period, target: float = TARGET) -> DataFrame:
    """Return how fast topics burned their error budgets, every five minutes of a period.

    A rate of 1 uses up exactly what the target allows; 14.4 over one hour uses up 2% of 30 days' budget.
    The error is offline time / time, over partitions, without the time in which nobody looked; so each rate
    is a range. It is null where nobody looked in the whole window.

    Computed from the times at which the number of partitions that are there, or offline, changes: a sum up to
    some time follows from all changes before it, and a window's from two such sums.

    Columns: ``cluster_id, topic, window_start`` (the five minutes at whose end the rates hold), ``target``,
    ``burn_5m_lo, burn_5m_hi``, the same for ``1h``, ``6h`` and ``3d``, ``day, hour_of_day``. Rows with a
    null ``topic`` are of all topics together. A topic without offline time in three days has no rows: its
    rates are 0. Nor has a cluster at which nobody looked in three days.

    Args:
        lasting: With the outages of three more days before the period.
        period: The time.
        target: Which part of the time partitions shall be online.
    """
    begin, end = micros(period.begin), micros(period.end)
    changes = _changes(lasting, begin - REACH // timedelta(microseconds=1), end)
    rates = {
        f"burn_{window}_{bound}": _burn(F.col(f"{name}_{window}"), F.col(f"observed_{window}"), target)
        for window in _WINDOWS
        for bound, name in (("lo", "low"), ("hi", "high"))
    }
    return (
        _windows(changes, lasting.clusters, begin, end)
        .where((F.col("high_3d") > 0) | (F.col("topic").isNull() & (F.col("observed_3d") > 0)))
        .select(
            *_TOPIC,
            time_of(F.col("step")).alias("window_start"),
            F.lit(target).alias("target"),
            *(rate.alias(name) for name, rate in rates.items()),
            *parts_of(F.col("step")),
        )
    )


def _changes(lasting: Lasting, begin: int, end: int) -> DataFrame:
    """Return by how much the numbers of observed and of offline partitions change, and when, within a time.

    Columns: ``cluster_id, topic`` (null: all topics together), ``at, observed, low, high``.
    """
    there = spans_of_counts(lasting).select(
        *_TOPIC, _span(F.col("begin"), F.col("end"), observed=F.col("count").cast("bigint"))
    )
    down = outages(lasting)
    at_most = _span(F.col("begin"), F.col("end"), high=long(1))
    at_least = _span(F.col("low_begin"), F.col("low_end"), low=long(1))
    spans = there.unionByName(down.select(*_TOPIC, F.explode(F.array(at_most, at_least)).alias("span")))
    return (
        within(spans.select(*_TOPIC, "span.*"), begin, end)
        # On its own: beside a second explode, Spark 4.1 loses the names of the structs in that one.
        .withColumn("topic", F.explode(F.array("topic", F.lit(None))))
        .select(*_TOPIC, *_SUMS, _edges(lasting.clusters))
        .select(*_TOPIC, "edge.at", *((F.col("edge.sign") * F.col(name)).alias(name) for name in _SUMS))
        .groupBy(*_TOPIC, "at")
        .agg(*(F.sum(name).alias(name) for name in _SUMS))
    )


def _span(begin: Column, end: Column, **counts: Column) -> Column:
    """Return from when to when so many partitions were observed, or offline."""
    told = (counts.get(name, long(0)).alias(name) for name in _SUMS)
    return F.struct(begin.alias("begin"), end.alias("end"), *told).alias("span")


def _edges(clusters: Clusters) -> Column:
    """Return a row for each time at which a span begins or ends to be seen."""

    def both(begin: Column, end: Column, sign: int) -> Column:
        return F.array(*(
            F.struct(at.alias("at"), F.lit(factor).alias("sign"))
            for at, factor in ((begin, sign), (end, -sign))
        ))  # fmt: skip

    begin, end = F.col("begin"), F.col("end")
    unseen = F.transform(clusters.blind_parts(begin, end), lambda one: both(one["begin"], one["end"], -1))
    return F.explode(F.concat(both(begin, end, 1), F.flatten(unseen))).alias("edge")


def _windows(changes: DataFrame, clusters: Clusters, begin: int, end: int) -> DataFrame:
    """Return the steps of each topic, and ``observed_5m``, ...: how much time there was in each window.

    That is, over partitions: the sum up to the end of the step, less the sum up to a window before. All these
    times are made from one row per topic, so that they need not be shuffled: they are many more than the
    changes. A topic's steps begin with its first change.
    """
    by_topic = clusters.known(
        changes.groupBy("topic", "cluster_id")
        .agg(
            F.sort_array(F.collect_list(F.struct("at", *_SUMS, F.lit(False).alias("asked")))).alias(
                "changes"
            ),
            F.min("at").alias("begin"),
            F.max("high").alias("high"),
        )
        .where("topic IS NULL OR high > 0")
    )
    first = F.greatest(step_of(F.col("begin"), _STEP_US), long(begin))
    last = F.least(F.col("until"), long(end)) - 1
    nothing = [long(0).alias(name) for name in _SUMS]
    ends = F.transform(F.sequence("first", "last", long(_STEP_US)), lambda step: step + _STEP_US)
    asked = F.transform(
        F.array_distinct(F.concat("ends", *(F.transform("ends", _earlier(size)) for size in _SIZES))),
        lambda at: F.struct(at.alias("at"), *nothing, F.lit(True).alias("asked")),
    )
    rows = (
        by_topic.withColumns({"first": first, "last": last})
        .where("first <= last")
        .withColumn("ends", ends)
        .select(*_TOPIC, "begin", "first", "last", F.inline(F.concat("changes", asked)))
    )
    in_time = Window.partitionBy("topic", "cluster_id").orderBy("at")
    since = F.col("at") - F.col("begin")

    def until_now(name: str) -> Column:
        # Each change c of a number at a time t comes to c * (now - t) by now.
        return since * F.sum(name).over(in_time) - F.sum(F.col(name) * since).over(in_time)

    sums = (until_now(name).alias(name) for name in _SUMS)
    summed = rows.select(*_TOPIC, "first", "last", "at", "asked", *sums).where("asked")
    # A time is the end of one step, and a window before the ends of others.
    parts = [(-1, 0), *enumerate(_SIZES)]
    serves = F.array(*(
        F.struct((F.col("at") - _STEP_US + size).alias("step"), F.lit(part).alias("part"))
        for part, size in parts
    ))  # fmt: skip
    within_ = F.filter(serves, lambda one: (one["step"] >= F.col("first")) & (one["step"] <= F.col("last")))
    return (
        summed.select(*_TOPIC, *_SUMS, F.inline(within_))
        .groupBy(*_TOPIC, "step")
        .agg(*(
            F.sum(F.when(F.col("part") == -1, F.col(name)).when(F.col("part") == part, -F.col(name)))
            .alias(f"{name}_{window}")
            for part, window in enumerate(_WINDOWS)
            for name in _SUMS
        ))
    )  # fmt: skip


def _earlier(size: int) -> Callable[[Column], Column]:
    return lambda at: at - size


def _burn(error: Column, observed: Column, target: float) -> Column:
    rate = F.least(F.lit(1.0), error / observed) / F.lit(1.0 - target)
    return F.when(observed > 0, rate)
