"""How fast the error budget burns: the part of time that partitions were offline, against a target."""

from datetime import timedelta
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.fleet.availability import (
    added_up,
    offline,
    outages,
    present,
    spans_of_counts,
    within,
)
from kafka_partition_events.spark.fleet.days import Days
from kafka_partition_events.spark.fleet.inputs import GoldTable, Inputs
from kafka_partition_events.spark.fleet.intervals import (
    DAY_US,
    HOUR_US,
    SECOND_US,
    day_of,
    long,
    micros,
    time_of,
    with_blind,
)

TARGET: Final = 0.999
STEP: Final = timedelta(minutes=5)
REACH: Final = timedelta(days=3)
"""The longest window: a day's rows follow from so much time before it."""

_STEP_US: Final = 300 * SECOND_US
_WINDOWS: Final = {"5m": _STEP_US, "1h": HOUR_US, "6h": 6 * HOUR_US, "3d": 3 * DAY_US}
_TOPIC: Final = ("cluster_id", "topic")
_SUMS: Final = ("observed", "low", "high")


def with_target(target: float) -> GoldTable:
    """Return the table for another target.

    Raises:
        ValueError: ``target`` is not between 0 and 1, both excluded.
    """
    if not 0 < target < 1:
        raise ValueError(f"the target must be between 0 and 1, both excluded, but is {target}")
    return partial(slo_burn, target=target)


def slo_burn(inputs: Inputs, days: Days, target: float = TARGET) -> DataFrame:
    """Return how fast topics burned their error budgets, every five minutes of these days.

    A rate of 1 uses up exactly what the target allows; 14.4 over one hour uses up 2% of 30 days' budget.
    The error is offline time / time, over partitions, without the time in which nobody looked; so each rate
    is a range. It is null where nobody looked in the whole window.

    Columns: ``cluster_id, topic, window_start`` (the five minutes at whose end the rates hold), ``target``,
    ``burn_5m_lo, burn_5m_hi``, the same for ``1h``, ``6h`` and ``3d``, ``day``. Rows with a null ``topic``
    are of all topics together. A topic without offline time in three days has no rows: its rates are 0.

    Args:
        inputs: With the outages of three more days before these.
        days: The days.
        target: Which part of the time partitions shall be online.
    """
    end = min(micros(days.end), micros(inputs.until))
    begin = micros(days.begin) - micros_of(REACH)
    down = within(outages(inputs), begin, end)
    troubled = down.select(*_TOPIC).distinct()
    there = spans_of_counts(inputs)
    there = there.join(F.broadcast(troubled), list(_TOPIC), "left_semi").unionByName(_of_clusters(there))
    there = within(there, begin, end)
    of_clusters = down.withColumn("topic", F.lit(None).cast("string"))
    measured = added_up(
        present(with_blind(there, inputs.blind), _STEP_US)
        .unionByName(offline(with_blind(down.unionByName(of_clusters), inputs.blind), begin, end, _STEP_US))
        .unionByName(_nothing(there, begin, end))
    ).withColumn("observed", F.col("present") - F.col("blind"))
    in_time = Window.partitionBy(*_TOPIC).orderBy("step")
    so_far = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    summed = measured.select(*_TOPIC, "step", *(F.sum(name).over(so_far).alias(name) for name in _SUMS))
    rates = {
        f"burn_{window}_{bound}": _burn(_last(name, size, in_time), _last("observed", size, in_time), target)
        for window, size in _WINDOWS.items()
        for bound, name in (("lo", "low"), ("hi", "high"))
    }
    return (
        summed.withColumns({**rates, "_lately": _last("high", 3 * DAY_US, in_time)})
        .where((F.col("step") >= micros(days.begin)) & (F.col("topic").isNull() | (F.col("_lately") > 0)))
        .select(
            *_TOPIC,
            time_of(F.col("step")).alias("window_start"),
            F.lit(target).alias("target"),
            *rates,
            day_of(F.col("step")).alias("day"),
        )
    )


def micros_of(span: timedelta) -> int:
    """Return a span of time in microseconds."""
    return span // timedelta(microseconds=1)


def _of_clusters(spans: DataFrame) -> DataFrame:
    """Return how many partitions all topics of a cluster had together, as spans with a null ``topic``."""
    changes = (
        spans.select(
            "cluster_id",
            F.inline(
                F.array(
                    F.struct(F.col("begin").alias("at"), F.col("count").alias("change")),
                    F.struct(F.col("end").alias("at"), (-F.col("count")).alias("change")),
                )
            ),
        )
        .groupBy("cluster_id", "at")
        .agg(F.sum("change").alias("change"))
    )
    in_time = Window.partitionBy("cluster_id").orderBy("at")
    return (
        changes.withColumn("count", F.sum("change").over(in_time))
        .withColumn("end", F.lead("at").over(in_time))
        .where("count > 0")
        .select(
            "cluster_id",
            F.lit(None).cast("string").alias("topic"),
            "count",
            F.col("at").alias("begin"),
            "end",
        )
    )


def _nothing(spans: DataFrame, begin: int, end: int) -> DataFrame:
    """Return a row without any time for each step, so that a window counts steps by counting rows."""
    steps = F.sequence(long(begin), long(max(begin, end - 1)), long(_STEP_US))
    return (
        spans.select(*_TOPIC)
        .distinct()
        .select(*_TOPIC, F.explode(steps).alias("step"))
        .select(
            *_TOPIC,
            "step",
            *(long(0).alias(name) for name in ("present", "blind", "low", "high", "incidents")),
            F.lit(False).alias("open"),
        )
    )


def _last(name: str, size: int, in_time: WindowSpec) -> Column:
    """Return a sum over the last steps, from the sum over all of them so far."""
    return F.col(name) - F.coalesce(F.lag(name, size // _STEP_US).over(in_time), long(0))


def _burn(error: Column, observed: Column, target: float) -> Column:
    rate = F.least(F.lit(1.0), error / observed) / F.lit(1.0 - target)
    return F.when(observed > 0, rate)
