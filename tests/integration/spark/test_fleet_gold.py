"""Outages, blind time, availability, burn rates, skew and counts on worked examples, computed by hand."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from attrs import evolve
from pyspark.sql import DataFrame, SparkSession

from kafka_partition_events.spark.gold import availability
from kafka_partition_events.spark.gold.blind import intervals, outages, rows_of, spans_of
from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.gold.slo_burn import slo_burn
from kafka_partition_events.spark.tables.days import Days
from tests.fleet_kit import (
    DAY,
    Inputs,
    beat,
    computed,
    created,
    gold_table,
    grown,
    inputs,
    left,
    moment,
    moved,
    offline,
    online,
    record,
    recovered,
    rows,
    sightings,
    unavailable,
)
from tests.fleet_oracle import expected, shown

pytestmark = pytest.mark.spark

NEXT = DAY + timedelta(days=1)
TODAY = Days(DAY, DAY)


def summary(at: datetime, cluster: str = "c-3") -> bytes:
    """Return what three brokers held; in the second cluster there is one, which holds nothing."""
    brokers: list[dict[str, Any]] = [
        {"broker": number, "rack": rack, "leaders": leaders, "replicas": 10, "offline_replicas": 0}
        for number, rack, leaders in ((1, "r1", 2), (2, None, 4), (3, None, 6))
    ]
    told: dict[str, Any] = {
        "period": {"begin": "2026-11-20T10:00:00Z", "end": "2026-11-20T10:05:00Z"},
        "brokers": brokers if cluster == "c-3" else [{"broker": 1, "leaders": 0, "replicas": 0}],
        "topics": 3, "partitions": 12, "offline": 0,
    }  # fmt: skip
    return record("cluster.summary", at, cluster=cluster, **told)


def of_orders(name: str, at: datetime, topic_id: str, **data: Any) -> bytes:
    return record(name, at, cluster="c-3", topic="orders", topic_id=topic_id, **data)


SUMMARIES = [
    summary(moment("10:04:58")),
    summary(moment("10:04:58"), "c-4"),
    summary(moment("05:04:58", NEXT)),
]

THIRD: dict[str, Any] = {"cluster": "c-3"}
COUNTS = [
    created("orders", moment("00:00"), 6, topic_id=None, **THIRD),
    created("orders", moment("01:00"), 6, topic_id=None, observer="b", **THIRD),  # again: no new row
    of_orders("topic.identified", moment("02:00"), "id-1", after={"count": 6}),
    grown("orders", moment("10:00"), 12, topic_id="id-1", planned=True, change_id="chg-7", **THIRD),
    of_orders("topic.deleted", moment("12:00"), "id-1", before={"count": 12}),
    created("orders", moment("13:00"), 3, topic_id="id-2", initial=False, **THIRD),
    of_orders("topic.recreated", moment("00:10", NEXT), "id-3", after={"count": 3}),
    created("orders", moment("05:00"), 1, cluster="c-4"),
]


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Inputs:
    """Several stories, each a topic or a cluster of its own: one computation takes as long as many.

    In cluster ``c-1``, watched all the time:

    - ``plain``: 10 partitions; partition 1 offline from 10:20 (seen from 10:19:50) to 10:40 (10:39:30)
    - ``midnight``: 2 partitions; partition 0 offline from 23:30 to 00:30
    - ``growing``: 6 partitions, 12 from 10:30 on
    - ``open``: 4 partitions; partition 3 offline since 12:00, not over at the last news
    - ``unknown``: nobody tells how many partitions it has; partition 0 offline from 08:00 to 08:10

    In cluster ``c-2`` nobody looked from 10:30 to 11:30:

    - ``plain``: 1 partition, offline from 10:00 to 12:00

    Clusters ``c-3`` and ``c-4`` are those of `SUMMARIES` and `COUNTS`.
    """
    second: dict[str, Any] = {"cluster": "c-2"}
    records = [
        created("plain", moment("00:00"), 10),
        offline("plain", 1, moment("10:20"), prev_at=moment("10:19:50")),
        online("plain", 1, moment("10:40"), prev_at=moment("10:39:30"), leader=3),
        left(2, moment("10:20"), prev_at=moment("10:19:50")),
        left(7, moment("10:20"), prev_at=moment("10:19:50")),
        created("midnight", moment("00:00"), 2),
        offline("midnight", 0, moment("23:30"), prev_at=moment("23:29:59")),
        online("midnight", 0, moment("00:30", NEXT), prev_at=moment("00:29:59", NEXT)),
        created("growing", moment("00:00"), 6),
        grown("growing", moment("10:30"), 12, prev_at=moment("10:29")),
        created("open", moment("00:00"), 4),
        offline("open", 3, moment("12:00"), prev_at=moment("11:59:59"), leader=4),
        left(4, moment("11:00"), prev_at=moment("10:59")),
        offline("unknown", 0, moment("08:00"), leader=None, initial=True),
        online("unknown", 0, moment("08:10"), prev_at=moment("08:09")),
        created("plain", moment("00:00"), 1, **second),
        offline("plain", 0, moment("10:00"), prev_at=moment("09:59:59"), **second),
        unavailable(moment("10:30"), moment("10:31"), **second),
        recovered(moment("10:30"), moment("11:30"), **second),
        online("plain", 0, moment("12:00"), prev_at=moment("11:59:59"), **second),
        *SUMMARIES,
        *COUNTS,
    ]
    return inputs(spark, records, moment("06:00", NEXT))


def of(frame: DataFrame, where: str) -> list[dict[str, Any]]:
    return rows(frame.where(where))


# -- outages ----------------------------------------------------


def outage(told: Inputs, topic: str, cluster: str = "c-1") -> dict[str, Any]:
    (row,) = of(told.lasting.outages, f"cluster_id = '{cluster}' AND topic = '{topic}'")
    return row


def test_an_outage_knows_its_leaders_and_the_broker_that_left(told: Inputs) -> None:
    assert outage(told, "plain") == {
        "cluster_id": "c-1", "topic": "plain", "partition": 1,
        "began_after": moment("10:19:50"), "began_by": moment("10:20"),
        "ended_after": moment("10:39:30"), "ended_by": moment("10:40"), "ended_with": "partition.online",
        "leader_before": 2, "leader_after": 3, "cause_broker": 2, "censored": None, "day": DAY,
    }  # fmt: skip


def test_a_broker_that_left_an_hour_before_is_no_cause(told: Inputs) -> None:
    row = outage(told, "open")
    assert (row["leader_before"], row["cause_broker"], row["censored"]) == (4, None, "open")


def test_a_leader_that_nobody_saw_is_unknown(told: Inputs) -> None:
    row = outage(told, "unknown")
    assert (row["began_after"], row["leader_before"], row["leader_after"]) == (None, None, 2)


def test_an_outage_in_which_nobody_looked_is_censored(told: Inputs) -> None:
    assert outage(told, "plain", "c-2")["censored"] == "blind"


# -- blind time ------------------------------------


def blind(spark: SparkSession, *records: bytes) -> list[tuple[str, datetime, datetime]]:
    told = computed(sightings(spark, records))
    names = {row["cluster_id"] for row in rows(told)}
    found = spans_of(intervals(told, Clusters(until=dict.fromkeys(names, moment("20:00")))))
    return [(span.cluster, span.begin, span.end) for span in found]


def test_nobody_looked_from_the_last_good_look_to_the_recovery(spark: SparkSession) -> None:
    names = ("first", "two observers", "died", "still")
    first, both, dead, still = [dict[str, Any](cluster=name) for name in names]
    assert blind(
        spark,
        unavailable(moment("10:00"), moment("10:01"), **first),
        recovered(moment("10:00"), moment("11:00"), **first),
        offline("orders", 1, moment("11:00"), prev_at=moment("10:00"), gap=True, **first),
        offline("orders", 2, moment("13:00"), prev_at=moment("12:00"), gap=True, **first),
        # Observer b looked while a could not, from 10:20 to 10:30.
        recovered(moment("10:00"), moment("11:00"), **both),
        offline("orders", 1, moment("10:30"), prev_at=moment("10:20"), observer="b", **both),
        # Its observer died, and another one started hours later.
        unavailable(moment("10:00"), moment("10:01"), **dead),
        created("new", moment("14:00"), 3, **dead),
        unavailable(moment("19:00"), moment("19:01"), **still),
        unavailable(moment("19:00"), moment("19:02"), observer="b", **still),
    ) == [
        ("died", moment("10:00"), moment("14:00")),
        ("first", moment("10:00"), moment("11:00")),
        ("first", moment("12:00"), moment("13:00")),
        ("still", moment("19:00"), moment("20:00")),
        ("two observers", moment("10:00"), moment("10:20")),
        ("two observers", moment("10:30"), moment("11:00")),
    ]


def test_a_cluster_is_out_where_all_that_watch_it_say_so(spark: SparkSession) -> None:
    def told_by(observer: str, cluster: str, *beats: str, lost: str = "", back: str = "") -> list[bytes]:
        """Return the records of an observer, which saw the cluster a minute before it lost it."""
        how: dict[str, Any] = {"cluster": cluster, "observer": observer}
        found = [beat(moment(one), **how) for one in beats]
        if lost:
            since = moment(lost) - timedelta(minutes=1)
            found.append(unavailable(since, moment(lost), **how))
            found += [recovered(since, moment(back), **how)] if back else []
        return found

    five = [f"{minute // 60:02}:{minute % 60:02}" for minute in range(595, 640, 5)]
    records = [
        *told_by("a", "alone", lost="10:01", back="10:30"),
        # From when the last of them says so, until the first one has an answer.
        *told_by("a", "both", "10:00", lost="10:01", back="10:20"),
        *told_by("b", "both", "10:00", lost="10:02", back="10:21"),
        # The second one goes on looking: it is the network of the first one.
        *told_by("a", "watched", lost="10:01", back="10:30"),
        *told_by("b", "watched", *five),
        # The observer never says how it ended: the next word of another one does.
        *told_by("a", "died", lost="10:01"),
        created("new", moment("14:00"), 3, observer="b", cluster="died"),
        # The second one is silent, and was taken to watch for two of its periods.
        *told_by("a", "silent", lost="10:01", back="10:30"),
        *told_by("b", "silent", "09:55", "10:00"),
        *told_by("a", "open", lost="19:01"),
        *told_by("b", "open", "19:00", lost="19:02"),
        # It is the last news.
        *told_by("a", "last", lost="20:00"),
        # The second one saw nothing since 10:00, and has its next summary with its next answer.
        *told_by("a", "resumed", lost="10:02", back="10:30"),
        *told_by("b", "resumed", "10:00", "10:20"),
        recovered(moment("10:00"), moment("10:20"), observer="b", cluster="resumed"),
        # What has changed meanwhile comes with the recovery, and is no other answer.
        *told_by("a", "changed", lost="10:01", back="10:30"),
        *told_by("b", "changed", "10:05"),
        left(1, moment("10:30"), prev_at=moment("10:00"), gap=True, cluster="changed"),
        # Neither has summaries; the first answer ends it all the same.
        *told_by("a", "quiet", lost="10:01", back="10:20"),
        *told_by("b", "quiet", lost="10:02", back="10:25"),
        *told_by("a", "moved", lost="10:01", back="10:30"),
        moved("t", 0, moment("10:20"), 1, 2, prev_at=moment("10:10"), observer="b", cluster="moved"),
    ]
    told, until = computed(sightings(spark, records)), moment("20:00")
    names = {row["cluster_id"] for row in rows(told)}
    found = rows(rows_of(spark, spans_of(outages(told, Clusters(until=dict.fromkeys(names, until))))))
    assert [tuple(row.values()) for row in found] == [
        ("alone", moment("10:01"), moment("10:30")),
        ("both", moment("10:02"), moment("10:20")),
        ("changed", moment("10:01"), moment("10:05")),
        ("changed", moment("10:15"), moment("10:30")),
        ("died", moment("10:01"), moment("14:00")),
        ("last", moment("20:00"), None),
        ("moved", moment("10:01"), moment("10:10")),
        ("moved", moment("10:20"), moment("10:30")),
        ("open", moment("19:02"), None),
        ("quiet", moment("10:01"), moment("10:20")),
        ("resumed", moment("10:02"), moment("10:20")),
        ("silent", moment("10:10"), moment("10:30")),
    ]
    assert shown("cluster_outages", found) == expected(records, until)["cluster_outages"]


# -- availability ------------------------------------

NAMES = (
    "partition_seconds",
    "offline_seconds_lo",
    "offline_seconds_hi",
    "blind_seconds",
    "incidents",
    "final",
)


@pytest.fixture(scope="module")
def hourly(told: Inputs) -> DataFrame:
    return computed(availability.hourly(told.lasting, Days(DAY, NEXT)))


def hour(hourly: DataFrame, topic: str, at: datetime, cluster: str = "c-1") -> tuple[Any, ...]:
    found = of(hourly, f"cluster_id = '{cluster}' AND topic = '{topic}'")
    (row,) = [row for row in found if row["hour"] == at]
    return tuple(row[name] for name in NAMES)


def test_an_hour_adds_up_partitions_and_is_a_range(hourly: DataFrame) -> None:
    # At least from 10:20 to 10:39:30, at most from 10:19:50 to 10:40.
    assert hour(hourly, "plain", moment("10:00")) == (36_000, 1170, 1210, 0, 1, True)
    (row,) = of(hourly, "cluster_id = 'c-1' AND topic = 'plain' AND incidents > 0")
    assert row["availability_lo"] == pytest.approx(1 - 1210 / 36_000)
    assert row["availability_hi"] == pytest.approx(1 - 1170 / 36_000)
    assert hour(hourly, "plain", moment("11:00")) == (36_000, 0, 0, 0, 0, True)


def test_what_is_open_is_offline_until_the_last_news_and_not_final(hourly: DataFrame) -> None:
    assert hour(hourly, "open", moment("12:00")) == (4 * 3600, 3600, 3600, 0, 1, False)
    assert hour(hourly, "open", moment("05:00", NEXT)) == (4 * 3600, 3600, 3600, 0, 0, False)
    assert hour(hourly, "plain", moment("04:00", NEXT))[-1]
    assert not hour(hourly, "plain", moment("05:00", NEXT))[-1]
    assert of(hourly, "hour >= '2026-11-21 06:00:00'") == []


def test_a_topic_of_unknown_size_has_no_availability(hourly: DataFrame) -> None:
    (row,) = of(hourly, "topic = 'unknown'")
    assert (row["offline_seconds_lo"], row["offline_seconds_hi"]) == (540, 600)
    assert (row["partition_seconds"], row["availability_lo"]) == (0, None)


# -- burn rates ------------------------------------


def test_burn_rates_are_errors_against_what_the_target_allows(told: Inputs) -> None:
    found = computed(slo_burn(evolve(told.lasting, target=0.99), TODAY))
    burn = {
        (row["cluster_id"], row["topic"], row["window_start"]): row
        for row in of(found, "topic = 'plain' OR topic IS NULL")
    }
    row = burn["c-1", "plain", moment("10:35")]  # at 10:40: 1 of 10 partitions, 300 s; at least 270 s
    assert row["burn_5m_hi"] == pytest.approx(300 / 3000 / 0.01)
    assert row["burn_5m_lo"] == pytest.approx(270 / 3000 / 0.01)
    assert row["burn_1h_hi"] == pytest.approx(1210 / 36_000 / 0.01)
    assert row["burn_6h_lo"] == pytest.approx(1170 / 216_000 / 0.01)
    assert row["burn_3d_lo"] == pytest.approx(1170 / (10 * (10 * 3600 + 2400)) / 0.01)  # since 00:00
    later = burn["c-1", "plain", moment("11:40")]
    assert (later["burn_5m_hi"], later["burn_1h_hi"]) == (0, 0)
    assert later["burn_6h_hi"] == pytest.approx(1210 / 216_000 / 0.01)
    # Before anything happened, a topic has no row; its cluster has.
    assert ("c-1", "plain", moment("10:00")) not in burn
    assert burn["c-1", None, moment("07:00")]["burn_3d_hi"] == 0
    # 22 partitions of all topics before 10:30: 10 + 2 + 6 + 4; 1 is offline from 10:20 on.
    assert burn["c-1", None, moment("10:20")]["burn_5m_hi"] == pytest.approx(1 / 22 / 0.01)
    assert burn["c-1", None, moment("10:30")]["burn_5m_hi"] == pytest.approx(1 / 28 / 0.01)
    blind = burn["c-2", "plain", moment("11:00")]
    assert (blind["burn_5m_hi"], blind["burn_1h_lo"]) == (None, pytest.approx(1 / 0.01))


# -- what is counted as it comes ------------------------------------


def test_skew_is_the_largest_and_the_spread_by_the_mean(told: Inputs) -> None:
    first, second, third, other = rows(gold_table("skew", told, TODAY))
    assert second == {
        "cluster_id": "c-3", "period_begin": moment("10:00"), "period_end": moment("10:05"),
        "at": moment("10:04:58"), "broker": 2, "rack": None, "leaders": 4, "replicas": 10,
        "offline_replicas": 0, "topics": 3, "partitions": 12, "offline": 0,
        "leaders_max_mean": 1.5, "leaders_cv": pytest.approx((8 / 3) ** 0.5 / 4),
        "replicas_max_mean": 1.0, "replicas_cv": 0.0, "day": DAY, "hour_of_day": 10,
    }  # fmt: skip
    assert (first["broker"], first["rack"], third["broker"]) == (1, "r1", 3)
    assert (other["cluster_id"], other["leaders_max_mean"], other["leaders_cv"]) == ("c-4", None, None)


def test_a_count_holds_until_the_next(told: Inputs) -> None:
    def spells(days: Days) -> list[dict[str, Any]]:
        return of(gold_table("partition_count_history", told, days), "topic = 'orders'")

    names = ("cluster_id", "topic_id", "valid_from", "valid_to", "count", "change_id")
    assert sorted(tuple(row[name] for name in names) for row in spells(TODAY)) == [
        ("c-3", "id-1", moment("00:00"), moment("10:00"), 6, None),
        ("c-3", "id-1", moment("10:00"), moment("12:00"), 12, "chg-7"),
        ("c-3", "id-2", moment("13:00"), moment("00:10", NEXT), 3, None),
        ("c-4", "orders-id", moment("05:00"), None, 1, None),
    ]
    (last,) = spells(Days(NEXT, NEXT))
    assert (last["topic_id"], last["valid_to"], last["day"]) == ("id-3", None, NEXT)
