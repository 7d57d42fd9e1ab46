"""Events -> outages of partitions and absences of brokers, each with the bounds of its begin and its end.

A transition is known between two looks only: after ``prev_at`` and not after ``at``. So an outage began in
``(began_after, began_by]`` and ended in ``(ended_after, ended_by]``; all four are kept. ``began_after`` is
null when nobody saw it online before; ``ended_by`` is null when nobody saw it end.

Several observers, a restarted one and doubles all only tell the same state again. That makes no new outage,
it narrows the bounds.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.events import distinct

_PARTITION: Final = "CAST(partitions AS INT) AS partition"


def partition_outages(events: DataFrame) -> DataFrame:
    """Return ``topic, partition`` and the columns of `spells`; ``ended_with`` tells what ended it.

    A topic that is deleted or re-created ends its partitions' outages; so does an observer that starts,
    sees the topic and does not find the partition offline.

    Args:
        events: Good events, doubles included (see `kafka_partition_events.spark.events.good`).
    """
    once = distinct(events)
    own = once.where(F.col("name").isin("partition.offline", "partition.online")).select(
        "topic",
        F.expr(_PARTITION),
        (F.col("name") == "partition.offline").alias("down"),
        "prev_at",
        "at",
        "name",
    )
    known = own.select("topic", "partition").distinct()
    ended = once.where(F.col("name").isin("topic.deleted", "topic.recreated"))
    # Whoever starts tells "the topic is there" and "this partition of it is offline" at one moment. That has
    # the id of the original event, so it is a double, but not the same sighting.
    starts = events.where("initial AND name = 'topic.created'").join(known, "topic")
    down_at_start = events.where("initial AND name = 'partition.offline'").select(
        "topic", F.expr(_PARTITION), "at"
    )
    up_at_start = starts.join(down_at_start, ["topic", "partition", "at"], "left_anti")
    of_topic = ended.join(known, "topic").unionByName(up_at_start)
    told = own.unionByName(
        of_topic.select("topic", "partition", F.lit(False).alias("down"), "prev_at", "at", "name")
    )
    return spells(told, "topic", "partition")


def broker_absences(events: DataFrame) -> DataFrame:
    """Return ``broker`` and the columns of `spells`: when a broker was not listed.

    Args:
        events: Good events, doubles included.
    """
    told = (
        distinct(events)
        .where(F.col("name").isin("broker.left", "broker.joined"))
        .select("broker", (F.col("name") == "broker.left").alias("down"), "prev_at", "at", "name")
    )
    return spells(told, "broker")


def spells(transitions: DataFrame, *key: str) -> DataFrame:
    """Return when each key was down.

    Columns: the key, ``began_after, began_by, ended_after, ended_by, ended_with`` (the name of the event
    that told of the end).

    Args:
        transitions: The key, ``down`` (boolean), ``prev_at``, ``at``, ``name``.
        *key: The columns that tell whose state it is.
    """
    in_time = Window.partitionBy(*key).orderBy("at", "down")
    run = Window.partitionBy(*key, "_run")
    runs = (
        transitions.withColumn("_last", F.lag("down").over(in_time))
        .withColumn("_new", F.col("_last").isNull() | (F.col("_last") != F.col("down")))
        .withColumn("_run", F.sum(F.col("_new").cast("int")).over(in_time))
        .withColumn("_first_at", F.min("at").over(run))
        .groupBy(*key, "_run", "down", "_first_at")
        .agg(
            F.max("at").alias("_last_at"),
            # Whoever looked before the first sighting and still found it otherwise narrows the bound.
            F.max(F.when(F.col("prev_at") < F.col("_first_at"), F.col("prev_at"))).alias("_after"),
            F.min_by("name", "at").alias("_name"),
        )
    )
    by_run = Window.partitionBy(*key).orderBy("_run")
    otherwise = F.lag("_last_at").over(by_run)  # the last sighting of the opposite
    bounded = runs.withColumn(
        "_after",
        F.greatest("_after", F.when(otherwise < F.col("_first_at"), otherwise)),
    )
    return (
        bounded.withColumn("ended_after", F.lead("_after").over(by_run))
        .withColumn("ended_by", F.lead("_first_at").over(by_run))
        .withColumn("ended_with", F.lead("_name").over(by_run))
        .where("down")
        .select(
            *key,
            F.col("_after").alias("began_after"),
            F.col("_first_at").alias("began_by"),
            "ended_after",
            "ended_by",
            "ended_with",
        )
    )


def windows(outages: DataFrame) -> DataFrame:
    """Return the times in which at least one partition of a topic may have been offline.

    Columns: ``topic, start, end``, without overlaps, bounds at their widest; an outage that nobody saw begin
    starts when it was first seen, and one that nobody saw end has a null ``end``.
    """
    never = F.to_timestamp(F.lit("9999-12-31"))
    spans = outages.select(
        "topic",
        F.coalesce("began_after", "began_by").alias("start"),
        F.coalesce("ended_by", never).alias("end"),
    )
    earlier = Window.partitionBy("topic").orderBy("start").rowsBetween(Window.unboundedPreceding, -1)
    in_order = Window.partitionBy("topic").orderBy("start", "end")
    return (
        spans.withColumn("_reach", F.max("end").over(earlier))
        .withColumn("_new", F.col("_reach").isNull() | (F.col("_reach") < F.col("start")))
        .withColumn("_island", F.sum(F.col("_new").cast("int")).over(in_order))
        .groupBy("topic", "_island")
        .agg(F.min("start").alias("start"), F.max("end").alias("end"))
        .select("topic", "start", F.when(F.col("end") != never, F.col("end")).alias("end"))
    )
