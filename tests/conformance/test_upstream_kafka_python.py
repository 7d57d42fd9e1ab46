"""kafka-python's tests of its sticky partitioner (KIP-480), asked of its own and of ours alike.

Theirs is asked too so that what is said here is what kafka-python does. Ours reads the same arguments.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest
from kafka.partitioner.default import DefaultPartitioner as TheirDefault
from kafka.partitioner.sticky import StickyPartitioner as Theirs

from kafka_partition_events import (
    AdaptivePartitioner,
    Cluster,
    DefaultPartitioner,
    StickyPartitioner,
)
from kafka_partition_events.testing import cluster_of

THREE = cluster_of({"t": [1, 2, 3], "u": [1, 2, 3]})
BOTH = [Theirs, StickyPartitioner, DefaultPartitioner]


class AsTheirs:
    """A snapshot with the method that kafka-python's default asks beside those that all have."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def topics(self) -> set[str]:
        return set(self._cluster.by_topic)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def ask(partitioner: Any, cluster: Cluster = THREE, topic: str = "t", key: bytes | None = None) -> int:
    is_theirs = isinstance(partitioner, Theirs | TheirDefault)
    seen = AsTheirs(cluster) if is_theirs else cluster
    chosen: int = partitioner.partition(topic, key, key, b"v", b"v", seen)
    return chosen


@pytest.mark.parametrize("make", [*BOTH, AdaptivePartitioner])
def test_keyed_records_go_where_kafka_pythons_default_sends_them(make: Callable[[], Any]) -> None:
    rng, theirs, partitioner = random.Random(20261121), TheirDefault(), make()
    keys = [b"", *(rng.randbytes(rng.randrange(1, 65)) for _ in range(1_000))]
    for more in (0, 4, 97):
        cluster = cluster_of({"t": [1, None, 3, *[1] * more]})
        for key in keys:
            assert ask(partitioner, cluster, key=key) == ask(theirs, cluster, key=key)
