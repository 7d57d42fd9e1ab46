"""Keys, and the partitioners whose answers the what-if planner must give."""

import random
from collections.abc import Callable, Iterable
from typing import Final

from kafka_partition_events import DefaultPartitioner, GrowthSafePartitioner, MemoryPinStore, Partitioner
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.partitioners.base import KeyedPolicy
from kafka_partition_events.spark.whatif.plan import HashName, MappingName
from kafka_partition_events.testing import cluster_of

TOPIC: Final = "orders"

Place = Callable[[bytes], int]


def keys(count: int = 10_000) -> list[bytes]:
    """Texts, as of users, and bytes of any length that are no text."""
    rng = random.Random(20261121)
    texts = [f"user_{number}".encode() for number in range(count // 2)]
    return [*texts, *(rng.randbytes(1 + number % 64) for number in range(count - len(texts)))]


def snapshot(partitions: int, offline: Iterable[int] = ()) -> Cluster:
    down = set(offline)
    return cluster_of({TOPIC: [None if p in down else 1 for p in range(partitions)]}, brokers=[1])


def partitioner_of(
    mapping: MappingName, current: int, *, keyed: KeyedPolicy = "pin", hash_name: HashName = "murmur2"
) -> Partitioner:
    """Return a real partitioner that has seen the topic with so many partitions, and placed a key."""
    made: Partitioner
    if mapping == "modulo":
        made = DefaultPartitioner(keyed=keyed, hash_name=hash_name)
    elif mapping == "pinned":
        made = GrowthSafePartitioner(
            mapping="pinned", store=MemoryPinStore(), keyed=keyed, hash_name=hash_name
        )
    else:
        made = GrowthSafePartitioner(mapping="rendezvous", keyed=keyed, hash_name=hash_name)
    made.adopt(snapshot(current))
    placing(made)(b"the first one")
    return made


def placing(partitioner: Partitioner) -> Place:
    return lambda key: partitioner.partition(TOPIC, key, key, None, b"", None)
