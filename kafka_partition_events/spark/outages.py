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

KEY: Final = ("cluster_id", "topic", "partition")
"""The columns that name a partition. Several clusters may write to one topic of events."""

_TOPIC: Final = ("cluster_id", "topic")
_TELLING: Final = ("partition.offline", "partition.online", "topic.deleted", "topic.recreated")
_PARTITION: Final = "try_cast(partitions AS INT) AS partition"


def partition_outages(events: DataFrame) -> DataFrame:
    """Return the columns of `KEY` and those of `spells`; ``ended_with`` tells what ended it.

    A topic that is deleted or re-created ends its partitions' outages; so does an observer that starts,
    sees the topic and does not find the partition offline.

    Args:
        events: Good events, doubles included (see `kafka_partition_events.spark.events.good`).
    """
    told = _in_one_place(events.where(F.col("name").isin(*_TELLING)))
    own = (
        told.where(F.col("name").isin("partition.offline", "partition.online"))
        .select(
            *_TOPIC,
            F.expr(_PARTITION),
            (F.col("name") == "partition.offline").alias("down"),
            "prev_at",
            "at",
            "name",
        )
        .where("partition >= 0")
    )
    known = own.select(*KEY).distinct()
    ended = told.where(F.col("name").isin("topic.deleted", "topic.recreated"))
    # Whoever starts tells "the topic is there" and "this partition of it is offline" at one moment. That has
    # the id of the original event, so it is a double, but not the same sighting.
    starts = events.where("initial AND name = 'topic.created'").join(known, list(_TOPIC))
    down_at_start = events.where("initial AND name = 'partition.offline'").select(
        *_TOPIC, F.expr(_PARTITION), "at"
    )
    up_at_start = starts.join(down_at_start, [*KEY, "at"], "left_anti")
    of_topic = ended.join(known, list(_TOPIC)).unionByName(up_at_start)
    up = of_topic.select(*KEY, F.lit(False).alias("down"), "prev_at", "at", "name")
    return spells(own.unionByName(up), *KEY)


def broker_absences(events: DataFrame) -> DataFrame:
    """Return ``cluster_id, broker`` and the columns of `spells`: when a broker was not listed.

    Args:
        events: Good events, doubles included.
    """
    told = _in_one_place(events.where(F.col("name").isin("broker.left", "broker.joined")))
    down = (F.col("name") == "broker.left").alias("down")
    return spells(told.select("cluster_id", "broker", down, "prev_at", "at", "name"), "cluster_id", "broker")


def _in_one_place(events: DataFrame) -> DataFrame:
    """Return all sightings, those of one id at the earliest ``at``; each keeps its own ``prev_at``.

    Where a sighting's ``prev_at`` doesn't lie before its spell, it says nothing about when that began. Which
    of them do is known only once all spells are.
    """
    return events.withColumn("at", F.min("at").over(Window.partitionBy("source", "id")))


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
            F.min(F.struct("at", "name")).getField("name").alias("_name"),  # the same one every time
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

    Columns: ``cluster_id, topic, start, end``, without overlaps, bounds at their widest; an outage that
    nobody saw begin starts when it was first seen, and one that nobody saw end has a null ``end``.
    """
    never = F.to_timestamp(F.lit("9999-12-31"))
    spans = outages.select(
        *_TOPIC,
        F.coalesce("began_after", "began_by").alias("start"),
        F.coalesce("ended_by", never).alias("end"),
    )
    earlier = Window.partitionBy(*_TOPIC).orderBy("start").rowsBetween(Window.unboundedPreceding, -1)
    in_order = Window.partitionBy(*_TOPIC).orderBy("start", "end")
    return (
        spans.withColumn("_reach", F.max("end").over(earlier))
        .withColumn("_new", F.col("_reach").isNull() | (F.col("_reach") < F.col("start")))
        .withColumn("_island", F.sum(F.col("_new").cast("int")).over(in_order))
        .groupBy(*_TOPIC, "_island")
        .agg(F.min("start").alias("start"), F.max("end").alias("end"))
        .select(*_TOPIC, "start", F.when(F.col("end") != never, F.col("end")).alias("end"))
    )
