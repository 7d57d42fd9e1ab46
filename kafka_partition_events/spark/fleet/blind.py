"""When nobody looked at a cluster: what happened then is neither up nor down."""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.fleet.intervals import BLIND, with_until

LASTING: Final = (
    "topic.created", "topic.deleted", "topic.recreated", "topic.identified", "partitions.added",
    "broker.joined", "broker.left", "broker.changed", "metadata.unavailable", "metadata.recovered",
)  # fmt: skip
"""Events that are rare: whoever tells them takes a look."""

_SPANS: Final = "array<struct<begin: bigint, end: bigint>>"
_NO_LOOK: Final = (
    "metadata.unavailable", "metadata.recovered", "metadata.stale", "metadata.rejected", "observer.resync",
    "cap.reached", "cap.lifted", "broker.suspected", "broker.cleared", "records.rescued",
    "cluster.summary", "producer.counters",
)  # fmt: skip
"""Events whose bounds are not two good looks in a row."""


PERIODS: Final = 2
"""So many periods of `HEARTBEAT` may pass until the next one: then nobody looked."""
HEARTBEAT: Final = "cluster.summary"
"""What an observer tells each few minutes as long as it looks."""


def looks() -> Column:
    """Return whether an event tells of a look at the cluster, which found it as it was after ``prev_at``."""
    return ~F.col("gap") & ~F.col("name").isin(*_NO_LOOK)


def no_times(spark: SparkSession) -> DataFrame:
    """Return what `by_cluster` returns where everybody looked all the time."""
    return by_cluster(spark.createDataFrame([], "cluster_id STRING, begin BIGINT, end BIGINT"))


def by_cluster(intervals: DataFrame) -> DataFrame:
    """Return ``cluster_id`` and an array of its `intervals`, structs of ``begin`` and ``end``, ascending."""
    spans = F.array_sort(F.collect_set(F.struct("begin", "end")))
    return intervals.groupBy("cluster_id").agg(spans.alias(BLIND))


def intervals(told: DataFrame, until: DataFrame) -> DataFrame:
    """Return ``cluster_id, begin, end`` (microseconds) of the times in which nobody looked, without overlaps.

    Nobody looked

    - from the last good look before ``metadata.recovered`` to it;
    - from ``metadata.unavailable``, if that is not followed by a recovery (the observer died), to the next
      event of the cluster that takes a look and is among `LASTING`, or until now;
    - between the bounds of an event with a gap;
    - between two ``cluster.summary`` that are more than `PERIODS` of their periods apart, from the one or the
      last look after it: their observers died, or nobody could write down what they saw;

    except where another observer did: the bounds of an event without a gap are two looks in a row.

    Args:
        told: ``cluster_id, name, gap, prev_at, at, body``; events, doubles or not.
        until: As `kafka_partition_events.spark.fleet.inputs.Inputs` has it.
    """
    told = told.select(
        "cluster_id",
        "name",
        "gap",
        F.unix_micros("prev_at").alias("begin"),
        F.unix_micros("at").alias("end"),
        F.when(F.col("name") == HEARTBEAT, period()).alias("period"),
    )
    suspected = _suspected(told, until)
    meets = F.exists("suspected", lambda one: (one["begin"] < F.col("end")) & (one["end"] > F.col("begin")))
    looked = (
        told.where(looks() & (F.col("begin") < F.col("end")))
        .join(F.broadcast(suspected), "cluster_id")
        .where(meets)
        .select("cluster_id", "begin", "end")
        .distinct()
    )
    edges = _edges(suspected.select("cluster_id", F.inline("suspected")), 1, 0)
    return _covered(edges.unionByName(_edges(looked, 0, 1)), until)


def period() -> Column:
    """Return how long the period of a summary is, in microseconds."""
    period = F.from_json("body", "period STRUCT<begin: TIMESTAMP, end: TIMESTAMP>").getField("period")
    return F.unix_micros(period["end"]) - F.unix_micros(period["begin"])


