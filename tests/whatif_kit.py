"""Keys, samples of them, and the partitioners whose answers the what-if planner must give."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_partition_events import DefaultPartitioner, GrowthSafePartitioner, Partitioner
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.spark.whatif import plan
from kafka_partition_events.spark.whatif.plan import HashName, MappingName, Placed, Scenario
from kafka_partition_events.spark.whatif.results import Counted, Fate, Load, Outcome, Side, outcomes
from kafka_partition_events.testing import cluster_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC: Final = "orders"

Place = Callable[[bytes], int]
_Group = tuple[Side, int | None, bool, Fate]


def keys(count: int = 10_000) -> list[bytes]:
    """Texts, as of users, and bytes of any length that are no text."""
    rng = random.Random(20261121)
    texts = [f"user_{number}".encode() for number in range(count // 2)]
    return [*texts, *(rng.randbytes(1 + number % 64) for number in range(count - len(texts)))]


def snapshot(partitions: int, offline: Iterable[int] = ()) -> Cluster:
    down = set(offline)
    return cluster_of({TOPIC: [None if p in down else 1 for p in range(partitions)]}, brokers=[1])


def partitioner_of(mapping: MappingName, current: int, *, hash_name: HashName = "murmur2") -> Partitioner:
    """Return a real partitioner that has seen the topic with so many partitions."""
    made: Partitioner
    if mapping == "modulo":
        made = DefaultPartitioner(hash_name=hash_name)
    elif mapping == "kept":
        made = DefaultPartitioner(hash_name=hash_name, key_partitions={TOPIC: current})
    else:
        made = GrowthSafePartitioner(mapping="rendezvous", hash_name=hash_name)
    made.apply_snapshot(snapshot(current))
    return made


def placing(partitioner: Partitioner) -> Place:
    return lambda key: partitioner.partition(TOPIC, key, key, None, b"", None)


def by_hand(rows: Sequence[tuple[bytes | None, int]], scenario: Scenario, hash_name: HashName) -> Outcome:
    """Place each key by the partitioners' own functions."""
    place = plan.placing(scenario, hash_name)
    records: Counter[_Group] = Counter()
    sizes: Counter[_Group] = Counter()
    for key, size in rows:
        for group in (
            [(Side.AFTER, None, False, Fate.UNKEYED)] if key is None else _groups(scenario, place(key))
        ):
            records[group] += 1
            sizes[group] += size
    (found,) = outcomes(
        [scenario],
        (
            Counted(
                scenario=0,
                side=group[0],
                partition=group[1],
                moved=group[2],
                fate=group[3],
                load=Load(count, sizes[group]),
            )
            for group, count in records.items()
        ),
    )
    return found


def _groups(scenario: Scenario, placed: Placed) -> list[_Group]:
    fate = Fate.HELD if placed.home in scenario.offline else Fate.HOME
    return [
        (Side.BEFORE, placed.before, False, Fate.HOME),
        (Side.AFTER, placed.home, placed.home != placed.before, fate),
    ]


def written(spark: "SparkSession", directory: Path, kind: str) -> str:
    """Write keys with their sizes, of which ``hot`` has half, and return the path."""
    rows = [("hot" if place % 2 else f"user_{place}", 100 + place) for place in range(200)]
    path = directory / f"keys.{kind}"
    writer = spark.createDataFrame(rows, "customer STRING, size BIGINT").coalesce(1).write
    writer.format(kind).option("header", True).save(str(path))
    return str(path)
