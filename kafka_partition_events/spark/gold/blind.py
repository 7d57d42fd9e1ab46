"""When no observer polled a cluster, and when it answered none: what happened then is neither up nor down."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import evolve
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events
from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.gold.intervals import SECOND_US, micros
from kafka_partition_events.spark.tables.days import Hours, since
from kafka_partition_events.spark.tables.state import Blind
from kafka_partition_events.spark.tables.tables import RECORDS, Tables

LASTING: Final = (
    "topic.created", "topic.deleted", "topic.recreated", "topic.identified", "partitions.added",
    "broker.joined", "broker.left", "broker.changed", "metadata.unavailable", "metadata.recovered",
)  # fmt: skip
"""Events that are rare: an observer that emits one has polled the cluster."""

_SPANS: Final = "array<struct<begin: bigint, end: bigint>>"
_BOUNDS: Final = ("begin", "end")
_NEVER: Final = datetime(2200, 1, 1, tzinfo=UTC)
"""The end of what has not ended."""
_LOST: Final = "metadata.unavailable"
_NO_POLL: Final = (
    "metadata.unavailable", "metadata.recovered", "metadata.stale", "metadata.rejected", "observer.resync",
    "cap.reached", "cap.lifted", "broker.suspected", "broker.cleared", "records.rescued",
    "keys.moved", "keys.returned",
    "cluster.summary",
)  # fmt: skip
"""Events whose bounds are not two good polls in a row."""

PERIODS: Final = 2
"""So many periods of `HEARTBEAT` may pass until the next one; after more, no observer polled."""
HEARTBEAT: Final = "cluster.summary"
"""What an observer emits every few minutes as long as it polls."""
_USUAL: Final = 300 * SECOND_US
"""The period of an observer without summaries."""


def is_poll() -> Column:
    """Return whether an event is of a poll of the cluster, which found it as it was after ``prev_at``."""
    return ~F.col("gap") & ~F.col("name").isin(*_NO_POLL)


def intervals(reported: DataFrame, clusters: Clusters) -> DataFrame:
    """Return ``cluster_id, begin, end`` (microseconds) without overlaps, when no observer polled.

    No observer polled

    - from the last good poll before ``metadata.recovered`` to it;
    - from ``metadata.unavailable``, if that is not followed by a recovery (the observer died), to the next
      event of the cluster that is of a poll and is among `LASTING`, or until now;
    - between the bounds of an event with a gap;
    - between two ``cluster.summary`` that are more than `PERIODS` of their periods apart, from the one or the
      last poll after it: their observers died, or what they saw could not be written down;

    except where another observer did: the bounds of an event without a gap are two polls in a row.

    Args:
        reported: ``cluster_id, name, gap, prev_at, at, body``; events, doubles or not.
        clusters: With the last news of each.
    """
    reported = _bounded(reported)
    suspected = _suspected(reported, clusters)
    polled = (
        reported.where(is_poll() & (F.col("begin") < F.col("end")))
        .join(F.broadcast(suspected), "cluster_id")
        .where("exists(suspected, one -> one.begin < end AND one.end > begin)")
        .select("cluster_id", "begin", "end")
        .distinct()
    )
    both = _edges(suspected.select("cluster_id", F.inline("suspected")), 1, 0)
    return (
        clusters.known(_covered(both.unionByName(_edges(polled, 0, 1))))
        .withColumn("end", F.least("end", "until"))
        .where("begin < end")
        .select("cluster_id", *_BOUNDS)
    )


def _bounded(reported: DataFrame, *keep: str) -> DataFrame:
    """Return ``cluster_id, name, gap, begin, end, period`` of events (microseconds), and others to keep."""
    bounds = F.unix_micros("prev_at").alias("begin"), F.unix_micros("at").alias("end")
    beat = F.when(F.col("name") == HEARTBEAT, period()).alias("period")
    return reported.select("cluster_id", *keep, "name", "gap", *bounds, beat)


def period() -> Column:
    """Return how long the period of a summary is, in microseconds."""
    period = F.from_json("body", "period STRUCT<begin: TIMESTAMP, end: TIMESTAMP>").getField("period")
    return F.unix_micros(period["end"]) - F.unix_micros(period["begin"])


def _suspected(reported: DataFrame, clusters: Clusters) -> DataFrame:
    """Return ``cluster_id`` and an array of the times in which some observer did not poll."""
    before = F.lag("end").over(Window.partitionBy("cluster_id").orderBy("end"))
    silences = (
        reported.where(f"name = '{HEARTBEAT}' AND period IS NOT NULL")
        .withColumn("before", before)
        .where(f"end - before > {PERIODS} * period")
        .groupBy("cluster_id")
        .agg(F.expr("collect_set(struct(before AS begin, end)) AS silences"))
    )
    sets = {
        "recovered": "IF(name = 'metadata.recovered' AND begin < end, struct(begin, end), NULL)",
        "gaps": "IF(gap AND begin < end, struct(begin, end), NULL)",
        "stops": "IF(name = 'metadata.unavailable', struct(coalesce(begin, end) AS begin, end AS at), NULL)",
        "polls": f"IF(name IN {LASTING} AND name != 'metadata.unavailable', end, NULL)",
    }
    found = (
        clusters.known(reported.where(f"name IN {LASTING} OR gap OR name = '{HEARTBEAT}'"))
        .groupBy("cluster_id", "until")
        .agg(*(F.expr(f"collect_set({one}) AS {name}") for name, one in sets.items()))
        .join(F.broadcast(silences), "cluster_id", "left")
    )
    lost = "filter(stops, one -> NOT exists(recovered, other -> one.at BETWEEN other.begin AND other.end))"
    end = "coalesce(array_min(filter(polls, poll -> poll > one.at)), until)"
    ended = f"transform({lost}, one -> struct(one.begin AS begin, {end} AS end))"
    lasting = f"filter({ended}, one -> one.begin < one.end)"
    suspected = f"concat(recovered, gaps, {lasting}, coalesce(silences, CAST(array() AS {_SPANS})))"
    return found.selectExpr("cluster_id", f"array_distinct({suspected}) AS suspected").where(
        "size(suspected) > 0"
    )


def _edges(intervals: DataFrame, suspected: int, polled: int) -> DataFrame:
    """Return where intervals begin and end: ``cluster_id, at``, and how the two counts change there."""
    ends = "inline(array(struct(begin AS at, 1 AS sign), struct(end AS at, -1 AS sign)))"
    return intervals.selectExpr("cluster_id", ends).selectExpr(
        "cluster_id", "at", f"sign * {suspected} AS suspected", f"sign * {polled} AS polled"
    )


def _covered(edges: DataFrame) -> DataFrame:
    """Return ``cluster_id, begin, end``: some interval of the first kind is open, and none of the second."""
    in_time = Window.partitionBy("cluster_id").orderBy("at")
    found = (F.sum("suspected").over(in_time) > 0) & (F.sum("polled").over(in_time) == 0)
    return (
        edges.groupBy("cluster_id", "at")
        .agg(F.sum("suspected").alias("suspected"), F.sum("polled").alias("polled"))
        .withColumn("found", found)
        .withColumn("was_found", F.lag("found", 1, False).over(in_time))
        .where("found != was_found")
        .withColumn("end", F.lead("at").over(in_time))
        .where("found")
        .selectExpr("cluster_id", "at AS begin", "end")
    )


# -- when it answered none -----------------------------------------------------------------------------------


def outages(reported: DataFrame, clusters: Clusters) -> DataFrame:
    """Return ``cluster_id, begin, end`` (microseconds) of the times in which a cluster answered no observer.

    With ``metadata.unavailable`` an observer has lost the cluster until its ``metadata.recovered``; if its
    next word is another one, until the next one of any observer. Words are the events of `LASTING`, and
    summaries; of those of one moment, a recovery is the first. After others it watches until its next one
    (of ``metadata.recovered``: until ``prev_at``), but not for longer than `PERIODS` of its summaries. The
    cluster answers none where one has lost it and none watches, by words or by bounds without gap.

    Args:
        reported: ``cluster_id, observer, name, gap, prev_at, at, body``; events, doubles or not.
        clusters: With the last news of each.
    """
    is_back = "name = 'metadata.recovered'"
    by_observer = f"OVER (PARTITION BY cluster_id, observer ORDER BY end, name = '{_LOST}', NOT {is_back})"
    later = "OVER (PARTITION BY cluster_id ORDER BY end RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)"
    words = (
        _bounded(reported.where(F.col("name").isin(*LASTING, HEARTBEAT)), "observer")
        .distinct()
        .selectExpr(
            *("cluster_id", f"name = '{_LOST}' AS is_lost", "end AS begin"),
            f"lead(IF({is_back}, end, NULL)) {by_observer} AS by_itself",
            f"min(IF(name != '{_LOST}', end, NULL)) {later} AS by_anybody",
            f"lead(IF({is_back}, coalesce(begin, end), end)) {by_observer} AS saw_until",
            f"end + {PERIODS} * coalesce(last(period, true) {by_observer}, {_USUAL}) AS silent",
        )
    )
    lost_until = f"coalesce(by_itself, by_anybody, {micros(_NEVER)}) AS end"
    lost = words.where("is_lost").selectExpr("cluster_id", "begin", lost_until)
    watched = words.where("NOT is_lost").selectExpr("cluster_id", "begin", "least(saw_until, silent) AS end")
    polls = _bounded(reported.where(is_poll())).select("cluster_id", *_BOUNDS)
    seen = watched.unionByName(polls).where("begin < end").distinct()
    found = clusters.known(_covered(_edges(lost, 1, 0).unionByName(_edges(seen, 0, 1))))
    return found.where("begin <= until").select("cluster_id", *_BOUNDS)


def rows_of(spark: SparkSession, out: Iterable[Blind]) -> DataFrame:
    """Return the rows of ``gold/cluster_outages``; one that has not ended has no end."""
    rows = [(one.cluster, one.begin, None if one.end == _NEVER else one.end) for one in out]
    return spark.createDataFrame(rows, "cluster_id STRING, began TIMESTAMP, ended TIMESTAMP")


# -- kept from refresh to refresh ----------------------------------------------------------------------------


def spans_of(rows: DataFrame) -> Sequence[Blind]:
    """Return the times of such rows as `intervals` and `outages` return, ascending."""
    moments = (F.timestamp_micros(name).alias(name) for name in _BOUNDS)
    found = rows.select(F.col("cluster_id").alias("cluster"), *moments).toArrow().to_pylist()
    return sorted(Blind(**row) for row in found)


def found_again(clusters: Clusters, tables: Tables, first: datetime) -> Clusters:
    """Return clusters with both kinds of time since a moment as the records have them.

    Blind times that the moment lies in are found again, too; outages lie in such times.
    """
    begin = first
    while touching := [span.begin for span in clusters.blind if span.begin < begin <= span.end]:
        begin = min(touching)
    good = tables.read(RECORDS, since(begin - timedelta(days=1))).where("defect IS NULL")
    seen = good.selectExpr(
        f"coalesce(event.data.cluster_id, '{events.NO_CLUSTER}') AS cluster_id",
        "event.data.observer",
        "name",
        "coalesce(event.data.snapshot.gap, false) AS gap",
        f"{events.PREV_AT} AS prev_at",
        "event.data.snapshot.at",
        "body",
    )
    unseen = spans_of(intervals(seen, clusters).where(F.col("end") > micros(begin)))
    out = spans_of(outages(seen, clusters).where(F.col("begin") >= micros(begin)))
    return evolve(
        clusters,
        blind=sorted([*(span for span in clusters.blind if span.end < begin), *unseen]),
        out=sorted([*(span for span in clusters.out if span.begin < begin), *out]),
    )


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
