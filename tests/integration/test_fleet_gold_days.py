"""Gold tables follow from their days and those near them: days one by one are days all at once."""

import random
from datetime import datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from kafka_partition_events.spark.fleet.days import Days
from tests.fleet_kit import (
    DAY,
    computed,
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


@pytest.fixture(scope="module")
def parts(history: "Inputs") -> "list[tuple[Days, Inputs]]":
    """What tables need of the first day, and of the two after it."""
    from kafka_partition_events.spark.fleet.gold import inputs_of, narrowed  # noqa: PLC0415

    found = []
    for days in (Days(DAYS[0], DAYS[0]), Days(DAYS[1], DAYS[2])):
        near = narrowed(history, days)
        # When nobody looked must follow from what is near, too.
        near = inputs_of(computed(near.events), computed(near.outages), near.until)
        found.append((days, evolve(near, blind=computed(near.blind), counts=computed(near.counts))))
    return found


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_days_computed_by_themselves_are_days_computed_together(
    history: "Inputs", parts: "list[tuple[Days, Inputs]]", name: str
) -> None:
    from kafka_partition_events.spark.fleet.gold import TABLES  # noqa: PLC0415

    table = TABLES[name]
    each = [table(near, days) for days, near in parts]
    in_parts = rows(reduce(lambda some, more: some.unionByName(more), each))
    together = rows(table(history, Days(DAYS[0], DAYS[-1])))
    assert in_parts == together
    assert len({row["day"] for row in together}) > 1


def test_every_table_is_tested_day_by_day() -> None:
    from kafka_partition_events.spark.fleet.gold import DAYS_AFTER, TABLES, WHOLE  # noqa: PLC0415

    assert set(TABLES) == set(TABLE_NAMES)
    assert (WHOLE | DAYS_AFTER.keys()) <= TABLES.keys()
