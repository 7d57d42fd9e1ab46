"""How many partitions a topic had, and when: a slowly changing dimension of type 2."""

from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.events import LABELS

NAMES: Final = (
    "topic.deleted", "topic.created", "topic.recreated", "partitions.added", "topic.identified",
)  # fmt: skip
"""The events that are about counts, in the order in which those of one poll come about."""

_TOPIC: Final = ("cluster_id", "topic")


def spells(reported: DataFrame) -> DataFrame:
    """Return when a topic had how many, and whether change control had asked for it.

    Columns: ``cluster_id, topic, topic_id, valid_from, valid_to, count``, and ``planned, change_id``, which
    are null if no observer knew.

    A count holds from when it was first seen: the upper bound of its event. As in Kafka, a topic has never
    fewer than before until it is deleted or created again: a report of fewer is of an older state.

    Args:
        reported: The states of `NAMES` there ever were (see `kafka_partition_events.spark.refresh.standing`),
            doubles included; or those from some time on, beside what `standing` returned of before.
    """
    gone, recreated = F.col("name") == "topic.deleted", F.col("name") == "topic.recreated"
    in_time = Window.partitionBy(*_TOPIC).orderBy("at", "_place", "_count", "topic_id", "name")
    before = in_time.rowsBetween(Window.unboundedPreceding, -1)
    so_far = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    other_id = F.col("topic_id") != F.last("topic_id", ignorenulls=True).over(before)
    begins = gone | recreated | F.lag(gone, 1, True).over(in_time) | F.coalesce(other_id, F.lit(False))
    place = F.array_position(F.array(*map(F.lit, NAMES)), F.col("name"))
    # Observers that start report what is there now, each time under the id of the topic's creation.
    identity = (*_TOPIC, "name", "identity", F.when(F.col("initial"), F.col("at")).alias("_seen"))
    in_life = Window.partitionBy(*_TOPIC, "_life").orderBy("at", "_place", "_count", "topic_id", "name")
    runs = (
        reported.where(F.col("name").isin(*NAMES) & F.col("topic").isNotNull())
        .groupBy(*identity)
        .agg(
            F.min("at").alias("at"),
            F.max("topic_id").alias("topic_id"),
            F.max("count_after").alias("_count"),
            *(F.max(name).alias(name) for name in LABELS),
        )
        .where(F.col("_count").isNotNull() | gone)
        .withColumn("_place", place)
        .withColumn("_life", F.sum(begins.cast("int")).over(so_far))
        .withColumn("_most", F.max("_count").over(in_life))
        .groupBy(*_TOPIC, "_life", "_most")
        .agg(
            F.max("topic_id").alias("topic_id"),
            F.min("at").alias("valid_from"),
            F.max(gone).alias("_gone"),
            *(F.max(name).alias(name) for name in LABELS),
        )
    )
    by_run = Window.partitionBy(*_TOPIC).orderBy("_life", "_most")
    return (
        runs.withColumn("valid_to", F.lead("valid_from").over(by_run))
        .where("NOT _gone AND (valid_to IS NULL OR valid_from < valid_to)")
        .select(*_TOPIC, "topic_id", "valid_from", "valid_to", F.col("_most").alias("count"), *LABELS)
    )


def standing(history: DataFrame, begin: datetime) -> DataFrame:
    """Return states that stand for all that was reported before a time, of what `spells` returned of it.

    They are one or two of each topic.
    """
    last = "max_by(struct(topic_id, valid_from, valid_to, count, planned, change_id), valid_from) AS last"
    known = history.where(F.col("valid_from") < F.lit(begin)).groupBy(*_TOPIC).agg(F.expr(last))
    there = (
        "struct('topic.created' AS name, last.valid_from AS at, last.count AS count_after, "
        "last.topic_id AS topic_id, last.planned AS planned, last.change_id AS change_id)"
    )
    gone = (
        "struct('topic.deleted' AS name, last.valid_to AS at, INT(NULL) AS count_after, "
        "STRING(NULL) AS topic_id, BOOLEAN(NULL) AS planned, STRING(NULL) AS change_id)"
    )
    both = f"inline(IF(_ended, array({there}, {gone}), array({there})))"
    return known.withColumn("_ended", F.col("last.valid_to") < F.lit(begin)).selectExpr(
        *_TOPIC, both, "true AS initial", "BIGINT(NULL) AS identity"
    )
