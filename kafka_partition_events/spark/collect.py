"""Runs the computations and brings their few result rows into the report's values."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events, outages, traffic
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.model import (
    Absence,
    Change,
    EventQuality,
    Outage,
    Phase,
    ReportData,
    Span,
    Stored,
    TopicTraffic,
    phase_seconds,
)

Windows = Mapping[str, Sequence[tuple[datetime, datetime | None]]]

_SPAN: Final = ("began_after", "began_by", "ended_after", "ended_by")
_CHANGES: Final = (
    "partitions.added", "topic.created", "topic.deleted", "topic.recreated", "broker.joined", "broker.left",
    "broker.changed", "cap.reached", "cap.lifted", "metadata.unavailable", "metadata.recovered",
    "metadata.stale", "metadata.rejected", "observer.resync",
)  # fmt: skip


def collect(
    event_records: DataFrame, data_records: DataFrame | None, cluster: str | None = None
) -> ReportData:
    """Compute what the topics tell of one cluster.

    Args:
        event_records: The records of the events topic, as the Kafka connector gives them.
        data_records: The records of all data topics of that cluster; None leaves traffic out.
        cluster: The cluster's id; needed only where the events are of several clusters.

    Raises:
        SparkJobError: The events are of several clusters, and none is named; or none is of the one named.
    """
    parsed = events.parsed(event_records).cache()
    told = events.observations(parsed)
    cluster = _one_cluster(told, cluster)
    good = told.where(F.col("cluster_id").isin(cluster, events.NO_CLUSTER))
    offline = outages.partition_outages(outages.states(good)).cache()
    (quality,) = _rows(events.quality(parsed))
    (news,) = _rows(good.agg(F.min("at").alias("first"), F.max("at").alias("last")))
    now = datetime.now(UTC)
    first, last = (value for value in news.values())
    seen_until = last or now
    found = [_outage(row, seen_until) for row in _rows(offline.orderBy("began_by", "topic", "partition"))]
    absences = [
        Absence(broker=row["broker"], span=_span(row, seen_until))
        for row in _rows(outages.broker_absences(good).orderBy("began_by", "broker"))
    ]
    changes = [_change(row) for row in _rows(_notable(good))]
    counted: list[TopicTraffic] = []
    stored: dict[str, Stored] = {}
    if data_records is not None:
        windows = outages.windows(offline)
        per_phase = _rows(traffic.by_phase(data_records, windows))
        counted = _traffic(per_phase, _windows(windows), found, changes)
        stored = {row["topic"]: Stored(**row) for row in _rows(traffic.stored(data_records))}
        first = min([row["first"] for row in per_phase], default=first) if first is None else first
    offline.unpersist()
    parsed.unpersist()
    return ReportData(
        cluster=cluster,
        made_at=now,
        first=first or now,
        last=seen_until,
        outages=tuple(found),
        absences=tuple(absences),
        changes=tuple(changes),
        traffic=tuple(counted),
        stored=stored,
        quality=EventQuality(**quality),
    )


def _one_cluster(told: DataFrame, named: str | None) -> str:
    """Return whose events to report on; what came before a cluster's id was known is taken for its own."""
    found = sorted(row["cluster_id"] for row in _rows(told.select("cluster_id").distinct()))
    known = [cluster for cluster in found if cluster != events.NO_CLUSTER]
    if named is None and len(known) > 1:
        raise SparkJobError(
            f"the events are of {len(known)} clusters, and one topic of events makes one report for each: "
            f"name the cluster ({', '.join(known)})"
        )
    if named is not None and named not in found:
        raise SparkJobError(f"no event is of cluster {named}, only of {', '.join(found) or 'none'}")
    return named or (known[0] if known else events.NO_CLUSTER)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    # By Arrow, because `collect` turns timestamps into naive local times.
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def _notable(good: DataFrame) -> DataFrame:
    told = events.distinct(good).where(F.col("name").isin(*_CHANGES) & ~F.col("initial"))
    return told.orderBy("at", "sequence")


def _span(row: Mapping[str, Any], seen_until: datetime) -> Span:
    return Span(**{name: row[name] for name in _SPAN}, seen_until=seen_until)


def _outage(row: Mapping[str, Any], seen_until: datetime) -> Outage:
    return Outage(
        topic=row["topic"],
        partition=row["partition"],
        span=_span(row, seen_until),
        ended_with=row["ended_with"],
    )


def _change(row: Mapping[str, Any]) -> Change:
    return Change(
        name=row["name"],
        after=row["prev_at"],
        by=row["at"],
        topic=row["topic"],
        partitions=row["partitions"],
        broker=row["broker"],
        detail=row["detail"] or _count_change(row["count_before"], row["count_after"]),
        gap=row["gap"],
    )


def _count_change(before: int | None, after: int | None) -> str | None:
    counts = [str(count) for count in (before, after) if count is not None]
    return f"{' → '.join(counts)} partitions" if counts else None


def _windows(frame: DataFrame) -> Windows:
    found = defaultdict(list)
    for row in _rows(frame.orderBy("topic", "start")):
        found[row["topic"]].append((row["start"], row["end"]))
    return found


def _traffic(
    rows: Sequence[Mapping[str, Any]],
    windows: Windows,
    offline: Iterable[Outage],
    changes: Iterable[Change],
) -> list[TopicTraffic]:
    counts: dict[str, dict[int, dict[Phase, int]]] = defaultdict(lambda: defaultdict(dict))
    extent: dict[str, tuple[datetime, datetime]] = {}
    for row in rows:
        topic = row["topic"]
        counts[topic][row["partition"]][Phase(row["phase"])] = row["records"]
        first, last = extent.get(topic, (row["first"], row["last"]))
        extent[topic] = min(first, row["first"]), max(last, row["last"])
    down: dict[str, set[int]] = defaultdict(set)
    added: dict[str, set[int]] = defaultdict(set)
    for outage in offline:
        down[outage.topic].add(outage.partition)
    for change in changes:
        if change.name == "partitions.added" and change.topic and change.partitions:
            added[change.topic] |= set(expand(change.partitions))
    everywhere = merged(window for own in windows.values() for window in own)
    return [
        TopicTraffic(
            topic=topic,
            # A partition without a record is known by its events only, and just as telling.
            records={n: counts[topic][n] for n in sorted(counts[topic].keys() | down[topic] | added[topic])},
            seconds=phase_seconds(*extent[topic], windows.get(topic) or everywhere),
            offline=frozenset(down[topic]),
            added=frozenset(added[topic]),
        )
        for topic in sorted(counts)
    ]


def expand(ranges: str) -> list[int]:
    """Return the ids that a text such as ``0-2,5`` lists."""
    ids: list[int] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        ids += range(int(first), int(last or first) + 1)
    return ids


def merged(
    windows: Iterable[tuple[datetime, datetime | None]],
) -> list[tuple[datetime, datetime | None]]:
    """Return the windows of all topics as one ascending list without overlaps; None: open to this day."""
    never = datetime.max.replace(tzinfo=UTC)
    result: list[tuple[datetime, datetime]] = []
    for start, end in sorted((start, end or never) for start, end in windows):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(result[-1][1], end)
        else:
            result.append((start, end))
    return [(start, None if end == never else end) for start, end in result]
