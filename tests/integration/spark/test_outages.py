"""Outages: as plain Python finds them, and any part of the history on what stands for all before it."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.fleet_kit import computed, of_sighting, rows, sightings
from tests.fleet_oracle import expected, shown
from tests.outage_kit import World, delivered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Outages = dict[tuple[str, str, int], list[tuple[Any, ...]]]
HOUR = timedelta(hours=1)
BOUNDS = ("began_after", "began_by", "ended_after", "ended_by", "ended_with")


def told_of(spark: "SparkSession", records: Sequence[bytes]) -> "DataFrame":
    from kafka_partition_events.spark.gold import outages  # noqa: PLC0415

    return outages.states(sightings(spark, records))


def found_in(frame: "DataFrame") -> Outages:
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
    found = []
    for number in range(40):
        told = World(random.Random(number), observers=1 + number % 3, steps=60).run()
        place = f"c-{number % 2}", f"t-{number // 2}"
        found += [of_sighting(one, *place) for one in delivered(told, chance, disorder_s=0)]
    chance.shuffle(found)
    return found


@pytest.fixture(scope="module")
def told(spark: "SparkSession", records: list[bytes]) -> "DataFrame":
    return computed(told_of(spark, records))


def test_plain_python_finds_the_same(told: "DataFrame", records: list[bytes]) -> None:
    from kafka_partition_events.spark.gold import outages  # noqa: PLC0415

    found = shown("partition_outages", rows(outages.all_outages(told)))
    assert found == expected(records)["partition_outages"]


@pytest.mark.parametrize("cut", [0.2, 0.8])
def test_a_part_of_the_history_on_what_stands_for_all_before_is_a_part_of_the_whole(
    told: "DataFrame", cut: float
) -> None:
    """What stands for the beginning is found in two steps, as from day to day."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from kafka_partition_events.spark.gold import outages  # noqa: PLC0415

    first, last = (told.agg(bound("at").alias("at")).toArrow()[0][0].as_py() for bound in (F.min, F.max))
    middle, end = (first + (last - first) * part for part in (cut / 2, cut))

    def between(begin: datetime, until: datetime) -> "DataFrame":
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
