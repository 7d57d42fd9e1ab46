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
    UniformStickyPartitioner,
)
from kafka_partition_events.testing import cluster_of

THREE = cluster_of({"t": [1, 2, 3], "u": [1, 2, 3]})
BOTH = [Theirs, StickyPartitioner, DefaultPartitioner]


def ask(partitioner: Any, cluster: Cluster = THREE, topic: str = "t", key: bytes | None = None) -> int:
    chosen: int = partitioner.partition(topic, key, key, b"v", b"v", cluster)
    return chosen


@pytest.mark.parametrize("make", [*BOTH, UniformStickyPartitioner])
class TestUnkeyed:
    def test_fifty_records_stick(self, make: Callable[[], Any]) -> None:
        partitioner = make()
        assert len({ask(partitioner) for _ in range(50)}) == 1

    def test_a_new_batch_moves_and_never_to_where_it_was(self, make: Callable[[], Any]) -> None:
        partitioner = make()
        before = ask(partitioner)
        for _ in range(200):
            partitioner.on_new_batch("t", THREE, before)
            after = ask(partitioner)
            assert after != before
            before = after

    def test_an_old_batch_moves_nothing(self, make: Callable[[], Any]) -> None:
        partitioner = make()
        stuck = ask(partitioner)
        partitioner.on_new_batch("t", THREE, (stuck + 1) % 3)
        assert ask(partitioner) == stuck

    def test_topics_do_not_disturb_each_other(self, make: Callable[[], Any]) -> None:
        partitioner = make()
        here, there = ask(partitioner), ask(partitioner, topic="u")
        partitioner.on_new_batch("u", THREE, there)
        assert ask(partitioner) == here

    def test_a_partition_that_lost_its_leader_is_left(self, make: Callable[[], Any]) -> None:
        partitioner = make()
        stuck = ask(partitioner)
        left = cluster_of({"t": [None if partition == stuck else 1 for partition in range(3)]})
        assert ask(partitioner, left) != stuck

    def test_a_topic_made_anew_with_less_partitions_has_one_that_exists(
        self, make: Callable[[], Any]
    ) -> None:
        for _ in range(20):
            partitioner = make()
            ask(partitioner, cluster_of({"t": [1] * 12}))
            assert ask(partitioner, cluster_of({"t": [1, 1]})) in {0, 1}

    def test_without_any_leader_all_are_taken(self, make: Callable[[], Any]) -> None:
        partitioner, offline = make(), cluster_of({"t": [None] * 3})
        placed = set()
        for _ in range(200):  # over 3 partitions: one is missed with a probability below 1e-28
            placed.add(chosen := ask(partitioner, offline))
            partitioner.on_new_batch("t", offline, chosen)
        assert placed == {0, 1, 2}

    def test_an_unknown_topic_is_an_error(self, make: Callable[[], Any]) -> None:
        with pytest.raises(ValueError, match="not found"):
            ask(make(), topic="nosuch")


@pytest.mark.parametrize("make", [*BOTH, AdaptivePartitioner])
def test_keyed_records_go_where_kafka_pythons_default_sends_them(make: Callable[[], Any]) -> None:
    rng, theirs, partitioner = random.Random(20261121), TheirDefault(), make()
    keys = [b"", *(rng.randbytes(rng.randrange(1, 65)) for _ in range(1_000))]
    for more in (0, 4, 97):
        cluster = cluster_of({"t": [1, None, 3, *[1] * more]})
        for key in keys:
            assert ask(partitioner, cluster, key=key) == ask(theirs, cluster, key=key)
