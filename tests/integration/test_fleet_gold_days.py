"""Any part of a gold table is that part of the whole: hour by hour, or all at once."""

import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from kafka_partition_events.spark.fleet.days import Days, Hours
from tests.fleet_kit import (
    DAY,
    grown,
    inputs,
    moment,
    moved,
    of_sighting,
    record,
    recovered,
    rows,
    unavailable,
)
from tests.outage_kit import START, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.spark.fleet.inputs import Inputs

pytestmark = pytest.mark.spark

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
def test_hours_computed_by_themselves_are_hours_computed_together(history: "Inputs", name: str) -> None:
    from kafka_partition_events.spark.fleet.gold import TABLES  # noqa: PLC0415

    table, whole = TABLES[name], Days(DAYS[0], DAYS[-1])
    first, last = whole.hours.first, whole.hours.last
    # Of a table without hours only whole days make sense.
    cut = first + (24 if "hour_of_day" not in table(history, whole).columns else 37)
    in_parts = rows(table(history, Hours(first, cut - 1)).unionByName(table(history, Hours(cut, last))))
    together = rows(table(history, whole))
    assert in_parts == together
    assert len({row["day"] for row in together}) > 1


def test_every_table_is_tested_hour_by_hour() -> None:
    from kafka_partition_events.spark.fleet.gold import TABLES  # noqa: PLC0415

    assert set(TABLES) == set(TABLE_NAMES)
