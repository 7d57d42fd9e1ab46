"""When nobody looked at a cluster: what happened then is neither up nor down."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events
from kafka_partition_events.spark.gold.clusters import Blind, Clusters
from kafka_partition_events.spark.gold.intervals import micros
from kafka_partition_events.spark.tables.days import Hours, since
from kafka_partition_events.spark.tables.tables import RECORDS, Tables

LASTING: Final = (
    "topic.created", "topic.deleted", "topic.recreated", "topic.identified", "partitions.added",
    "broker.joined", "broker.left", "broker.changed", "metadata.unavailable", "metadata.recovered",
)  # fmt: skip
"""Events that are rare: whoever tells them takes a look."""

_SPANS: Final = "array<struct<begin: bigint, end: bigint>>"
_BOUNDS: Final = ("begin", "end")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
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


def intervals(told: DataFrame, clusters: Clusters) -> DataFrame:
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
        clusters: With the last news of each.
    """
    told = told.select(
        "cluster_id",
        "name",
        "gap",
        F.unix_micros("prev_at").alias("begin"),
        F.unix_micros("at").alias("end"),
        F.when(F.col("name") == HEARTBEAT, period()).alias("period"),
    )
    suspected = _suspected(told, clusters)
    meets = F.exists("suspected", lambda one: (one["begin"] < F.col("end")) & (one["end"] > F.col("begin")))
    looked = (
        told.where(looks() & (F.col("begin") < F.col("end")))
        .join(F.broadcast(suspected), "cluster_id")
        .where(meets)
        .select("cluster_id", "begin", "end")
        .distinct()
    )
    edges = _edges(suspected.select("cluster_id", F.inline("suspected")), 1, 0)
    return _covered(edges.unionByName(_edges(looked, 0, 1)), clusters)


def period() -> Column:
    """Return how long the period of a summary is, in microseconds."""
    period = F.from_json("body", "period STRUCT<begin: TIMESTAMP, end: TIMESTAMP>").getField("period")
    return F.unix_micros(period["end"]) - F.unix_micros(period["begin"])


def _suspected(told: DataFrame, clusters: Clusters) -> DataFrame:
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
        clusters.known(told.where(name.isin(*LASTING) | F.col("gap") | heartbeat))
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


def _covered(edges: DataFrame, clusters: Clusters) -> DataFrame:
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
        clusters.known(changes.withColumn("end", F.lead("at").over(in_time)))
        .withColumn("end", F.least("end", "until"))
        .where("blind AND at < end")
        .select("cluster_id", F.col("at").alias("begin"), "end")
    )


# -- kept from refresh to refresh ----------------------------------------------------------------------------


def spans_of(rows: DataFrame) -> Sequence[Blind]:
    """Return the times of such rows as `intervals` returns, ascending."""
    found = rows.select("cluster_id", *_BOUNDS).toArrow().to_pylist()
    return sorted(
        Blind(row["cluster_id"], *(_EPOCH + timedelta(microseconds=row[name]) for name in _BOUNDS))
        for row in found
    )


def found_anew(clusters: Clusters, tables: Tables, first: datetime) -> Sequence[Blind]:
    """Return the times in which nobody looked, with those since a moment found anew from the records.

    Args:
        clusters: What is known of them.
        tables: Where the records are.
        first: The moment; those that it lies in are found anew, too.
    """
    begin = first
    while touching := [span.begin for span in clusters.blind if span.begin < begin <= span.end]:
        begin = min(touching)
    told = tables.read(RECORDS, since(begin - timedelta(days=1))).where("defect IS NULL")
    looked = told.selectExpr(
        f"coalesce(event.data.cluster_id, '{events.NO_CLUSTER}') AS cluster_id",
        "name",
        "coalesce(event.data.snapshot.gap, false) AS gap",
        f"{events.PREV_AT} AS prev_at",
        "event.data.snapshot.at",
        "body",
    )
    found = spans_of(intervals(looked, clusters).where(F.col("end") > micros(begin)))
    return sorted([*(span for span in clusters.blind if span.end < begin), *found])


def hours_between(times: Iterable[Blind], others: Iterable[Blind]) -> Sequence[Hours]:
    """Return the hours in which these times and others differ."""
    edges: dict[tuple[str, datetime], int] = defaultdict(int)
    for span in {*times} ^ {*others}:  # those of one side do not overlap each other
        edges[span.cluster, span.begin] += 1
        edges[span.cluster, span.end] -= 1
    found, covered, since_ = [], 0, datetime.max.replace(tzinfo=UTC)
    for (_, moment), change in sorted(edges.items()):
        if covered == 1:  # one side says so, and the other one does not
            found.append(Hours.touched(since_, moment))
        covered, since_ = covered + change, moment
    return found
