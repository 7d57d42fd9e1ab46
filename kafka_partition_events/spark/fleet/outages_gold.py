"""Outages with what else is known of them: the broker that left, what is uncertain."""

from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.fleet.intervals import day_of, long, touches_blind, with_blind
from kafka_partition_events.spark.outages import OUTAGE

OPEN: Final = "open"
"""``censored``: it had not ended by the last news."""
BLIND: Final = "blind"
"""``censored``: nobody looked for a part of the time between its outer bounds."""
AROUND: Final = timedelta(minutes=1)
"""How long before or after an outage's begin its broker may have left, to be its cause."""

DECORATED: Final = (*OUTAGE, "cause_broker", "censored", "day")
"""The columns of the table."""


def partition_outages(found: DataFrame, told: DataFrame, unseen: DataFrame) -> DataFrame:
    """Return the rows of ``gold/partition_outages``.

    Columns: those of `kafka_partition_events.spark.outages.OUTAGE`; ``cause_broker``: the leader before, if
    that broker left within the bounds of the begin or a minute around them; ``censored``: null, `OPEN` or
    `BLIND`; ``day`` (of ``began_by``).

    Args:
        found: Outages.
        told: States; those of ``broker.left`` around the begins are needed.
        unseen: When nobody looked, as `kafka_partition_events.spark.fleet.blind.by_cluster` returns it.
    """
    begin = F.coalesce(F.unix_micros("began_after"), F.unix_micros("began_by"))
    uncertain = touches_blind(begin, F.unix_micros("ended_by"))
    return with_blind(_caused(found, told), unseen).select(
        *OUTAGE,
        "cause_broker",
        F.when(F.col("ended_by").isNull(), OPEN).when(uncertain, BLIND).alias("censored"),
        day_of(F.unix_micros("began_by")).alias("day"),
    )


def _caused(outages: DataFrame, told: DataFrame) -> DataFrame:
    """Return outages with ``cause_broker``."""
    around = AROUND // timedelta(microseconds=1)
    by = F.min("at").over(Window.partitionBy("cluster_id", "identity"))
    left = (
        told.where("name = 'broker.left' AND broker IS NOT NULL")
        .withColumn("by", by)
        .groupBy("cluster_id", "identity", F.col("broker").alias("leader_before"), "by")
        .agg(F.max(F.when(F.col("prev_at") < F.col("by"), F.col("prev_at"))).alias("after"))
        .groupBy("cluster_id", "leader_before")
        .agg(
            F.collect_set(
                F.struct(
                    F.unix_micros(F.coalesce("after", "by")).alias("after"), F.unix_micros("by").alias("by")
                )
            ).alias("_left")
        )
    )
    begin = F.coalesce(F.unix_micros("began_after"), F.unix_micros("began_by")) - long(around)
    end = F.unix_micros("began_by") + long(around)
    meets = F.exists("_left", lambda one: (one["by"] >= begin) & (one["after"] <= end))
    return (
        outages.join(F.broadcast(left), ["cluster_id", "leader_before"], "left")
        .withColumn("cause_broker", F.when(meets, F.col("leader_before")))
        .drop("_left")
    )
