"""How available partitions were: a range, for an outage's begin and end are known between two polls only."""

from datetime import timedelta
from typing import Final

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.gold.intervals import (
    DAY_US,
    HOUR_US,
    SECOND_US,
    day_of,
    in_steps,
    length,
    long,
    micros,
    parts_of,
)
from kafka_partition_events.spark.tables.days import Period

SETTLED_AFTER: Final = timedelta(hours=1)
"""How long after its end a period becomes final: until then news of it may come."""

_TOPIC: Final = ("cluster_id", "topic")
_SUMS: Final = ("present", "blind", "low", "high", "incidents")
_RATED: Final = (
    "partition_seconds", "offline_seconds_lo", "offline_seconds_hi", "blind_seconds", "availability_lo",
    "availability_hi", "incidents", "final",
)  # fmt: skip


@frozen(kw_only=True)
class Lasting:
    """What lasts, as far as a period needs it; still lazy.

    Attributes:
        outages: The rows of ``gold/partition_outages`` that overlap the period or are open, or more.
        counts: Those of ``gold/partition_count_history``.
        clusters: What is known of them.
        target: Which part of the time partitions shall be online.
    """

    outages: DataFrame
    counts: DataFrame
    clusters: Clusters
    target: float = 0.999


def hourly(lasting: Lasting, period: Period) -> DataFrame:
    """Return ``cluster_id, topic, hour`` (its begin), the columns of `rated`, ``day, hour_of_day``."""
    return rated(lasting, period, HOUR_US).select(
        *_TOPIC, F.timestamp_micros("step").alias("hour"), *_RATED, *parts_of(F.col("step"))
    )


def daily(lasting: Lasting, period: Period) -> DataFrame:
    """Return ``cluster_id, topic``, the columns of `rated`, ``day``."""
    return rated(lasting, period, DAY_US).select(*_TOPIC, *_RATED, day_of(F.col("step")).alias("day"))


def rated(lasting: Lasting, period: Period, size: int) -> DataFrame:
    """Return how available each topic was in each step of a period, up to the last news.

    All seconds are added up over partitions: one offline for a minute, and ten for six seconds, both make
    60. Time in which no observer polled is neither up nor down: it is in ``partition_seconds`` and
    ``blind_seconds``, and left out of the others.

    Columns: ``cluster_id, topic, step`` (its begin, microseconds) and

    - ``partition_seconds``: how long its partitions were there; 0 if no event has the topic's count
    - ``offline_seconds_lo``, ``_hi``: how long they were offline, at least and at most. A begin that no
      observer saw counts from the first sighting; what has not ended is offline until the last news
    - ``blind_seconds``
    - ``availability_lo``, ``_hi``: from 0 to 1; null where no observer polled at all
    - ``incidents``: how many outages began (were first seen) in it
    - ``final``: whether it ended long enough ago, and no outage of it is open

    Args:
        lasting: What they are computed from.
        period: The time, a multiple of steps.
        size: How long a step is, in microseconds.
    """
    begin, end = micros(period.begin), micros(period.end)
    clusters, settled = lasting.clusters, SETTLED_AFTER // timedelta(microseconds=1)
    there = present(within(spans_of_counts(lasting), begin, end), clusters, size)
    measured = added_up(there.unionByName(offline(outages(lasting), clusters, begin, end, size)))
    micros_of = {
        "partition_seconds": "present",
        "offline_seconds_lo": "low",
        "offline_seconds_hi": "high",
        "blind_seconds": "blind",
    }
    return clusters.known(measured).selectExpr(
        *_TOPIC,
        "step",
        *(f"{sum_} / {SECOND_US}D AS {name}" for name, sum_ in micros_of.items()),
        "IF(present > blind, greatest(0D, 1D - high / (present - blind)), NULL) AS availability_lo",
        "IF(present > blind, greatest(0D, 1D - low / (present - blind)), NULL) AS availability_hi",
        "incidents",
        f"step + {size}L <= until - {settled}L AND NOT open AS final",
    )


# -- what is added up, also for other tables; all in microseconds --------------------------------------------


def spans_of_counts(lasting: Lasting) -> DataFrame:
    """Return ``cluster_id, topic, count, begin, end``: how many partitions there were; not ended: to now."""
    end = "coalesce(unix_micros(valid_to), until) AS end"
    known = lasting.clusters.known(lasting.counts)
    return known.selectExpr(*_TOPIC, "count", "unix_micros(valid_from) AS begin", end)


def outages(lasting: Lasting) -> DataFrame:
    """Return when partitions were offline at most (``begin, end``) and at least (``first_seen, low_end``).

    Columns besides: ``cluster_id, topic, open``.
    """
    surely = "unix_micros(greatest(began_by, coalesce(ended_after, began_by)))"
    return lasting.clusters.known(lasting.outages).selectExpr(
        *_TOPIC,
        "unix_micros(began_by) AS first_seen",
        "unix_micros(coalesce(began_after, began_by)) AS begin",
        "coalesce(unix_micros(ended_by), until) AS end",
        f"IF(ended_by IS NULL, until, {surely}) AS low_end",
        "ended_by IS NULL AS open",
    )


def within(spans: DataFrame, begin: int, end: int) -> DataFrame:
    """Return spans cut to a time; those outside of it are left out."""
    return (
        spans.where((F.col("begin") < end) & (F.col("end") > begin))
        .withColumn("begin", F.greatest("begin", long(begin)))
        .withColumn("end", F.least("end", long(end)))
    )


def present(spans: DataFrame, clusters: Clusters, size: int) -> DataFrame:
    """Return for spans of counts what `added_up` adds up."""
    begin, end = F.col("begin"), F.col("end")
    count = F.col("count").cast("bigint")
    return in_steps(spans, size).select(
        *_TOPIC,
        "step",
        (count * length(begin, end)).alias("present"),
        (count * clusters.blind_within(begin, end)).alias("blind"),
        *(long(0).alias(name) for name in ("low", "high", "incidents")),
        F.lit(False).alias("open"),
    )


def offline(spans: DataFrame, clusters: Clusters, begin: int, end: int, size: int) -> DataFrame:
    """Return for outages what `added_up` adds up, within a time."""
    # One that began and ended between the same two polls is still an incident, though it may have no length.
    seen = spans.withColumn("high_end", F.col("end")).withColumn(
        "end", F.greatest("end", F.col("first_seen") + 1)
    )
    from_, to = F.col("begin"), F.least("end", "high_end")
    low_from, low_to = F.greatest("begin", "first_seen"), F.least("end", "low_end")
    began = (F.col("first_seen") >= F.col("step")) & (F.col("first_seen") < F.col("step") + size)
    return in_steps(within(seen, begin, end), size).select(
        *_TOPIC,
        "step",
        long(0).alias("present"),
        long(0).alias("blind"),
        (length(low_from, low_to) - clusters.blind_within(low_from, low_to)).alias("low"),
        (length(from_, to) - clusters.blind_within(from_, to)).alias("high"),
        began.cast("bigint").alias("incidents"),
        "open",
    )


def added_up(pieces: DataFrame) -> DataFrame:
    """Return one row per ``cluster_id, topic, step`` with the sums, and ``open``: whether any is."""
    return pieces.groupBy(*_TOPIC, "step").agg(
        *(F.sum(name).alias(name) for name in _SUMS), F.max("open").alias("open")
    )
