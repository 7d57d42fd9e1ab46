"""Outages: the rules said plainly, and any part of the history on what stands for all before it."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.fleet_kit import computed, moment, of_sighting, offline, online, rows, sightings, time_of
from tests.outage_kit import Outage, World, batch, delivered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Outages = dict[tuple[str, str, int], list[tuple[Any, ...]]]
HOUR = timedelta(hours=1)


def told_of(spark: "SparkSession", records: Sequence[bytes]) -> "DataFrame":
    from kafka_partition_events.spark.gold import outages  # noqa: PLC0415

    return outages.states(sightings(spark, records))


def found_in(frame: "DataFrame") -> Outages:
    found: Outages = {}
    for row in sorted(rows(frame), key=lambda row: row["began_by"]):
        key = row["cluster_id"], row["topic"], row["partition"]
        found.setdefault(key, []).append(tuple(row[name] for name in Outage._fields))
    return found


@pytest.fixture(scope="module")
def worlds() -> dict[tuple[str, str], World]:
    """Forty topics of two clusters, most of them watched by several observers."""
    found = {}
    for number in range(40):
        world = World(random.Random(number), observers=1 + number % 3, steps=60)
        world.run()
        found[f"c-{number % 2}", f"t-{number // 2}"] = world
    return found


@pytest.fixture(scope="module")
def told(spark: "SparkSession", worlds: dict[tuple[str, str], World]) -> "DataFrame":
    """All that they tell, some of it twice, in no order."""
    chance = random.Random(1)
    records = [
        of_sighting(one, cluster, topic)
        for (cluster, topic), world in worlds.items()
        for one in delivered(world.told, chance, disorder_s=0)
    ]
    chance.shuffle(records)
    return computed(told_of(spark, records))


def test_the_rules_said_plainly_are_those_of_the_computation(
    told: "DataFrame", worlds: dict[tuple[str, str], World]
) -> None:
    from kafka_partition_events.spark.gold import outages  # noqa: PLC0415

    assert found_in(outages.all_outages(told)) == {
        (cluster, topic, partition): [
            tuple(time_of(value) if isinstance(value, int) else value for value in outage)
            for outage in outages_
        ]
        for (cluster, topic), world in worlds.items()
        for partition, outages_ in batch(world.told).items()
    }


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


def test_topics_of_two_clusters_do_not_mix(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.gold import outages  # noqa: PLC0415

    told = told_of(
        spark,
        [
            offline("orders", 1, moment("10:00"), cluster="a"),
            online("orders", 1, moment("10:05"), cluster="b"),
            offline("orders", 1, moment("10:10"), cluster="b"),
            online("orders", 1, moment("10:15"), cluster="a"),
        ],
    )
    found = rows(outages.all_outages(told))
    assert [(row["cluster_id"], row["began_by"], row["ended_by"]) for row in found] == [
        ("a", moment("10:00"), moment("10:15")),
        ("b", moment("10:10"), None),
    ]
