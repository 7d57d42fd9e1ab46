"""Outages: as plain Python finds them, and any part of the history on what stands for all before it."""

import random
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.gold import outages
from tests.fleet_kit import computed, rows, sightings
from tests.fleet_oracle import expected, shown
from tests.outage_kit import World

pytestmark = pytest.mark.spark

Outages = dict[tuple[str, str, int], list[tuple[Any, ...]]]
HOUR = timedelta(hours=1)
BOUNDS = ("began_after", "began_by", "ended_after", "ended_by", "ended_with")


def found_in(frame: DataFrame) -> Outages:
    found: Outages = {}
    for row in sorted(rows(frame), key=lambda row: row["began_by"]):
        key = row["cluster_id"], row["topic"], row["partition"]
        found.setdefault(key, []).append(tuple(row[name] for name in BOUNDS))
    return found


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    """What observers say of forty topics of two clusters, most of them watched by several observers.

    Some of it twice, in no order.
    """
    chance = random.Random(1)
    found = list[bytes]()
    for number in range(40):
        world = World(random.Random(number), f"c-{number % 2}", f"t-{number // 2}", observers=1 + number % 3)
        for _, value in world.run():
            found += [value] * (2 if chance.random() < 0.1 else 1)
    chance.shuffle(found)
    return found


@pytest.fixture(scope="module")
def told(spark: SparkSession, records: list[bytes]) -> DataFrame:
    return computed(outages.states(sightings(spark, records)))


def test_plain_python_finds_the_same(told: DataFrame, records: list[bytes]) -> None:
    found = shown("partition_outages", rows(outages.all_outages(told)))
    assert found == expected(records)["partition_outages"]


@pytest.mark.parametrize("cut", [0.2, 0.8])
def test_a_part_of_the_history_on_what_stands_for_all_before_is_a_part_of_the_whole(
    told: DataFrame, cut: float
) -> None:
    """What stands for the beginning is found in two steps, as from day to day."""
    first, last = (told.agg(bound("at").alias("at")).toArrow()[0][0].as_py() for bound in (F.min, F.max))
    middle, end = (first + (last - first) * part for part in (cut / 2, cut))

    def between(begin: datetime, until: datetime) -> DataFrame:
        return told.where((F.col("at") >= F.lit(begin)) & (F.col("at") < F.lit(until)))

    early = between(first, middle)
    known = computed(outages.standing_of(outages.runs_of(early), early))
    runs = outages.runs_of(between(middle - HOUR, end), known, middle)
    known = computed(outages.standing_of(runs, between(middle, end), known))
    assert known.count() < early.count()

    whole = found_in(outages.all_outages(told))
    rows_later = computed(outages.outages_of(outages.runs_of(between(end - HOUR, last + HOUR), known, end)))
    later = found_in(rows_later)
    assert later
    # One of which there is no news is what it was without any.
    before = found_in(outages.outages_of(outages.runs_of(told.limit(0), known, end)))
    same = found_in(rows_later.where((F.col("began_by") < F.lit(end)) & ~F.col("news")))
    assert same
    for key, outages_ in same.items():
        assert {*outages_} <= {*before[key]}
    for key, outages_ in later.items():
        # What had not ended then, and at most one that had, for something may be told of its end.
        assert outages_ == whole[key][-len(outages_) :]
    for key, outages_ in whole.items():
        since = [outage for outage in outages_ if outage[3] is None or outage[3] >= end]
        assert not since or later[key][-len(since) :] == since
