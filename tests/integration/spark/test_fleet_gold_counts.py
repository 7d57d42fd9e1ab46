"""What gold counts of events as they come, on worked examples: skew, partition counts."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kafka_partition_events.spark.tables.days import Days
from tests.fleet_kit import DAY, Inputs, created, gold_table, grown, inputs, moment, record, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NEXT = DAY + timedelta(days=1)
TODAY = Days(DAY, DAY)


def summary(at: datetime, cluster: str = "c-1") -> bytes:
    """Return what three brokers held; in the second cluster there is one, which holds nothing."""
    brokers: list[dict[str, Any]] = [
        {"broker": number, "rack": rack, "leaders": leaders, "replicas": 10, "offline_replicas": 0}
        for number, rack, leaders in ((1, "r1", 2), (2, None, 4), (3, None, 6))
    ]
    told: dict[str, Any] = {
        "period": {"begin": "2026-11-20T10:00:00Z", "end": "2026-11-20T10:05:00Z"},
        "brokers": brokers if cluster == "c-1" else [{"broker": 1, "leaders": 0, "replicas": 0}],
        "topics": 3, "partitions": 12, "offline": 0,
    }  # fmt: skip
    return record("cluster.summary", at, cluster=cluster, **told)


SUMMARIES = [
    summary(moment("10:04:58")),
    summary(moment("10:04:58"), "c-2"),
    summary(moment("10:04:58", NEXT)),
]

COUNTS = [
    created("orders", moment("00:00"), 6, topic_id=None),
    created("orders", moment("01:00"), 6, topic_id=None, observer="b"),  # told again: no new row
    record("topic.identified", moment("02:00"), topic="orders", topic_id="id-1", after={"count": 6}),
    grown("orders", moment("10:00"), 12, topic_id="id-1", planned=True, change_id="chg-7"),
    record("topic.deleted", moment("12:00"), topic="orders", topic_id="id-1", before={"count": 12}),
    created("orders", moment("13:00"), 3, topic_id="id-2", initial=False),
    record("topic.recreated", moment("00:10", NEXT), topic="orders", topic_id="id-3", after={"count": 3}),
    created("orders", moment("05:00"), 1, cluster="c-2"),
]


@pytest.fixture(scope="module")
def told(spark: "SparkSession") -> Inputs:
    """All of it at once, for each table reads events of its own."""
    return inputs(spark, [*SUMMARIES, *COUNTS], moment("12:00", NEXT))


def test_skew_is_the_largest_and_the_spread_by_the_mean(told: Inputs) -> None:
    first, second, third, other = rows(gold_table("skew", told, TODAY))
    assert second == {
        "cluster_id": "c-1", "period_begin": moment("10:00"), "period_end": moment("10:05"),
        "at": moment("10:04:58"), "broker": 2, "rack": None, "leaders": 4, "replicas": 10,
        "offline_replicas": 0, "topics": 3, "partitions": 12, "offline": 0,
        "leaders_max_mean": 1.5, "leaders_cv": pytest.approx((8 / 3) ** 0.5 / 4),
        "replicas_max_mean": 1.0, "replicas_cv": 0.0, "day": DAY, "hour_of_day": 10,
    }  # fmt: skip
    assert (first["broker"], first["rack"], third["broker"]) == (1, "r1", 3)
    assert (other["cluster_id"], other["leaders_max_mean"], other["leaders_cv"]) == ("c-2", None, None)


def test_a_count_holds_until_the_next(told: Inputs) -> None:
    names = ("cluster_id", "topic_id", "valid_from", "valid_to", "count", "change_id")
    found = [
        tuple(row[name] for name in names) for row in rows(gold_table("partition_count_history", told, TODAY))
    ]
    assert sorted(found) == [
        ("c-1", "id-1", moment("00:00"), moment("10:00"), 6, None),
        ("c-1", "id-1", moment("10:00"), moment("12:00"), 12, "chg-7"),
        ("c-1", "id-2", moment("13:00"), moment("00:10", NEXT), 3, None),
        ("c-2", "orders-id", moment("05:00"), None, 1, None),
    ]
    (last,) = rows(gold_table("partition_count_history", told, Days(NEXT, NEXT)))
    assert (last["topic_id"], last["valid_to"], last["day"]) == ("id-3", None, NEXT)
