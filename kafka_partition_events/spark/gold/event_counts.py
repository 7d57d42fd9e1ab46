"""What gold counts of events as they come: leaders that moved, how even brokers are."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.gold.intervals import SECOND_US, during, parts_of, step_of
from kafka_partition_events.spark.tables.days import Period

CHURN_STEP_US: Final = 300 * SECOND_US

_SUMMARY: Final = """
    period STRUCT<begin: TIMESTAMP, end: TIMESTAMP>,
    brokers ARRAY<STRUCT<
        broker: INT, rack: STRING, leaders: BIGINT, replicas: BIGINT, offline_replicas: BIGINT
    >>,
    topics BIGINT, partitions BIGINT, offline BIGINT
"""


def leader_churn(reported: DataFrame, period: Period) -> DataFrame:
    """Return how many partitions each broker lost and took over, in windows of five minutes.

    Only ``leadership.moved`` counts: a partition that goes offline is an outage, not a move. A move lies in
    the window of its upper bound.

    Columns: ``cluster_id, broker, window_start, moves_from`` (partitions that it led before), ``moves_to``
    (that it leads since), ``reelections`` (it was elected again, in a new epoch; not a move), ``day``,
    ``hour_of_day``. A broker without any has no row.
    """
    same = "coalesce(leader_before = leader_after, false)"
    lost = (
        f"leader_before AS broker, int(NOT {same}) AS moves_from, 0 AS moves_to, int({same}) AS reelections"
    )
    gained = f"leader_after AS broker, 0 AS moves_from, int(NOT {same}) AS moves_to, 0 AS reelections"
    counts = ("moves_from", "moves_to", "reelections")
    return (
        reported.where("name = 'leadership.moved'")
        .where(during(F.col("at"), period))
        .withColumn("step", step_of(F.unix_micros("at"), CHURN_STEP_US))
        .selectExpr("cluster_id", "step", f"inline(array(struct({lost}), struct({gained})))")
        .where("broker IS NOT NULL")
        .groupBy("cluster_id", "broker", "step")
        .agg(*(F.sum(name).alias(name) for name in counts))
        .where("moves_from + moves_to + reelections > 0")
        .select(
            *("cluster_id", "broker", F.timestamp_micros("step").alias("window_start"), *counts),
            *parts_of(F.col("step")),
        )
    )


def skew(reported: DataFrame, period: Period) -> DataFrame:
    """Return what each broker held in each period that an observer summed up, and how even that was.

    Columns: ``cluster_id, period_begin, period_end, at`` (the poll), ``broker, rack, leaders, replicas,
    offline_replicas``; of the whole cluster, the same in each of its brokers' rows: ``topics, partitions,
    offline, leaders_max_mean, leaders_cv, replicas_max_mean, replicas_cv`` (the largest by the mean, and the
    standard deviation by the mean: 1 and 0 are even; null where there are none); ``day``, ``hour_of_day`` (of
    ``at``).
    """
    bodies = (
        reported.where("name = 'cluster.summary' AND body IS NOT NULL")
        .where(during(F.col("at"), period))
        .select("cluster_id", "at", F.from_json("body", _SUMMARY).alias("summary"))
    )
    evenness = (*_evenness("leaders"), *_evenness("replicas"))
    of_all = ("leaders_max_mean", "leaders_cv", "replicas_max_mean", "replicas_cv", "day", "hour_of_day")
    return bodies.select("*", "summary.*", *evenness, *parts_of(F.unix_micros("at"))).selectExpr(
        "cluster_id",
        "period.begin AS period_begin",
        "period.end AS period_end",
        "at",
        "inline(brokers)",
        *("topics", "partitions", "offline", *of_all),
    )


def _evenness(what: str) -> tuple[Column, Column]:
    # From whole sums, so that the order in which brokers are listed can't show in the last digit.
    counts = F.transform("summary.brokers", lambda broker: F.coalesce(broker[what], F.lit(0).cast("bigint")))
    zero = F.lit(0).cast("bigint")
    brokers = F.size("summary.brokers")
    total = F.aggregate(counts, zero, lambda sum_, count: sum_ + count)
    squares = F.aggregate(counts, zero, lambda sum_, count: sum_ + count * count)
    return (
        F.when(total > 0, F.array_max(counts) * brokers / total).alias(f"{what}_max_mean"),
        F.when(total > 0, F.sqrt(squares * brokers - total * total) / total).alias(f"{what}_cv"),
    )
