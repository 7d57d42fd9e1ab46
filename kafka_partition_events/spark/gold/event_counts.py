"""What gold counts of events as they come: leaders that moved, how even brokers are, producers' counters."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.gold.intervals import (
    HOUR_US,
    SECOND_US,
    during,
    parts_of,
    step_of,
    time_of,
)
from kafka_partition_events.spark.tables.days import Period

CHURN_STEP_US: Final = 300 * SECOND_US
PRODUCER_COUNTS: Final = ("sent", "rerouted", "avoided", "capped", "rescued")

_SUMMARY: Final = """
    period STRUCT<begin: TIMESTAMP, end: TIMESTAMP>,
    brokers ARRAY<STRUCT<
        broker: INT, rack: STRING, leaders: BIGINT, replicas: BIGINT, offline_replicas: BIGINT
    >>,
    topics BIGINT, partitions BIGINT, offline BIGINT
"""
_COUNTED: Final = ", ".join(f"{name}: BIGINT" for name in PRODUCER_COUNTS)
_COUNTERS: Final = f"client STRING, topics ARRAY<STRUCT<topic: STRING, {_COUNTED}>>"


def leader_churn(told: DataFrame, period: Period) -> DataFrame:
    """Return how many partitions each broker lost and took over, in windows of five minutes.

    Only ``leadership.moved`` counts: a partition that goes offline is an outage, not a move. A move lies in
    the window of its upper bound.

    Columns: ``cluster_id, broker, window_start, moves_from`` (partitions that it led before), ``moves_to``
    (that it leads since), ``reelections`` (it was elected again, in a new epoch; not a move), ``day``,
    ``hour_of_day``. A broker without any has no row.
    """
    moves = (
        told.where("name = 'leadership.moved'")
        .where(during(F.col("at"), period))
        .select(
            "cluster_id",
            step_of(F.unix_micros("at"), CHURN_STEP_US).alias("step"),
            F.col("leader_before").alias("from"),
            F.col("leader_after").alias("to"),
        )
    )
    same = F.coalesce(F.col("from") == F.col("to"), F.lit(False))
    never = F.lit(False)
    sides = F.array(_side("from", ~same, never, same), _side("to", never, ~same, never))
    return (
        moves.select("cluster_id", "step", F.inline(sides))
        .where("broker IS NOT NULL")
        .groupBy("cluster_id", "broker", "step")
        .agg(*(F.sum(name).alias(name) for name in ("moves_from", "moves_to", "reelections")))
        .where("moves_from + moves_to + reelections > 0")
        .select(
            "cluster_id",
            "broker",
            time_of(F.col("step")).alias("window_start"),
            "moves_from",
            "moves_to",
            "reelections",
            *parts_of(F.col("step")),
        )
    )


def _side(broker: str, moved_from: Column, moved_to: Column, reelected: Column) -> Column:
    counts = {"moves_from": moved_from, "moves_to": moved_to, "reelections": reelected}
    return F.struct(
        F.col(broker).alias("broker"),
        *(told.cast("bigint").alias(name) for name, told in counts.items()),
    )


def skew(told: DataFrame, period: Period) -> DataFrame:
    """Return what each broker held in each period that an observer summed up, and how even that was.

    Columns: ``cluster_id, period_begin, period_end, at`` (the look), ``broker, rack, leaders, replicas,
    offline_replicas``; of the whole cluster, the same in each of its brokers' rows: ``topics, partitions,
    offline, leaders_max_mean, leaders_cv, replicas_max_mean, replicas_cv`` (the largest by the mean, and the
    standard deviation by the mean: 1 and 0 are even; null where there are none); ``day``, ``hour_of_day`` (of
    ``at``).
    """
    bodies = (
        told.where("name = 'cluster.summary' AND body IS NOT NULL")
        .where(during(F.col("at"), period))
        .select("cluster_id", "at", F.from_json("body", _SUMMARY).alias("told"))
    )
    cluster = bodies.select(
        "cluster_id",
        F.col("told.period.begin").alias("period_begin"),
        F.col("told.period.end").alias("period_end"),
        "at",
        "told.topics",
        "told.partitions",
        "told.offline",
        *_evenness("leaders"),
        *_evenness("replicas"),
        *parts_of(F.unix_micros("at")),
        F.col("told.brokers").alias("brokers"),
    )
    return cluster.select(
        "cluster_id",
        "period_begin",
        "period_end",
        "at",
        F.inline("brokers"),
        "topics",
        "partitions",
        "offline",
        "leaders_max_mean",
        "leaders_cv",
        "replicas_max_mean",
        "replicas_cv",
        "day",
        "hour_of_day",
    )


def _evenness(what: str) -> tuple[Column, Column]:
    # From whole sums, so that the order in which brokers are listed can't show in the last digit.
    counts = F.transform("told.brokers", lambda broker: F.coalesce(broker[what], F.lit(0).cast("bigint")))
    zero = F.lit(0).cast("bigint")
    brokers = F.size("told.brokers")
    total = F.aggregate(counts, zero, lambda sum_, count: sum_ + count)
    squares = F.aggregate(counts, zero, lambda sum_, count: sum_ + count * count)
    return (
        F.when(total > 0, F.array_max(counts) * brokers / total).alias(f"{what}_max_mean"),
        F.when(total > 0, F.sqrt(squares * brokers - total * total) / total).alias(f"{what}_cv"),
    )


def reroutes(told: DataFrame, period: Period) -> DataFrame:
    """Return by the hour what producers counted.

    Columns: ``cluster_id, topic, client, hour`` (in which it was told), ``sent, rerouted, avoided,
    capped, rescued``, ``day, hour_of_day``. Empty where no producer publishes its counters.
    """
    bodies = (
        told.where("name = 'producer.counters' AND body IS NOT NULL")
        .where(during(F.col("at"), period))
        .select(
            "cluster_id",
            step_of(F.unix_micros("at"), HOUR_US).alias("step"),
            F.from_json("body", _COUNTERS).alias("told"),
        )
    )
    return (
        bodies.select("cluster_id", "step", F.col("told.client").alias("client"), F.inline("told.topics"))
        .groupBy("cluster_id", "topic", "client", "step")
        .agg(*(F.coalesce(F.sum(name), F.lit(0).cast("bigint")).alias(name) for name in PRODUCER_COUNTS))
        .select(
            "cluster_id",
            "topic",
            "client",
            time_of(F.col("step")).alias("hour"),
            *PRODUCER_COUNTS,
            *parts_of(F.col("step")),
        )
    )
