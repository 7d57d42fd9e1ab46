"""Keys, samples of them, and the partitioners whose answers the what-if planner must give."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_partition_events import DefaultPartitioner, Partitioner
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.routing.hashing import key_hash
from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.whatif.plan import MappingName, Scenario
from kafka_partition_events.spark.whatif.results import Outcome, spread
from kafka_partition_events.testing import cluster_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC: Final = "orders"

Place = Callable[[bytes], int]


def keys(count: int = 10_000) -> list[bytes]:
    """Texts, as of users, and bytes of any length that are no text."""
    rng = random.Random(20261121)
    texts = [f"user_{number}".encode() for number in range(count // 2)]
    return [*texts, *(rng.randbytes(1 + number % 64) for number in range(count - len(texts)))]


def snapshot(partitions: int) -> Cluster:
    return cluster_of({TOPIC: [1] * partitions}, brokers=[1])


def partitioner_of(mapping: MappingName, current: int, *, hash_name: HashName = "murmur2") -> Partitioner:
    """Return a real partitioner that has seen the topic with so many partitions."""
    made: Partitioner
    if mapping == "modulo":
        made = DefaultPartitioner(hash_name=hash_name)
    else:
        made = DefaultPartitioner(hash_name=hash_name, key_partitions={TOPIC: current})
    made.apply_snapshot(snapshot(current))
    return made


def placing(partitioner: Partitioner) -> Place:
    return lambda key: partitioner.partition(TOPIC, key, key, None, b"", None)


class Placed(NamedTuple):
    """Where one key is now, and where it would belong."""

    before: int
    home: int


def place_of(scenario: Scenario, hash_name: HashName = "murmur2") -> Callable[[bytes], Placed]:
    """Return what places single keys, by the functions that the partitioners call."""
    place = key_hash(hash_name)
    return lambda key: Placed(place(key, scenario.current), place(key, scenario.home))


def by_hand(keys: Sequence[bytes | None], scenario: Scenario, hash_name: HashName) -> Outcome:
    """Place each key by the partitioners' own functions."""
    place = place_of(scenario, hash_name)
    before, after = [0] * scenario.current, [0] * scenario.partitions
    moved = keyed = unkeyed = 0
    for key in keys:
        if key is None:
            unkeyed += 1
            continue
        placed, keyed = place(key), keyed + 1
        before[placed.before] += 1
        after[placed.home] += 1
        moved += placed.home != placed.before
    return Outcome(
        scenario=scenario,
        before=spread(unkeyed, before),
        after=spread(unkeyed, after),
        moved=moved,
        keyed=keyed,
        unkeyed=unkeyed,
    )


def written(spark: "SparkSession", directory: Path, kind: str) -> str:
    """Write keys, of which ``hot`` has half, and return the path."""
    rows = [("hot" if place % 2 else f"user_{place}",) for place in range(200)]
    path = directory / f"keys.{kind}"
    writer = spark.createDataFrame(rows, "customer STRING").coalesce(1).write
    writer.format(kind).option("header", True).save(str(path))
    return str(path)
