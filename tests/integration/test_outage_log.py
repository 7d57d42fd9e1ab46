"""Outages from a stream, held against the batch computation; several clusters in one topic of events."""

import os
import random
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_partition_events.spark.fleet.outage_spells import Outage
from tests.fleet_kit import moment, of_sighting, offline, online, rows, sightings, time_of
from tests.outage_kit import World, batch, delivered, split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

LATE = timedelta(days=400)


@pytest.fixture(scope="module")
def stateful(spark: "SparkSession") -> "SparkSession":
    """The session, able to keep state for Python."""
    from kafka_partition_events.spark.fleet.outage_log import SETTINGS  # noqa: PLC0415

    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    return spark


def streamed(
    spark: "SparkSession", batches: Sequence[Sequence[bytes]], path: Path, late: timedelta = LATE
) -> "DataFrame":
    """Return the log of a query that reads one file in each batch."""
    from kafka_partition_events.spark import events  # noqa: PLC0415
    from kafka_partition_events.spark.fleet.outage_log import log  # noqa: PLC0415

    (path / "records").mkdir(parents=True)
    for number, records in enumerate(batches):
        file = path / "records" / f"{number:03}"
        file.write_bytes(b"\n".join(records))
        os.utime(file, (number + 1, number + 1))  # the order in which Spark takes them
    lines = (
        spark.readStream.schema("value STRING")
        .option("maxFilesPerTrigger", 1)
        .text(str(path / "records"))
        .where("value != ''")
    )
    words = log(events.good(events.parse(lines)), late=late)
    query = (
        words.writeStream.format("parquet")
        .option("path", str(path / "log"))
        .option("checkpointLocation", str(path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180)
    return spark.read.schema(words.schema).parquet(str(path / "log"))


@settings(max_examples=2)
@given(seed=st.integers(0, 2**48))
def test_a_stream_says_what_the_batch_computation_says(
    stateful: "SparkSession", tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Twenty topics of two clusters, told in any order, some of it twice, in four batches."""
    from kafka_partition_events.spark import outages  # noqa: PLC0415
    from kafka_partition_events.spark.fleet.outage_log import latest  # noqa: PLC0415

    chance = random.Random(seed)
    worlds = {
        (f"c-{number % 2}", f"t-{number // 2}"): World(chance, observers=1 + number % 3).run()
        for number in range(20)
    }
    records = [
        of_sighting(one, cluster, topic)
        for (cluster, topic), told in worlds.items()
        for one in delivered(told, chance, disorder_s=0)
    ]
    chance.shuffle(records)
    path = tmp_path_factory.mktemp("stream")
    found = rows(latest(streamed(stateful, split(records, chance, 4), path)))
    assert found == rows(outages.partition_outages(sightings(stateful, records)).select(*found[0]))
    assert len(found) == sum(len(one) for told in worlds.values() for one in batch(told).values())


def test_the_log_of_a_batch_is_that_of_a_stream(stateful: "SparkSession", tmp_path: Path) -> None:
    from kafka_partition_events.spark.fleet.outage_log import latest, log  # noqa: PLC0415

    told = [
        of_sighting(one, "c-1", f"t-{number}")
        for number in range(5)
        for one in World(random.Random(number)).run()
    ]
    at_once = rows(latest(log(sightings(stateful, told), late=LATE)))
    assert at_once
    assert at_once == rows(latest(streamed(stateful, split(told, random.Random(7), 3), tmp_path)))


def test_what_comes_too_late_is_told_with_its_name_and_bounds(
    stateful: "SparkSession", tmp_path: Path
) -> None:
    from kafka_partition_events.spark.fleet.outage_log import late, latest  # noqa: PLC0415

    first = [offline("orders", 1, moment("10:00")), online("orders", 1, moment("15:00"))]
    second = [
        offline("orders", 2, moment("12:00"), prev_at=moment("11:59")),
        offline("others", 2, moment("12:00")),  # a topic of its own, with a time of its own
    ]
    log = streamed(stateful, [first, second], tmp_path, timedelta(hours=1)).cache()
    assert rows(late(log)) == [
        {"cluster_id": "c-1", "topic": "orders", "partition": 2, "name": "partition.offline",
         "prev_at": moment("11:59"), "at": moment("12:00")}
    ]  # fmt: skip
    assert [(row["topic"], row["partition"]) for row in rows(latest(log))] == [("orders", 1), ("others", 2)]


def test_topics_of_two_clusters_do_not_mix(spark: "SparkSession") -> None:
    from kafka_partition_events.spark import outages  # noqa: PLC0415

    told = sightings(
        spark,
        [
            offline("orders", 1, moment("10:00"), cluster="a"),
            online("orders", 1, moment("10:05"), cluster="b"),
            offline("orders", 1, moment("10:10"), cluster="b"),
            online("orders", 1, moment("10:15"), cluster="a"),
        ],
    )
    found = rows(outages.partition_outages(told))
    assert [(row["cluster_id"], row["began_by"], row["ended_by"]) for row in found] == [
        ("a", moment("10:00"), moment("10:15")),
        ("b", moment("10:10"), None),
    ]
    windows = rows(outages.windows(outages.partition_outages(told)))
    assert [(row["cluster_id"], row["end"]) for row in windows] == [("a", moment("10:15")), ("b", None)]


def test_the_rules_said_plainly_are_those_of_the_batch_computation(spark: "SparkSession") -> None:
    from kafka_partition_events.spark import outages  # noqa: PLC0415

    worlds = {f"t-{number:02}": World(random.Random(number), observers=3).run() for number in range(30)}
    told = sightings(
        spark, [of_sighting(one, "c-1", topic) for topic, world in worlds.items() for one in world]
    )
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for row in sorted(rows(outages.partition_outages(told)), key=lambda row: row["began_by"]):
        bounds = tuple(row[name] for name in Outage._fields)
        found.setdefault((row["topic"], row["partition"]), []).append(bounds)
    assert found == {
        (topic, partition): [tuple(_moments(outage)) for outage in outages_]
        for topic, world in worlds.items()
        for partition, outages_ in batch(world).items()
    }


def _moments(outage: Outage) -> list[Any]:
    return [time_of(value) if isinstance(value, int) else value for value in outage]
