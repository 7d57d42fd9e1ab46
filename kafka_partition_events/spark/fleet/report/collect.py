"""Gold tables -> what the fleet report says. Brings few rows to the driver: hours, outages, brokers."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.events import NO_CLUSTER
from kafka_partition_events.spark.fleet.days import Days
from kafka_partition_events.spark.fleet.report.model import (
    BrokerLoad,
    BurnRate,
    FleetData,
    FleetOutage,
    TopicHour,
)
from kafka_partition_events.spark.fleet.tables import UNTIL
from kafka_partition_events.spark.model import Change, Span

WINDOWS: Final = ("5m", "1h", "6h", "3d")
MAX_OUTAGES: Final = 10_000
"""Outages that are brought to the driver, the longest first."""

_HOURS: Final = {
    "topic": "topic",
    "hour": "hour",
    "partition_s": "partition_seconds",
    "offline_lo_s": "offline_seconds_lo",
    "offline_hi_s": "offline_seconds_hi",
    "blind_s": "blind_seconds",
    "incidents": "incidents",
}


class Reading(Protocol):
    """What is needed of the tables."""

    def read(self, name: str, *days: Days) -> DataFrame:
        """Return a table, or its rows of these days."""


def collect(tables: Reading, days: Days, *, cluster: str | None, target: float) -> FleetData:
    """Compute what the gold tables tell of some days.

    Args:
        tables: The tables that ``kpe spark fleet`` keeps.
        days: The days, in UTC.
        cluster: The cluster's id; None if there is only one.
        target: The availability that was promised, as a share.

    Raises:
        SparkJobError: there are no tables, none of this cluster, or several clusters and none was named.
    """
    hours = tables.read("gold/availability_hourly", days)
    chosen = _cluster(hours, cluster, days)
    of = F.col("cluster_id") == chosen
    until = _until(tables.read(UNTIL).where(of), days)
    found = _rows(_overlapping(tables.read("gold/partition_outages").where(of), days))
    hour_rows = _rows(hours.where(of).select(*(F.col(name).alias(to) for to, name in _HOURS.items())))
    burn = _rows(
        tables.read("gold/slo_burn", days)
        .where(of & F.col("topic").isNull())
        .orderBy(F.desc("window_start"))
        .limit(1)
    )
    churn = _rows(
        tables.read("gold/leader_churn", days)
        .where(of)
        .groupBy("broker")
        .agg(F.sum("moves_from").alias("moved_from"), F.sum("moves_to").alias("moved_to"))
    )
    held = _rows(_latest(tables.read("gold/skew", days).where(of)))
    counts = _rows(tables.read("gold/partition_count_history").where(of).orderBy("topic", "valid_from"))
    return FleetData(
        cluster=chosen,
        made_at=datetime.now(UTC),
        days=days,
        until=until,
        target=target,
        outages=tuple(_outage(row, until) for row in found),
        changes=_growth(counts, days),
        hours=tuple(TopicHour(**row) for row in hour_rows),
        burn=_burn(burn[0]) if burn else (),
        brokers=_brokers(churn, held),
        skewed_at=held[0]["at"] if held else None,
        counts={
            "availability_hourly": len(hour_rows),
            "partition_outages": len(found),
            "slo_burn": len(burn),
            "leader_churn": len(churn),
            "skew": len(held),
            "partition_count_history": len(counts),
        },
    )


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    # By Arrow, because `collect` turns timestamps into naive local times.
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def _cluster(hours: DataFrame, wanted: str | None, days: Days) -> str:
    told = {row["cluster_id"] for row in _rows(hours.select("cluster_id").distinct())}
    known = sorted(told - {NO_CLUSTER} or told)  # what was told before a cluster's id was known is none's
    if wanted is None and len(known) == 1:
        return str(known[0])
    if wanted in known:
        return str(wanted)
    if not known:
        raise SparkJobError(
            f"the tables hold nothing of {days.first} to {days.last}: give other days by --days, or see "
            "whether kpe spark fleet has taken in events of these"
        )
    if wanted is None:
        raise SparkJobError(f"the tables hold several clusters; name one by --cluster: {', '.join(known)}")
    raise SparkJobError(f"the tables hold no cluster {wanted!r}, but {', '.join(known)}")


def _until(news: DataFrame, days: Days) -> datetime:
    (row,) = _rows(news.agg(F.max("until").alias("until")))
    last: datetime | None = row["until"]
    return days.end if last is None else min(last, days.end)


def _latest(skew: DataFrame) -> DataFrame:
    (row,) = _rows(skew.agg(F.max("at").alias("at")))
    return skew.where(F.lit(False) if row["at"] is None else F.col("at") == F.lit(row["at"]))


def _overlapping(outages: DataFrame, days: Days) -> DataFrame:
    begins = F.coalesce("began_after", "began_by") < F.lit(days.end)
    ends = F.col("ended_by").isNull() | (F.col("ended_by") >= F.lit(days.begin))
    shortest = F.unix_micros(F.coalesce("ended_after", F.lit(days.end))) - F.unix_micros("began_by")
    return outages.where(begins & ends).orderBy(shortest.desc()).limit(MAX_OUTAGES)


def _outage(row: Mapping[str, Any], until: datetime) -> FleetOutage:
    bounds = ("began_after", "began_by", "ended_after", "ended_by")
    return FleetOutage(
        topic=row["topic"],
        partition=row["partition"],
        span=Span(**{name: row[name] for name in bounds}, seen_until=max(until, row["began_by"])),
        leader_before=row["leader_before"],
        leader_after=row["leader_after"],
        cause=row["cause_broker"],
    )


def _growth(counts: list[dict[str, Any]], days: Days) -> tuple[Change, ...]:
    """Return when topics grew or shrank on these days; what came before is known by the earlier row."""
    changes = []
    for before, after in pairwise(counts):
        at = after["valid_from"]
        same = before["topic"] == after["topic"] and before["valid_to"] == at
        if not same or not days.begin <= at < days.end:
            continue
        again = before["topic_id"] != after["topic_id"] and before["topic_id"] is not None
        changes.append(
            Change(
                name="topic.recreated" if again else "partitions.added",
                after=None,
                by=at,
                topic=after["topic"],
                detail=f"{before['count']} → {after['count']} partitions",
            )
        )
    return tuple(changes)


def _burn(row: Mapping[str, Any]) -> tuple[BurnRate, ...]:
    return tuple(
        BurnRate(window=window, lo=row[f"burn_{window}_lo"], hi=row[f"burn_{window}_hi"])
        for window in WINDOWS
        if row[f"burn_{window}_hi"] is not None
    )


def _brokers(churn: list[dict[str, Any]], held: list[dict[str, Any]]) -> tuple[BrokerLoad, ...]:
    moved = {row["broker"]: row for row in churn}
    holds = {row["broker"]: row for row in held}
    return tuple(
        BrokerLoad(
            broker=broker,
            **{name: holds[broker][name] for name in ("leaders", "replicas", "offline_replicas")}
            if broker in holds
            else {},
            **{name: moved[broker][name] for name in ("moved_to", "moved_from")} if broker in moved else {},
        )
        for broker in sorted(moved.keys() | holds.keys())
    )
