"""What the report takes from the tables: of one cluster, and as much of a large fleet as of a small one."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, cast

import pytest
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.report import collect
from kafka_partition_events.spark.report.heatmap import MAX_TOPICS
from kafka_partition_events.spark.report.model import FleetData
from kafka_partition_events.spark.report.outages import MAX_LANES, MAX_OUTAGES
from kafka_partition_events.spark.tables.days import Days
from kafka_partition_events.spark.tables.state import StateRow, Taken, encoded

pytestmark = pytest.mark.spark

DAYS: Final = Days(date(2026, 11, 20), date(2026, 11, 21))
HOURS: Final = 30
STATE: Final = StateRow(mark=Taken(until={"c-1": datetime(2026, 11, 21, 6, tzinfo=UTC)}))
START: Final = datetime(2026, 11, 20, tzinfo=UTC)


@frozen
class Fleet:
    """Tables of a fleet: topic ``t-N`` is offline for N seconds in each hour, and grows once.

    Cluster c-2 answered nobody for five minutes.
    """

    frames: Mapping[str, DataFrame]

    def read(self, name: str, *days: Days) -> DataFrame:
        assert set(days) <= {DAYS}
        return self.frames[name]


def fleet(spark: SparkSession, size: int, *others: str) -> Fleet:
    """Return so many topics and brokers; the other clusters have one row of ``availability_hourly``."""
    spark = spark.newSession()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    ids = spark.range(size)
    begin = "timestamp'2026-11-20 00:00:00'"
    hourly = spark.range(size * HOURS).selectExpr(
        "'c-1' cluster_id", f"concat('t-', id % {size}) topic",
        f"{begin} + make_interval(0, 0, 0, 0, cast(id div {size} AS INT)) hour", "3600D partition_seconds",
        f"cast(id % {size} AS DOUBLE) / 2 offline_seconds_lo",
        f"cast(id % {size} AS DOUBLE) offline_seconds_hi",
        "0D blind_seconds", "1L incidents",
    )  # fmt: skip
    for name in others:
        hourly = hourly.unionByName(
            hourly.limit(1).selectExpr(f"'{name}' cluster_id", "* EXCEPT (cluster_id)")
        )
    grown = f"{begin} + make_interval(0, 0, 0, 0, 1, 0, id)"
    return Fleet(
        {
            "gold/availability_hourly": hourly,
            "gold/partition_outages": ids.selectExpr(
                "'c-1' cluster_id", "concat('t-', id) topic", "0 partition", f"{begin} began_after",
                f"{begin} + make_interval(0, 0, 0, 0, 0, 0, 1) began_by",
                f"if(id = 0, null, {begin} + make_interval(0, 0, 0, 0, 0, 0, 1 + id)) ended_after",
                f"if(id = 0, null, {begin} + make_interval(0, 0, 0, 0, 0, 0, 2 + id)) ended_by",
                "1 leader_before", "2 leader_after", "1 cause_broker",
            ),
            "gold/cluster_outages": spark.range(1).selectExpr(
                "'c-2' cluster_id", f"{begin} began", f"{begin} + make_interval(0, 0, 0, 0, 0, 5) ended"
            ),
            "gold/partition_count_history": ids.selectExpr(
                "'c-1' cluster_id", "concat('t-', id) topic",
                f"inline(array(struct('x' topic_id, {begin} valid_from, {grown} valid_to, 6 count),"
                f"             struct(if(id = 1, 'y', 'x') topic_id, {grown} valid_from,"
                "                     cast(null AS TIMESTAMP) valid_to, 12 count)))",
            ),
            "kpe/state": spark.createDataFrame([(encoded(STATE),)], "state STRING"),
        }
    )  # fmt: skip


def told(
    tables: Fleet, monkeypatch: pytest.MonkeyPatch, cluster: str | None = None
) -> tuple[FleetData, list[int]]:
    """Return what is told, and how many rows each query brought to the driver."""
    plain, brought = collect.rows_of, list[int]()

    def counting(frame: DataFrame) -> list[dict[str, object]]:
        rows = plain(frame)
        brought.append(len(rows))
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(collect, "rows_of", counting)
        return collect.collect(cast("Any", tables), DAYS, cluster=cluster, target=0.999), brought


def test_as_many_rows_come_to_the_driver_of_a_large_fleet_as_of_a_small_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = MAX_OUTAGES + 1
    data, brought = told(fleet(spark, small), monkeypatch)
    larger, as_many = told(fleet(spark, 10 * small), monkeypatch)
    assert as_many == brought
    assert sum(brought) < MAX_TOPICS * (HOURS + 1) + MAX_OUTAGES + MAX_LANES + HOURS + 20
    for found, size in ((data, small), (larger, 10 * small)):
        numbers = range(size)
        assert [topic.topic for topic in found.topics] == [f"t-{n}" for n in numbers[: -MAX_TOPICS - 1 : -1]]
        assert {len(topic.hours) for topic in found.topics} == {HOURS}
        assert found.topics[0].offline_hi_s == HOURS * numbers[-1]
        assert (found.topic_count, found.outage_count, found.open_count) == (size, size, 1)
        assert [hour.hour for hour in found.hours] == [START + timedelta(hours=n) for n in range(HOURS)]
        assert {(hour.partition_s, hour.offline_hi_s) for hour in found.hours} == {
            (3_600 * size, sum(numbers))
        }
        # The one that is open lasted longest, up to the last news.
        assert [o.topic for o in found.outages] == ["t-0", *(f"t-{n}" for n in numbers[:-MAX_OUTAGES:-1])]
        assert found.outages[0].span.seconds == (HOURS * 3_600 - 1, None)
        assert [change.topic for change in found.changes] == [f"t-{n}" for n in numbers[-MAX_LANES:]]


def test_a_report_is_about_one_cluster(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    two = fleet(spark, 3, "c-2", "unknown")
    with pytest.raises(SparkJobError, match=r"several clusters; name one by --cluster: c-1, c-2$"):
        told(two, monkeypatch)
    with pytest.raises(SparkJobError, match=r"no cluster 'c-3', but c-1, c-2$"):
        told(two, monkeypatch, "c-3")
    data, _ = told(fleet(spark, 3, "unknown"), monkeypatch)
    assert (data.cluster, data.topic_count, data.target) == ("c-1", 3, 0.999)
    assert [(one.topic, one.before, one.after, one.recreated) for one in data.changes] == [
        ("t-0", 6, 12, False),
        ("t-1", 6, 12, True),
        ("t-2", 6, 12, False),
    ]
    data, _ = told(two, monkeypatch, "c-2")
    assert (data.topic_count, data.changes) == (1, ())
    (whole,) = data.outages
    assert (whole.topic, whole.partition, whole.span.seconds) == ("(whole cluster)", None, (300.0, 300.0))
    with pytest.raises(SparkJobError, match="hold nothing of 2026-11-20 to 2026-11-21"):
        told(fleet(spark, 0), monkeypatch)
