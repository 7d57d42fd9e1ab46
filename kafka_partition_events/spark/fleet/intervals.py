"""Times and intervals as whole microseconds: sums of them do not depend on the order of the rows.

An interval holds its begin and not its end. Columns named ``begin`` and ``end`` are BIGINT here.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.fleet.days import Period

SECOND_US: Final = 1_000_000
HOUR_US: Final = 3_600 * SECOND_US
DAY_US: Final = 24 * HOUR_US

BLIND: Final = "_blind"
"""The column with a cluster's times in which nobody looked."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def micros(moment: datetime) -> int:
    """Return an aware time as microseconds since 1970, exactly."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def long(value: int) -> Column:
    """Return a number as BIGINT, however small it is."""
    return F.lit(value).cast("bigint")


def length(begin: Column, end: Column) -> Column:
    """Return how long an interval is; nothing if it ends before it begins."""
    return F.greatest(long(0), end - begin)


def seconds(micros: Column) -> Column:
    """Return microseconds as seconds, DOUBLE."""
    return micros / F.lit(float(SECOND_US))


def time_of(micros: Column) -> Column:
    """Return microseconds since 1970 as TIMESTAMP."""
    return F.timestamp_micros(micros)


def day_of(micros: Column) -> Column:
    """Return the day in UTC of microseconds since 1970, whatever the session's time zone."""
    return F.date_from_unix_date(F.floor(micros / long(DAY_US)).cast("int"))


def parts_of(micros: Column) -> tuple[Column, Column]:
    """Return ``day`` and ``hour_of_day``, by which tables are replaced that an hour is added to at a time."""
    return day_of(micros).alias("day"), F.floor(F.pmod(micros, long(DAY_US)) / HOUR_US).cast("int").alias(
        "hour_of_day"
    )


def during(moment: Column, period: Period) -> Column:
    """Return whether a time lies in a period."""
    return (moment >= F.lit(period.begin)) & (moment < F.lit(period.end))


def step_of(micros: Column, size: int) -> Column:
    """Return when the step begins that a time lies in; steps of ``size`` microseconds begin in 1970, UTC."""
    return micros - F.pmod(micros, long(size))


def in_steps(intervals: DataFrame, size: int) -> DataFrame:
    """Return one row per interval and step that it touches, cut to the step, with ``step``: its begin.

    Empty intervals are left out.

    Args:
        intervals: Any columns, ``begin`` and ``end``.
        size: How long a step is.
    """
    first, last = step_of(F.col("begin"), size), F.col("end") - 1
    return (
        intervals.where("begin < end")
        .withColumn("step", F.explode(F.sequence(first, last, long(size))))
        .withColumn("begin", F.greatest("begin", "step"))
        .withColumn("end", F.least("end", F.col("step") + size))
    )


def with_until(rows: DataFrame, until: DataFrame) -> DataFrame:
    """Return rows with ``until``, microseconds: the last news of their cluster. Others are left out.

    Args:
        rows: Any columns, ``cluster_id``.
        until: As `kafka_partition_events.spark.fleet.inputs.Inputs` has it.
    """
    return rows.join(F.broadcast(until), "cluster_id")


def with_blind(rows: DataFrame, blind: DataFrame) -> DataFrame:
    """Return rows with what `blind_within` needs.

    Args:
        rows: Any columns, ``cluster_id``.
        blind: What `kafka_partition_events.spark.fleet.blind.by_cluster` returned.
    """
    return rows.join(F.broadcast(blind), "cluster_id", "left")


def blind_within(begin: Column, end: Column) -> Column:
    """Return for how long nobody looked within an interval. The rows must come from `with_blind`."""
    within = F.aggregate(
        BLIND,
        long(0),
        lambda total, one: total + length(F.greatest(begin, one["begin"]), F.least(end, one["end"])),
    )
    return F.coalesce(within, long(0))


def blind_parts(begin: Column, end: Column) -> Column:
    """Return the parts of an interval in which nobody looked, an array of structs of ``begin`` and ``end``.

    The rows must come from `with_blind`.
    """
    met = F.filter(BLIND, lambda one: (one["begin"] < end) & (one["end"] > begin))
    parts = F.transform(
        met,
        lambda one: F.struct(
            F.greatest(begin, one["begin"]).alias("begin"), F.least(end, one["end"]).alias("end")
        ),
    )
    return F.coalesce(parts, F.array().cast("array<struct<begin: bigint, end: bigint>>"))


def touches_blind(begin: Column, end: Column) -> Column:
    """Return whether nobody looked at some moment of an interval. The rows must come from `with_blind`."""
    touched = F.exists(BLIND, lambda one: (one["begin"] < end) & (one["end"] > begin))
    return F.coalesce(touched, F.lit(False))
