"""Times and intervals as whole microseconds: sums of them do not depend on the order of the rows.

An interval holds its begin and not its end. Columns named ``begin`` and ``end`` are BIGINT here.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.tables.days import Period

SECOND_US: Final = 1_000_000
HOUR_US: Final = 3_600 * SECOND_US
DAY_US: Final = 24 * HOUR_US

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
