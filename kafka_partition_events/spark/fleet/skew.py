"""How evenly leaders and replicas lie on brokers, from the summaries that observers publish."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.fleet.days import Period
from kafka_partition_events.spark.fleet.inputs import Inputs
from kafka_partition_events.spark.fleet.intervals import during, parts_of

_BODY: Final = """
    period STRUCT<begin: TIMESTAMP, end: TIMESTAMP>,
    brokers ARRAY<STRUCT<
        broker: INT, rack: STRING, leaders: BIGINT, replicas: BIGINT, offline_replicas: BIGINT
    >>,
    topics BIGINT, partitions BIGINT, offline BIGINT
"""


def skew(inputs: Inputs, period: Period) -> DataFrame:
    """Return what each broker held in each period that an observer summed up, and how even that was.

    Columns: ``cluster_id, period_begin, period_end, at`` (the look), ``broker, rack, leaders, replicas,
    offline_replicas``; of the whole cluster, the same in each of its brokers' rows: ``topics, partitions,
    offline, leaders_max_mean, leaders_cv, replicas_max_mean, replicas_cv`` (the largest by the mean, and the
    standard deviation by the mean: 1 and 0 are even; null where there are none); ``day``, ``hour_of_day`` (of
    ``at``).
    """
    told = (
        inputs.events.where("name = 'cluster.summary' AND body IS NOT NULL")
        .where(during(F.col("at"), period))
        .select("cluster_id", "at", F.from_json("body", _BODY).alias("told"))
    )
    cluster = told.select(
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
