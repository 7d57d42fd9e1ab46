"""The log's outages, with what else is known of them: leaders, the broker that left, what is uncertain."""

from datetime import timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.fleet.intervals import day_of, long, touches_blind, with_blind
from kafka_partition_events.spark.fleet.leader_churn import leader
from kafka_partition_events.spark.outages import KEY

OPEN: Final = "open"
"""``censored``: it had not ended by the last news."""
BLIND: Final = "blind"
"""``censored``: nobody looked for a part of the time between its outer bounds."""
AROUND: Final = timedelta(minutes=1)
"""How long before or after an outage's begin its broker may have left, to be its cause."""

NAMES: Final = ("partition.offline", "partition.online", "broker.left")
"""The events that are needed, besides those that `kafka_partition_events.spark.fleet.blind` needs."""


def partition_outages(latest: DataFrame, events: DataFrame, unseen: DataFrame) -> DataFrame:
    """Return the rows of ``gold/partition_outages``.

    Columns: ``cluster_id, topic, partition, began_after, began_by, ended_after, ended_by, ended_with``;
    ``leader_before, leader_after`` (null where no event tells); ``cause_broker``: the leader before, if that
    broker left within the bounds of the begin or a minute around them; ``censored``: null, `OPEN` or
    `BLIND`; ``day`` (of ``began_by``).

    Args:
        latest: What `kafka_partition_events.spark.fleet.outage_log.latest` returned, or a part of it.
        events: One row per event: all that tell of a begin or an end of these outages, and ``broker.left``.
        unseen: When nobody looked, as `kafka_partition_events.spark.fleet.blind.by_cluster` returns it.
    """
    told = events.where(F.col("name").isin("partition.offline", "partition.online")).select(
        "cluster_id",
        "topic",
        F.expr("try_cast(partitions AS INT)").alias("partition"),
        "name",
        "at",
        leader("before").alias("before"),
        leader("after").alias("after"),
    )
    began = told.where("name = 'partition.offline'").select(*KEY, "at", F.col("before").alias("leader"))
    ended = told.where("name = 'partition.online'").select(*KEY, "at", F.col("after").alias("leader"))
    # An end that no partition.online told has no leader of its own: an older one must not lend it his.
    end = F.when(F.col("ended_with") == "partition.online", F.col("ended_by"))
    led = _told_by(latest, began, F.col("began_by"), F.col("began_after"), "leader_before")
    led = _told_by(led, ended, end, F.greatest("began_by", "ended_after"), "leader_after")
    caused = _caused(led, events)
    begin = F.coalesce(F.unix_micros("began_after"), F.unix_micros("began_by"))
    uncertain = touches_blind(begin, F.unix_micros("ended_by"))
    return with_blind(caused, unseen).select(
        *latest.columns,
        "leader_before",
        "leader_after",
        "cause_broker",
        F.when(F.col("ended_by").isNull(), OPEN).when(uncertain, BLIND).alias("censored"),
        day_of(F.unix_micros("began_by")).alias("day"),
    )


def _told_by(outages: DataFrame, told: DataFrame, by: Column, after: Column, name: str) -> DataFrame:
    """Return outages with the leader that the last event up to a bound tells, if it lies within the bounds.

    Not only an event at the very bound: one that came too late for the log may have moved it since.
    """
    asked = outages.withColumns({"_at": by, "_after": after, "_asks": F.lit(1)})
    answers = told.select(
        *KEY, F.col("at").alias("_at"), F.lit(0).alias("_asks"), F.struct("at", "leader").alias("_told")
    )
    in_time = (
        Window.partitionBy(*KEY)
        .orderBy("_at", "_asks", "_told")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    known = F.col("_at").isNotNull() & F.coalesce(F.col("_told.at") > F.col("_after"), F.lit(True))
    return (
        asked.unionByName(answers, allowMissingColumns=True)
        .withColumn("_told", F.last("_told", ignorenulls=True).over(in_time))
        .where("_asks = 1")
        .withColumn(name, F.when(known, F.col("_told.leader")))
        .drop("_at", "_after", "_asks", "_told")
    )


def _caused(outages: DataFrame, events: DataFrame) -> DataFrame:
    """Return outages with ``cause_broker``."""
    around = AROUND // timedelta(microseconds=1)
    left = (
        events.where("name = 'broker.left' AND broker IS NOT NULL")
        .groupBy("cluster_id", F.col("broker").alias("leader_before"))
        .agg(
            F.collect_set(
                F.struct(
                    F.coalesce(F.unix_micros("prev_at"), F.unix_micros("at")).alias("after"),
                    F.unix_micros("at").alias("by"),
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
