"""How many partitions a topic had, and when: a slowly changing dimension of type 2."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.events import LABELS
from kafka_partition_events.spark.fleet.days import Days
from kafka_partition_events.spark.fleet.inputs import Inputs
from kafka_partition_events.spark.fleet.intervals import day_of

NAMES: Final = (
    "topic.deleted", "topic.created", "topic.recreated", "partitions.added", "topic.identified",
)  # fmt: skip
"""The events that tell of counts, in the order in which those of one look come about."""

_TOPIC: Final = ("cluster_id", "topic")


def partition_count_history(inputs: Inputs, days: Days) -> DataFrame:
    """Return the spells that began on these days.

    Columns: those of `spells` (a null ``valid_to``: still so) and ``day`` (of ``valid_from``). A row's
    ``valid_to`` follows from the next change, whenever that comes: with any change of a topic, the row of the
    change before it changes too.

    Args:
        inputs: With all counts there ever were.
        days: The days wanted.
    """
    day = day_of(F.unix_micros("valid_from"))
    return inputs.counts.withColumn("day", day).where(wanted(days))


def wanted(days: Days) -> Column:
    """Return whether ``day`` is one of these."""
    return F.col("day").between(F.lit(days.first), F.lit(days.last))


def spells(events: DataFrame) -> DataFrame:
    """Return when a topic had how many, and whether change control had asked for it.

    Columns: ``cluster_id, topic, topic_id, valid_from, valid_to, count``, and ``planned, change_id``, which
    are null if nobody knew.

    A count holds from when it was first seen: the upper bound of its event. An observer that was away while
    a topic grew, and has no memory, tells of no growth; the count is then too low until the next one.

    Args:
        events: All events of `NAMES` there ever were, one row per event.
    """
    in_time = Window.partitionBy(*_TOPIC).orderBy("at", "_place", "_count", "topic_id", "name")
    before = in_time.rowsBetween(Window.unboundedPreceding, -1)
    so_far = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    gone = F.col("name") == "topic.deleted"
    other_id = F.col("topic_id") != F.last("topic_id", ignorenulls=True).over(before)
    changed = (
        F.lag(gone, 1, True).over(in_time)
        | (F.col("name") == "topic.recreated")
        | (F.col("_count") != F.lag("_count").over(in_time))
        | F.coalesce(other_id, F.lit(False))
    )
    told = (
        events.where(F.col("name").isin(*NAMES))
        .select(
            *_TOPIC,
            "topic_id",
            "name",
            "at",
            F.array_position(F.array(*map(F.lit, NAMES)), F.col("name")).alias("_place"),
            F.expr("try_cast(get_json_object(after, '$.count') AS INT)").alias("_count"),
            *LABELS,
        )
        .where(F.col("_count").isNotNull() | gone)
    )
    runs = (
        told.withColumn("_gone", gone)
        .withColumn("_new", F.when(gone, ~F.lag(gone, 1, True).over(in_time)).otherwise(changed))
        .withColumn("_run", F.sum(F.col("_new").cast("int")).over(so_far))
        .groupBy(*_TOPIC, "_run")
        .agg(
            F.max("topic_id").alias("topic_id"),
            F.min("at").alias("valid_from"),
            F.max("_count").alias("count"),
            F.max("_gone").alias("_gone"),
            *(F.max(name).alias(name) for name in LABELS),
        )
    )
    by_run = Window.partitionBy(*_TOPIC).orderBy("_run")
    return (
        runs.withColumn("valid_to", F.lead("valid_from").over(by_run))
        .where("NOT _gone AND (valid_to IS NULL OR valid_from < valid_to)")
        .select(*_TOPIC, "topic_id", "valid_from", "valid_to", "count", *LABELS)
    )
