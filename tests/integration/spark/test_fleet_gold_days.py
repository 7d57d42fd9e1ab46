"""Any part of a gold table is that part of the whole, by the hour or at once. Plain Python finds the same."""

import random
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_partition_events.spark.tables.days import Days, Hours
from tests.fleet_kit import (
    DAY,
    TABLES,
    Inputs,
    beat,
    gold_table,
    grown,
    inputs,
    left,
    moment,
    moved,
    record,
    recovered,
    rows,
    unavailable,
)
from tests.fleet_oracle import COLUMNS, Row, expected, shown
from tests.outage_kit import START, World

pytestmark = pytest.mark.spark

DAYS = [DAY + timedelta(days=number) for number in range(3)]
END = moment("20:00", DAYS[-1])


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    """Three days of eight topics in two clusters, with outages of seconds and of days, and blind time."""
    chance = random.Random(11)

    def some_time() -> datetime:
        return moment("00:00") + timedelta(seconds=chance.randrange(68 * 3600))

    records: list[bytes] = []
    for number in range(8):
        cluster, topic = f"c-{number % 2}", f"t-{number // 2}"
        world = World(chance, cluster, topic, longest_gap_s=8000.0).run()
        records += [value for at, value in world if at < START + timedelta(hours=58)]
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
    for _ in range(80):  # three observers of a third cluster; not all that they wrote is there
        begin, second = some_time(), timedelta(seconds=1)
        back = begin + chance.randrange(60, 9000) * second
        how: dict[str, Any] = {"cluster": "c-2", "observer": chance.choice("abc")}
        written = [
            unavailable(begin, begin + 10 * second, **how), recovered(begin, back, **how), beat(back, **how),
            left(1, back, prev_at=begin, gap=True, **how), beat(begin, **how),
        ]  # fmt: skip
        records += chance.sample(written, 4)
    return records


@pytest.fixture(scope="module")
def history(spark: SparkSession, records: list[bytes]) -> Inputs:
    return inputs(spark, records, END)


@pytest.fixture(scope="module")
def wanted(records: list[bytes]) -> dict[str, list[Row]]:
    return expected(records, END)


@pytest.mark.parametrize("name", TABLES)
def test_hours_computed_by_themselves_are_hours_computed_together(
    history: Inputs, wanted: dict[str, list[Row]], name: str
) -> None:
    table, whole = partial(gold_table, name, history), Days(DAYS[0], DAYS[-1])
    hours = Hours.touched(whole.begin, whole.end - timedelta(microseconds=1))
    first, last = hours.first, hours.last
    # Of a table without hours only whole days make sense.
    cut = first + (24 if "hour_of_day" not in table(whole).columns else 37)
    in_parts = rows(table(Hours(first, cut - 1)).unionByName(table(Hours(cut, last))))
    together = rows(table(whole))
    assert in_parts == together
    assert len({row["day"] if "day" in row else row["began"].date() for row in together}) > 1
    if name in COLUMNS:
        assert shown(name, together) == wanted[name]
