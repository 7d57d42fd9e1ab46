"""Keys, samples of them, and the answers that the what-if planner must give."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_partition_events.routing.hashing import key_hash
from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.whatif.plan import Scenario
from kafka_partition_events.spark.whatif.results import Outcome, spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def keys(count: int = 10_000) -> list[bytes]:
    """Texts, as of users, and bytes of any length that are no text."""
    rng = random.Random(20261121)
    texts = [f"user_{number}".encode() for number in range(count // 2)]
    return [*texts, *(rng.randbytes(1 + number % 64) for number in range(count - len(texts)))]


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
