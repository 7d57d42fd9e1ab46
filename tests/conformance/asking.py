"""How Kafka's own tests ask a partitioner, in this library's words."""

from collections.abc import Sequence

from kafka_partition_events import Partitioner
from kafka_partition_events.testing import cluster_of


def with_topics(partitioner: Partitioner, **topics: Sequence[int | None]) -> Partitioner:
    """Give the partitioner a table; a topic is the list of its partitions' leaders, None for offline."""
    partitioner.apply_snapshot(cluster_of(topics))
    return partitioner


def ask(partitioner: Partitioner, topic: str = "test", key: bytes | None = None, value: bytes = b"v") -> int:
    return partitioner.partition(topic, key, key, value, value, None)
