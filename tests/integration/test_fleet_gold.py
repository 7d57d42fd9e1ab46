"""The gold tables on worked examples, every number computed by hand; days one by one and all at once."""

import random
from datetime import datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest

from kafka_partition_events.spark.fleet.days import Days
from tests.fleet_kit import (
    DAY,
    computed,
    created,
    grown,
    inputs,
    moment,
    moved,
    of_sighting,
    offline,
    online,
    record,
    rows,
    sightings,
    time_of,
)
from tests.outage_kit import START, World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_partition_events.spark.fleet.inputs import Inputs

pytestmark = pytest.mark.spark

NEXT = DAY + timedelta(days=1)
TODAY = Days(DAY, DAY)


def recovered(since: datetime, at: datetime, **how: Any) -> bytes:
    return record("metadata.recovered", at, prev_at=since, attempts=3, **how)


def unavailable(since: datetime, at: datetime, **how: Any) -> bytes:
    return record("metadata.unavailable", at, prev_at=since, error="no route", **how)


def left(broker: int, at: datetime, prev_at: datetime | None = None, **how: Any) -> bytes:
    return record("broker.left", at, prev_at=prev_at, broker=broker, **how)


@pytest.fixture(scope="module")
def told(spark: "SparkSession") -> "Inputs":
    """Several stories, each a topic or a cluster of its own: one computation takes as long as many.

    In cluster ``c-1``, watched all the time:

    - ``plain``: 10 partitions; partition 1 offline from 10:20 (seen from 10:19:50) to 10:40 (10:39:30)
    - ``midnight``: 2 partitions; partition 0 offline from 23:30 to 00:30
    - ``growing``: 6 partitions, 12 from 10:30 on
    - ``open``: 4 partitions; partition 3 offline since 12:00, not over at the last news
    - ``unknown``: nobody tells how many partitions it has; partition 0 offline from 08:00 to 08:10

    In cluster ``c-2`` nobody looked from 10:30 to 11:30:

    - ``plain``: 1 partition, offline from 10:00 to 12:00
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
    ]
    return inputs(spark, records, moment("06:00", NEXT))


def of(frame: "DataFrame", where: str) -> list[dict[str, Any]]:
    return rows(frame.where(where))


# -- outages ----------------------------------------------------


def outage(told: "Inputs", topic: str, cluster: str = "c-1") -> dict[str, Any]:
    (row,) = of(told.outages, f"cluster_id = '{cluster}' AND topic = '{topic}'")
    return row


def test_an_outage_knows_its_leaders_and_the_broker_that_left(told: "Inputs") -> None:
    assert outage(told, "plain") == {
        "cluster_id": "c-1", "topic": "plain", "partition": 1,
        "began_after": moment("10:19:50"), "began_by": moment("10:20"),
        "ended_after": moment("10:39:30"), "ended_by": moment("10:40"), "ended_with": "partition.online",
        "leader_before": 2, "leader_after": 3, "cause_broker": 2, "censored": None, "day": DAY,
    }  # fmt: skip


def test_a_broker_that_left_an_hour_before_is_no_cause(told: "Inputs") -> None:
    row = outage(told, "open")
    assert (row["leader_before"], row["cause_broker"], row["censored"]) == (4, None, "open")


def test_a_leader_that_nobody_saw_is_unknown(told: "Inputs") -> None:
    row = outage(told, "unknown")
    assert (row["began_after"], row["leader_before"], row["leader_after"]) == (None, None, 2)


def test_an_outage_in_which_nobody_looked_is_censored(told: "Inputs") -> None:
    assert outage(told, "plain", "c-2")["censored"] == "blind"


# -- blind time ------------------------------------


def blind(spark: "SparkSession", *records: bytes) -> list[tuple[str, datetime, datetime]]:
    from kafka_partition_events.spark.fleet.blind import intervals  # noqa: PLC0415

    found = rows(intervals(sightings(spark, records), moment("20:00")))
    return [(row["cluster_id"], time_of(row["begin"]), time_of(row["end"])) for row in found]


def test_nobody_looked_from_the_last_good_look_to_the_recovery(spark: "SparkSession") -> None:
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
def hourly(told: "Inputs") -> "DataFrame":
    from kafka_partition_events.spark.fleet.availability import hourly  # noqa: PLC0415

    return computed(hourly(told, Days(DAY, NEXT)))


def hour(hourly: "DataFrame", topic: str, at: datetime, cluster: str = "c-1") -> tuple[Any, ...]:
    found = of(hourly, f"cluster_id = '{cluster}' AND topic = '{topic}'")
    (row,) = [row for row in found if row["hour"] == at]
    return tuple(row[name] for name in NAMES)


def test_an_hour_adds_up_partitions_and_is_a_range(hourly: "DataFrame") -> None:
    # At least from 10:20 to 10:39:30, at most from 10:19:50 to 10:40.
    assert hour(hourly, "plain", moment("10:00")) == (36_000, 1170, 1210, 0, 1, True)
    (row,) = of(hourly, "cluster_id = 'c-1' AND topic = 'plain' AND incidents > 0")
    assert row["availability_lo"] == pytest.approx(1 - 1210 / 36_000)
    assert row["availability_hi"] == pytest.approx(1 - 1170 / 36_000)
    assert hour(hourly, "plain", moment("11:00")) == (36_000, 0, 0, 0, 0, True)


def test_an_outage_over_midnight_counts_on_both_days(told: "Inputs", hourly: "DataFrame") -> None:
    from kafka_partition_events.spark.fleet.availability import daily  # noqa: PLC0415

    assert hour(hourly, "midnight", moment("23:00")) == (7200, 1800, 1801, 0, 1, True)
    assert hour(hourly, "midnight", moment("00:00", NEXT)) == (7200, 1799, 1800, 0, 0, True)
    found = of(daily(told, Days(DAY, NEXT)), "topic = 'midnight'")
    assert [(row["day"], *(row[name] for name in NAMES)) for row in found] == [
        (DAY, 2 * 86_400, 1800, 1801, 0, 1, True),
        (NEXT, 2 * 6 * 3600, 1799, 1800, 0, 0, False),  # until the last news, at 06:00
    ]


def test_a_topic_that_grows_within_an_hour_has_more_from_then_on(hourly: "DataFrame") -> None:
    assert hour(hourly, "growing", moment("10:00"))[0] == 6 * 1800 + 12 * 1800
    assert hour(hourly, "growing", moment("11:00"))[0] == 12 * 3600


def test_blind_time_within_an_outage_is_neither_up_nor_down(hourly: "DataFrame") -> None:
    assert hour(hourly, "plain", moment("10:00"), "c-2") == (3600, 1800, 1800, 1800, 1, True)
    assert hour(hourly, "plain", moment("11:00"), "c-2") == (3600, 1799, 1800, 1800, 0, True)
    assert hour(hourly, "plain", moment("12:00"), "c-2") == (3600, 0, 0, 0, 0, True)


def test_what_is_open_is_offline_until_the_last_news_and_not_final(hourly: "DataFrame") -> None:
    assert hour(hourly, "open", moment("12:00")) == (4 * 3600, 3600, 3600, 0, 1, False)
    assert hour(hourly, "open", moment("05:00", NEXT)) == (4 * 3600, 3600, 3600, 0, 0, False)
    assert hour(hourly, "plain", moment("04:00", NEXT))[-1]
    assert not hour(hourly, "plain", moment("05:00", NEXT))[-1]
    assert of(hourly, "hour >= '2026-11-21 06:00:00'") == []


def test_a_topic_of_unknown_size_has_no_availability(hourly: "DataFrame") -> None:
    (row,) = of(hourly, "topic = 'unknown'")
    assert (row["offline_seconds_lo"], row["offline_seconds_hi"]) == (540, 600)
    assert (row["partition_seconds"], row["availability_lo"]) == (0, None)


# -- burn rates ------------------------------------


def test_burn_rates_are_errors_against_what_the_target_allows(told: "Inputs") -> None:
    from kafka_partition_events.spark.fleet.slo_burn import slo_burn  # noqa: PLC0415

    found = computed(slo_burn(told, TODAY, target=0.99))
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


@pytest.mark.parametrize("target", [0, 1, 99.9])
def test_a_target_that_is_no_part_of_the_time_is_an_error(target: float) -> None:
    from kafka_partition_events.spark.fleet.slo_burn import with_target  # noqa: PLC0415

    with pytest.raises(ValueError, match="between 0 and 1"):
        with_target(target)


# -- churn, skew, counts, reroutes ------------------------------------


def test_a_broker_that_loses_ten_leaders_has_ten_moves_from(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.fleet.leader_churn import leader_churn  # noqa: PLC0415

    records = [moved("orders", number, moment("10:02"), 2, 1 + 2 * (number % 2)) for number in range(10)]
    records += [
        moved("orders", 0, moment("10:07"), 3, 2),  # the next window
        moved("orders", 1, moment("10:04:59.9"), 3, 3),  # the same leader in a new epoch
        moved("orders", 1, moment("10:02"), 2, 9, cluster="c-2"),
        moved("orders", 5, moment("10:02", NEXT), 2, 1),
    ]
    found = leader_churn(inputs(spark, records, moment("12:00")), TODAY)
    names = ("cluster_id", "broker", "window_start", "moves_from", "moves_to", "reelections")
    assert [tuple(row[name] for name in names) for row in rows(found)] == [
        ("c-1", 1, moment("10:00"), 0, 5, 0),
        ("c-1", 2, moment("10:00"), 10, 0, 0),
        ("c-1", 2, moment("10:05"), 0, 1, 0),
        ("c-1", 3, moment("10:00"), 0, 5, 1),
        ("c-1", 3, moment("10:05"), 1, 0, 0),
        ("c-2", 2, moment("10:00"), 1, 0, 0),
        ("c-2", 9, moment("10:00"), 0, 1, 0),
    ]


def test_skew_is_the_largest_and_the_spread_by_the_mean(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.fleet.skew import skew  # noqa: PLC0415

    brokers = [
        {"broker": number, "rack": rack, "leaders": leaders, "replicas": 10, "offline_replicas": 0}
        for number, rack, leaders in ((1, "r1", 2), (2, None, 4), (3, None, 6))
    ]
    summary: dict[str, Any] = {
        "period": {"begin": "2026-11-20T10:00:00Z", "end": "2026-11-20T10:05:00Z"},
        "brokers": brokers, "topics": 3, "partitions": 12, "offline": 0,
    }  # fmt: skip
    idle = {**summary, "brokers": [{"broker": 1, "leaders": 0, "replicas": 0}]}
    records = [
        record("cluster.summary", moment("10:04:58"), **summary),
        record("cluster.summary", moment("10:04:58"), cluster="c-2", **idle),
        record("cluster.summary", moment("10:04:58", NEXT), **summary),
    ]
    first, second, third, other = rows(skew(inputs(spark, records, moment("12:00")), TODAY))
    assert second == {
        "cluster_id": "c-1", "period_begin": moment("10:00"), "period_end": moment("10:05"),
        "at": moment("10:04:58"), "broker": 2, "rack": None, "leaders": 4, "replicas": 10,
        "offline_replicas": 0, "topics": 3, "partitions": 12, "offline": 0,
        "leaders_max_mean": 1.5, "leaders_cv": pytest.approx((8 / 3) ** 0.5 / 4),
        "replicas_max_mean": 1.0, "replicas_cv": 0.0, "day": DAY,
    }  # fmt: skip
    assert (first["broker"], first["rack"], third["broker"]) == (1, "r1", 3)
    assert (other["cluster_id"], other["leaders_max_mean"], other["leaders_cv"]) == ("c-2", None, None)


def test_a_count_holds_until_the_next(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.fleet.partition_counts import partition_count_history  # noqa: PLC0415

    records = [
        created("orders", moment("00:00"), 6, topic_id=None),
        created("orders", moment("01:00"), 6, topic_id=None, observer="b"),  # told again: no new row
        record("topic.identified", moment("02:00"), topic="orders", topic_id="id-1", after={"count": 6}),
        grown("orders", moment("10:00"), 12, topic_id="id-1"),
        record("topic.deleted", moment("12:00"), topic="orders", topic_id="id-1", before={"count": 12}),
        created("orders", moment("13:00"), 3, topic_id="id-2", initial=False),
        record("topic.recreated", moment("00:10", NEXT), topic="orders", topic_id="id-3", after={"count": 3}),
        created("orders", moment("05:00"), 1, cluster="c-2"),
    ]
    told = inputs(spark, records, moment("12:00", NEXT))
    names = ("cluster_id", "topic_id", "valid_from", "valid_to", "count", "day")
    found = [tuple(row[name] for name in names) for row in rows(partition_count_history(told, TODAY))]
    assert sorted(found) == [
        ("c-1", "id-1", moment("00:00"), moment("10:00"), 6, DAY),
        ("c-1", "id-1", moment("10:00"), moment("12:00"), 12, DAY),
        ("c-1", "id-2", moment("13:00"), moment("00:10", NEXT), 3, DAY),
        ("c-2", "orders-id", moment("05:00"), None, 1, DAY),
    ]
    (last,) = rows(partition_count_history(told, Days(NEXT, NEXT)))
    assert (last["topic_id"], last["valid_to"], last["day"]) == ("id-3", None, NEXT)


def test_reroutes_are_added_up_by_the_hour(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.fleet.reroutes import reroutes  # noqa: PLC0415

    def counters(at: datetime, client: str = "app", **topics: dict[str, int]) -> bytes:
        listed = [{"topic": topic, **counts} for topic, counts in topics.items()]
        return record("producer.counters", at, client=client, topics=listed)

    records = [
        counters(moment("10:10"), orders={"sent": 100, "rerouted": 5, "avoided": 1}, others={"sent": 7}),
        counters(moment("10:50"), orders={"sent": 50, "rerouted": 0, "capped": 2, "rescued": 3}),
        counters(moment("11:00"), orders={"sent": 1}),
        counters(moment("10:30"), client="another", orders={"sent": 9}),
    ]
    found = rows(reroutes(inputs(spark, records, moment("12:00")), TODAY))
    names = ("topic", "client", "hour", "sent", "rerouted", "avoided", "capped", "rescued")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("orders", "another", moment("10:00"), 9, 0, 0, 0, 0),
        ("orders", "app", moment("10:00"), 150, 5, 1, 2, 3),
        ("orders", "app", moment("11:00"), 1, 0, 0, 0, 0),
        ("others", "app", moment("10:00"), 7, 0, 0, 0, 0),
    ]


# -- day by day ------------------------------------

DAYS = [DAY + timedelta(days=number) for number in range(3)]
TABLE_NAMES = (
    "availability_hourly", "availability_daily", "slo_burn", "leader_churn", "skew",
    "partition_count_history", "reroutes",
)  # fmt: skip


@pytest.fixture(scope="module")
def history(spark: "SparkSession") -> "Inputs":
    """Three days of eight topics in two clusters, with outages of seconds and of days, and blind time."""
    chance = random.Random(11)
    end = moment("20:00", DAYS[-1])

    def some_time() -> datetime:
        return moment("00:00") + timedelta(seconds=chance.randrange(68 * 3600))

    records: list[bytes] = []
    for number in range(8):
        cluster, topic = f"c-{number % 2}", f"t-{number // 2}"
        world = World(chance, observers=2, steps=60, longest_gap_s=8000.0).run()
        records += [of_sighting(one, cluster, topic) for one in world if one.at < START + 58 * 3600 * 10**6]
        records += [grown(topic, some_time(), count, cluster=cluster) for count in (7, 9)]
        records += [
            moved(topic, chance.randrange(5), some_time(), chance.randrange(3), chance.randrange(3),
                  cluster=cluster) for _ in range(50)
        ]  # fmt: skip
    for number in range(12):
        begin, cluster = some_time(), f"c-{number % 2}"
        records.append(recovered(begin, begin + timedelta(seconds=chance.randrange(9000)), cluster=cluster))
        records.append(unavailable(begin, begin + timedelta(seconds=5), cluster=cluster))
        brokers = [{"broker": 1, "leaders": number, "replicas": 3}]
        records.append(record("cluster.summary", some_time(), cluster=cluster, brokers=brokers))
        counted = [{"topic": "t-1", "sent": number}]
        records.append(record("producer.counters", some_time(), cluster=cluster, client="x", topics=counted))
    return inputs(spark, records, end)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_days_computed_by_themselves_are_days_computed_together(history: "Inputs", name: str) -> None:
    from kafka_partition_events.spark.fleet.gold import TABLES, inputs_of, narrowed  # noqa: PLC0415

    table = TABLES[name]
    each = []
    for days in (Days(DAYS[0], DAYS[0]), Days(DAYS[1], DAYS[2])):
        near = narrowed(history, days)
        # When nobody looked must follow from what is near, too.
        each.append(table(inputs_of(near.events, near.outages, near.until), days))
    in_parts = rows(reduce(lambda some, more: some.unionByName(more), each))
    together = rows(table(history, Days(DAYS[0], DAYS[-1])))
    assert in_parts == together
    assert len({row["day"] for row in together}) > 1


def test_every_table_is_tested_day_by_day() -> None:
    from kafka_partition_events.spark.fleet.gold import DAYS_AFTER, TABLES, WHOLE  # noqa: PLC0415

    assert set(TABLES) == set(TABLE_NAMES)
    assert (WHOLE | DAYS_AFTER.keys()) <= TABLES.keys()
