"""Outages with what else is known of them: the broker that left, what is uncertain."""

from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.gold.intervals import day_of
from kafka_partition_events.spark.outages import OUTAGE

OPEN: Final = "open"
"""``censored``: it had not ended by the last news."""
BLIND: Final = "blind"
"""``censored``: nobody looked for a part of the time between its outer bounds."""
AROUND: Final = timedelta(minutes=1)
"""How long before or after an outage's begin its broker may have left, to be its cause."""

DECORATED: Final = (*OUTAGE, "cause_broker", "censored", "day")
"""The columns of the table."""


def partition_outages(found: DataFrame, told: DataFrame, clusters: Clusters, *keep: str) -> DataFrame:
    """Return the rows of ``gold/partition_outages``.

    Columns: those of `kafka_partition_events.spark.outages.OUTAGE`; ``cause_broker``: the leader before, if
    that broker left within the bounds of the begin or a minute around them; ``censored``: null, `OPEN` or
    `BLIND`; ``day`` (of ``began_by``).

    Args:
        found: Outages.
        told: States; those of ``broker.left`` around the begins are needed.
        clusters: When nobody looked.
        *keep: Columns of the outages that come last, unchanged.
    """
    begin, around = "coalesce(began_after, began_by)", f"INTERVAL {AROUND.seconds} SECONDS"
    meets = f"exists(_left, one -> one.by >= {begin} - {around} AND one.after <= began_by + {around})"
    uncertain = clusters.touches_blind(F.expr(f"unix_micros({begin})"), F.unix_micros("ended_by"))
    return found.join(F.broadcast(_left(told)), ["cluster_id", "leader_before"], "left").select(
        *OUTAGE,
        F.expr(f"IF({meets}, leader_before, NULL) AS cause_broker"),
        F.when(F.col("ended_by").isNull(), OPEN).when(uncertain, BLIND).alias("censored"),
        day_of(F.unix_micros("began_by")).alias("day"),
        *keep,
    )


def _left(told: DataFrame) -> DataFrame:
    """Return ``cluster_id, leader_before``, a broker, and the bounds of when it ``_left``."""
    # It lay after the last of the looks before it that anybody tells of.
    after = "coalesce(array_max(filter(looks, look -> look < by)), by)"
    return (
        told.where("name = 'broker.left' AND broker IS NOT NULL")
        .groupBy("cluster_id", "identity", F.col("broker").alias("leader_before"))
        .agg(F.min("at").alias("by"), F.collect_set("prev_at").alias("looks"))
        .groupBy("cluster_id", "leader_before")
        .agg(F.expr(f"collect_set(struct({after} AS after, by)) AS _left"))
    )