def _suspected(told: DataFrame, until: DataFrame) -> DataFrame:
    """Return ``cluster_id`` and an array of the times in which some observer did not look."""
    name, span = F.col("name"), F.struct("begin", "end")
    lasts = F.col("begin") < F.col("end")
    recovery, stop = name == "metadata.recovered", name == "metadata.unavailable"
    heartbeat = name == HEARTBEAT
    before = F.lag("end").over(Window.partitionBy("cluster_id").orderBy("end"))
    beats = told.where(heartbeat & F.col("period").isNotNull()).withColumn("before", before)
    silent = F.col("end") - F.col("before") > PERIODS * F.col("period")
    silences = beats.where(silent).select(
        "cluster_id", F.struct(F.col("before").alias("begin"), "end").alias("silence")
    )
    told = told.join(
        F.broadcast(silences.groupBy("cluster_id").agg(F.collect_set("silence").alias("silences"))),
        "cluster_id",
        "left",
    )
    found = (
        with_until(told.where(name.isin(*LASTING) | F.col("gap") | heartbeat), until)
        .groupBy("cluster_id", "until")
        .agg(
            F.collect_set(F.when(recovery & lasts, span)).alias("recovered"),
            F.collect_set(F.when(F.col("gap") & lasts, span)).alias("gaps"),
            F.collect_set(
                F.when(stop, F.struct(F.coalesce("begin", "end").alias("begin"), F.col("end").alias("at")))
            ).alias("stops"),
            F.collect_set(F.when(name.isin(*LASTING) & ~stop, F.col("end"))).alias("looks"),
            F.first("silences", ignorenulls=True).alias("silences"),
        )
    )
    lost = F.filter(
        "stops",
        lambda one: (
            ~F.exists("recovered", lambda other: (other["begin"] <= one["at"]) & (one["at"] <= other["end"]))
        ),
    )
    ended = F.transform(
        lost,
        lambda one: F.struct(
            one["begin"].alias("begin"),
            F.coalesce(F.array_min(F.filter("looks", lambda look: look > one["at"])), F.col("until")).alias(
                "end"
            ),
        ),
    )
    lasting = F.filter(ended, lambda one: one["begin"] < one["end"])
    return found.select(
        "cluster_id",
        F.array_distinct(
            F.concat("recovered", "gaps", lasting, F.coalesce("silences", F.array().cast(_SPANS)))
        ).alias("suspected"),
    ).where(F.size("suspected") > 0)


def _edges(intervals: DataFrame, suspected: int, looked: int) -> DataFrame:
    """Return where intervals begin and end: ``cluster_id, at``, and how the two counts change there."""
    ends = F.array(F.struct(F.col("begin").alias("at"), F.lit(1).alias("sign")),
                   F.struct(F.col("end").alias("at"), F.lit(-1).alias("sign")))  # fmt: skip
    return intervals.select("cluster_id", F.inline(ends)).select(
        "cluster_id",
        "at",
        (F.col("sign") * suspected).alias("suspected"),
        (F.col("sign") * looked).alias("looked"),
    )


def _covered(edges: DataFrame, until: DataFrame) -> DataFrame:
    """Return the times in which some interval of the first kind is open, and none of the second."""
    in_time = Window.partitionBy("cluster_id").orderBy("at")
    blind = (F.sum("suspected").over(in_time) > 0) & (F.sum("looked").over(in_time) == 0)
    changes = (
        edges.groupBy("cluster_id", "at")
        .agg(F.sum("suspected").alias("suspected"), F.sum("looked").alias("looked"))
        .withColumn("blind", blind)
        .withColumn("was_blind", F.lag("blind", 1, False).over(in_time))
        .where("blind != was_blind")
    )
    return (
        with_until(changes.withColumn("end", F.lead("at").over(in_time)), until)
        .withColumn("end", F.least("end", "until"))
        .where("blind AND at < end")
        .select("cluster_id", F.col("at").alias("begin"), "end")
    )
