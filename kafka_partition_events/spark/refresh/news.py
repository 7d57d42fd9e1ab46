"""What new records report, as far as it decides what must be refreshed. One row of each cluster."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from attrs import field, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.gold import blind, outages, partition_counts
from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.gold.intervals import DAY_US, HOUR_US
from kafka_partition_events.spark.tables.days import Hours

_PRODUCERS: Final = (
    "cap.reached", "cap.lifted", "broker.suspected", "broker.cleared", "records.rescued",
    "keys.moved", "keys.returned",
)  # fmt: skip
"""What producers emit: it says nothing of whether an observer polls."""


def _ranges(hours: Iterable[int]) -> Sequence[Hours]:
    # What was reported in the next hour may have its place in this one now.
    return [Hours(hour, hour + 1) for hour in hours]


@frozen(kw_only=True)
class News:
    """What the records report of a cluster.

    Attributes:
        cluster_id: The cluster.
        first: The earliest ``at``.
        until: The last news, by the clock of the broker that it was written to where that is behind.
        beats: Of each ``cluster.summary``, ascending, ``at`` and its ``period`` in microseconds.
        outages: The earliest that is about outages; None: none is. The same for the others:
        down: their topics,
        counts: that says how many partitions a topic has,
        sized: their topics,
        left: that a broker may have left,
        blind: from when on no observer may have polled,
        polled: from when on one has, though it was taken for blind,
        lost: from when on its observer could not poll.
        last_lost: When it reported that last.
        last_found: When the last poll was reported that ends such a time.
        moved: Hours in which leadership moved.
        summed: Hours of summaries.
    """

    cluster_id: str
    first: datetime
    until: datetime | None
    beats: Sequence[Mapping[str, Any]]
    outages: datetime | None
    down: Sequence[str]
    counts: datetime | None
    sized: Sequence[str]
    left: datetime | None
    blind: datetime | None
    polled: datetime | None
    lost: datetime | None
    last_lost: datetime | None
    last_found: datetime | None
    moved: Sequence[Hours] = field(converter=_ranges)
    summed: Sequence[Hours] = field(converter=_ranges)

    @property
    def stopped(self) -> datetime | None:
        """Since when its observer could not poll, if none of them reports a poll after that."""
        return self.lost if _after(self.last_lost, self.last_found) else None

    @property
    def ended(self) -> bool:
        """Whether one of them reports a poll that ends such a time."""
        return _after(self.last_found, self.last_lost)

    def silent_since(self, beat: datetime | None) -> Iterable[datetime]:
        """Return when summaries, the last one before these and these, were followed by none for too long."""
        for one in self.beats:
            if beat is not None and one["at"] - beat > blind.PERIODS * timedelta(microseconds=one["period"]):
                yield beat
            beat = one["at"]


def news_of(reported: DataFrame, clusters: Clusters) -> list[News]:
    """Return what observations report, with their records' ``timestamp``, of each cluster."""
    name, at = F.col("name"), F.col("at")
    from_ = F.coalesce("prev_at", "at")
    confessed = name.isin("metadata.unavailable", "metadata.recovered") | F.col("gap")
    of_outages = name.isin(*outages.OUTAGE_EVENTS) & ((name != "topic.created") | F.col("initial"))
    of_counts = name.isin(*partition_counts.NAMES)
    moment = F.unix_micros("at")
    stop, lasting = name == "metadata.unavailable", name.isin(*blind.LASTING)
    ends = lasting & ~stop
    # So long after it its observer is taken to watch: after a summary, and at most after others.
    reach = F.coalesce(blind.PERIODS * blind.period(), F.lit(DAY_US))
    in_blind = clusters.touches_blind(moment, moment + reach + 1)
    seen = (blind.is_poll() & clusters.touches_blind(F.unix_micros("prev_at"), moment)) | (
        ((name == blind.HEARTBEAT) | ends) & in_blind
    )
    beat = F.when(blind.period().isNotNull(), F.struct("at", blind.period().alias("period")))
    rows = reported.groupBy("cluster_id").agg(
        F.min("at").alias("first"),
        F.max(F.when(~name.isin(*_PRODUCERS), F.least("at", F.coalesce("timestamp", "at")))).alias("until"),
        F.sort_array(F.collect_set(F.when(name == blind.HEARTBEAT, beat))).alias("beats"),
        F.min(F.when(of_outages, at)).alias("outages"),
        F.collect_set(F.when(of_outages, F.col("topic"))).alias("down"),
        F.min(F.when(of_counts, at)).alias("counts"),
        F.collect_set(F.when(of_counts, F.col("topic"))).alias("sized"),
        F.min(F.when(name == "broker.left", from_)).alias("left"),
        F.min(F.when(confessed, from_)).alias("blind"),
        F.min(F.when(seen, from_)).alias("polled"),
        F.min(F.when(stop, from_)).alias("lost"),
        F.max(F.when(stop, at)).alias("last_lost"),
        F.max(F.when(ends, at)).alias("last_found"),
        _hours("leadership.moved").alias("moved"),
        _hours("cluster.summary").alias("summed"),
    )  # fmt: skip
    return [News(**row) for row in rows.toArrow().to_pylist()]


def doubles_of(reported: DataFrame) -> int:
    """Return how many observations are of an event that another one of them reports, too."""
    by_event = reported.groupBy(F.xxhash64("cluster_id", "source", "id")).count()
    (row,) = by_event.agg(F.coalesce(F.sum(F.col("count") - 1), F.lit(0)).alias("doubles")).collect()
    return int(row["doubles"])


def _hours(name: str) -> Column:
    hour = F.floor(F.unix_micros("at") / HOUR_US)
    return F.collect_set(F.when(F.col("name") == name, hour))


def _after(moment: datetime | None, other: datetime | None) -> bool:
    return moment is not None and (other is None or moment > other)
