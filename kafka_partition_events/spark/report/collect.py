"""Gold tables -> what the report says.

Spark adds up and picks out: however large the fleet, only what is drawn comes to the driver, some thousand
rows, and an hour's row for each hour of the period.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.events import NO_CLUSTER
from kafka_partition_events.spark.report.heatmap import MAX_HOURS, MAX_TOPICS
from kafka_partition_events.spark.report.model import (
    HOUR,
    FleetData,
    Outage,
    RatedHour,
    RatedTopic,
    Span,
    TopicChange,
)
from kafka_partition_events.spark.report.outages import MAX_LANES, MAX_OUTAGES
from kafka_partition_events.spark.tables.days import Days
from kafka_partition_events.spark.tables.state_table import StateTable
from kafka_partition_events.spark.tables.tables import CLUSTER_OUTAGES, COUNTS, OUTAGES, Tables

MAX_CLUSTERS: Final = 20
"""Clusters that are named where one is to be chosen."""

WHOLE: Final = "(whole cluster)"
"""What stands for a topic where none of them could be seen. No topic has such a name, and it comes first."""

_RATED: Final = {
    "partition_s": "partition_seconds",
    "offline_lo_s": "offline_seconds_lo",
    "offline_hi_s": "offline_seconds_hi",
    "blind_s": "blind_seconds",
    "incidents": "incidents",
}
_BOUNDS: Final = ("began_after", "began_by", "ended_after", "ended_by")


def collect(tables: Tables, days: Days, *, cluster: str | None, target: float) -> FleetData:
    """Compute what the gold tables of ``kpe spark fleet`` say of days and of one cluster.

    Raises:
        SparkJobError: there are no tables, none of this cluster, or several clusters and none was named.
    """
    rated = tables.read("gold/availability_hourly", days)
    chosen = _cluster(rated, cluster, days)
    of = F.col("cluster_id") == chosen
    until = min(StateTable(tables).read().mark.until.get(chosen, days.end), days.end)
    both = tables.read(OUTAGES).unionByName(_of_clusters(tables), allowMissingColumns=True)
    found = both.where(of & _overlaps(days))
    counts, longest = _outages(found, until)
    hours = rows_of(rated.where(of).groupBy("hour").agg(*_sums(_RATED)).orderBy("hour"))
    topics, topic_count = _topics(rated.where(of), hours[-1]["hour"])
    return FleetData(
        cluster=chosen,
        made_at=datetime.now(UTC),
        days=days,
        until=until,
        target=target,
        hours=tuple(RatedHour(**row) for row in hours),
        topics=topics,
        topic_count=topic_count,
        outages=longest,
        outage_count=counts["found"],
        open_count=counts["open"],
        changes=_changes(tables.read(COUNTS).where(of), days),
    )


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Bring rows to the driver. By Arrow, because `collect` turns timestamps into naive local times."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def _sums(names: Mapping[str, str]) -> list[Column]:
    return [F.sum(name).alias(to) for to, name in names.items()]


def _picked(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _cluster(rated: DataFrame, wanted: str | None, days: Days) -> str:
    there = rated.select("cluster_id").distinct()
    if wanted is not None and not there.where(F.col("cluster_id") == wanted).isEmpty():
        return wanted
    # Events from before a cluster's id was known are no cluster's, but better than nothing.
    by_worth = there.orderBy(F.col("cluster_id") == NO_CLUSTER, "cluster_id").limit(MAX_CLUSTERS)
    found = [str(row["cluster_id"]) for row in rows_of(by_worth)]
    known = [name for name in found if name != NO_CLUSTER] or found
    if not known:
        raise SparkJobError(
            f"the tables hold nothing of {days.first} to {days.last}: give other days by --days, or see "
            "whether kpe spark fleet has taken in events of these"
        )
    if wanted is not None:
        raise SparkJobError(
            f"of {days.first} to {days.last} there is no cluster {wanted!r}, but {', '.join(known)}"
        )
    if len(known) > 1:
        raise SparkJobError(f"the tables hold several clusters; name one by --cluster: {', '.join(known)}")
    return known[0]


# -- availability ------------------------------------------------------------------------------------------


def _topics(rated: DataFrame, last: datetime) -> tuple[tuple[RatedTopic, ...], int]:
    """Return the topics with the most offline time and their latest hours, and how many topics there are."""
    by_topic = rated.groupBy("topic").agg(*_sums(_RATED))
    counted = by_topic.withColumn("topics", F.count("*").over(Window.partitionBy()))
    worst = rows_of(counted.orderBy(F.desc("offline_hi_s"), "topic").limit(MAX_TOPICS))
    cells: dict[str, list[RatedHour]] = {row["topic"]: [] for row in worst}
    drawn = F.col("topic").isin(*cells) & (F.col("hour") > F.lit(last - MAX_HOURS * HOUR))
    columns = (F.col(name).alias(to) for to, name in _RATED.items())
    for row in rows_of(rated.where(drawn).select("topic", "hour", *columns).orderBy("topic", "hour")):
        cells[row.pop("topic")].append(RatedHour(**row))
    topics = (
        RatedTopic(hours=tuple(cells[row["topic"]]), **_picked(row, ("topic", *_RATED))) for row in worst
    )
    return tuple(topics), worst[0]["topics"]


# -- what happened -----------------------------------------------------------------------------------------


def _overlaps(days: Days) -> Column:
    begins = F.coalesce("began_after", "began_by") < F.lit(days.end)
    return begins & (F.col("ended_by").isNull() | (F.col("ended_by") >= F.lit(days.begin)))


def _of_clusters(tables: Tables) -> DataFrame:
    """Return outages of clusters as such of a topic: they have moments, not bounds."""
    columns = "began AS began_after", "began AS began_by", "ended AS ended_after", "ended AS ended_by"
    return tables.read(CLUSTER_OUTAGES).selectExpr("cluster_id", f"'{WHOLE}' AS topic", *columns)


def _outages(found: DataFrame, until: datetime) -> tuple[dict[str, int], tuple[Outage, ...]]:
    """Return how many there are, how many of them are open, and the longest, as they lasted at the least."""
    open_ = F.col("ended_by").isNull()
    (counts,) = rows_of(found.agg(F.count("*").alias("found"), F.count_if(open_).alias("open")))
    end = F.when(open_, F.lit(until)).otherwise(F.coalesce("ended_after", "began_by"))
    lasted = F.greatest(F.lit(0), F.unix_micros(end) - F.unix_micros("began_by"))
    longest = found.orderBy(lasted.desc(), "topic", "partition", "began_by").limit(MAX_OUTAGES)
    return counts, tuple(_outage(row, until) for row in rows_of(longest))


def _outage(row: Mapping[str, Any], until: datetime) -> Outage:
    return Outage(
        span=Span(**_picked(row, _BOUNDS), seen_until=max(until, row["began_by"])),
        cause=row["cause_broker"],
        **_picked(row, ("topic", "partition", "leader_before", "leader_after")),
    )


def _changes(counts: DataFrame, days: Days) -> tuple[TopicChange, ...]:
    """Return when topics grew or were created again on these days, the latest of them, in order.

    What came before is known by the earlier row.
    """
    begin = F.lit(days.begin)
    in_time = Window.partitionBy("topic").orderBy("valid_from")
    before = {f"{name}_before": F.lag(name).over(in_time) for name in ("count", "topic_id", "valid_to")}
    again = "coalesce(topic_id != topic_id_before, false) AS recreated"
    latest = rows_of(
        counts.where((F.col("valid_from") < F.lit(days.end)) & (F.coalesce("valid_to", begin) >= begin))
        .withColumns(before)
        .where((F.col("valid_from") >= begin) & (F.col("valid_to_before") == F.col("valid_from")))
        .selectExpr("topic", "valid_from AS at", "count_before AS before", "count AS after", again)
        .orderBy(F.desc("at"), F.desc("topic"))
        .limit(MAX_LANES)
    )
    return tuple(TopicChange(**row) for row in reversed(latest))
