"""Apache Kafka's ``DefaultPartitionerTest``, ``UniformStickyPartitionerTest``, ``StickyPartitionCacheTest``.

They are the tests of KIP-480, as they were until Kafka 3.9. Ours differs on purpose in one point: it leaves
a partition that goes offline with the next record. Kafka's cache does not look until the next batch.
"""

from collections import Counter
from typing import Any

import pytest

from kafka_partition_events import (
    AdaptivePartitioner,
    DefaultPartitioner,
    Partitioner,
    StickyPartitioner,
    UniformStickyPartitioner,
)
from tests.conformance.asking import ask, with_topics

STICKY = [StickyPartitioner, DefaultPartitioner, UniformStickyPartitioner]


# -- DefaultPartitionerTest --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [DefaultPartitioner, StickyPartitioner, AdaptivePartitioner])
def test_a_keys_partition_is_stable_even_without_a_leader(make: Any) -> None:
    """Of three partitions, ``key`` belongs to 1, which here has no leader: keys do not move for that."""
    partitioner = with_topics(make(), test=[0, None, 2])
    assert [ask(partitioner, key=b"key") for _ in range(2)] == [1, 1]


# -- UniformStickyPartitionerTest --------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, b"key"])
class TestUniformSticky:
    def test_a_new_batch_moves_to_the_other_partition_that_has_a_leader(self, key: bytes | None) -> None:
        partitioner = with_topics(UniformStickyPartitioner(), test=[0, None, 2])
        first = [ask(partitioner, key=key) for _ in range(50)]
        partitioner.on_new_batch("test", None, first[0])
        second = [ask(partitioner, key=key) for _ in range(50)]
        assert Counter(first + second) == {0: 50, 2: 50}

    def test_an_old_batch_moves_nothing(self, key: bytes | None) -> None:
        partitioner = with_topics(UniformStickyPartitioner(), a=[0, 1, 2], b=[0])
        rounds = []
        for new_batch_of in (0, 0, None):
            rounds.append(self.thirty(partitioner, key))
            if new_batch_of is not None:  # the second time for a partition that was left already
                (old,) = rounds[0]
                partitioner.on_new_batch("a", None, old)
                partitioner.on_new_batch("b", None, 0)
        (old,), (new,), (still,) = rounds
        assert (rounds[0][old], rounds[1][new] + rounds[2][still]) == (30, 60)
        assert old != new == still

    def thirty(self, partitioner: Partitioner, key: bytes | None) -> Counter[int]:
        placed: Counter[int] = Counter()
        for number in range(30):
            placed[ask(partitioner, "a", key)] += 1
            if number % 5 == 0:
                assert ask(partitioner, "b", key) == 0
        return placed


# -- StickyPartitionCacheTest ------------------------------------------------------------------------


@pytest.mark.parametrize("make", STICKY)
class TestStickyPartitionCache:
    def test_the_partition_changes_with_a_new_batch_only_and_for_its_own_topic(self, make: Any) -> None:
        partitioner = with_topics(make(), a=[0, 1, 2], b=[3])
        stuck = ask(partitioner, "a")
        assert [ask(partitioner, "a") for _ in range(3)] == [stuck] * 3
        partitioner.on_new_batch("a", None, stuck)
        moved = ask(partitioner, "a")
        assert moved != stuck
        partitioner.on_new_batch("a", None, stuck)
        assert ask(partitioner, "a") == moved
        assert ask(partitioner, "b") == 0
        partitioner.on_new_batch("b", None, 0)
        assert ask(partitioner, "b") == 0

    def test_partitions_without_a_leader_are_taken_if_there_is_no_other(self, make: Any) -> None:
        partitioner = with_topics(make(), a=[0, None, 2], b=[None, 1], c=[None])
        for topic, reached in (("a", {0, 2}), ("b", {1}), ("c", {0})):
            placed = set()
            for _ in range(100):
                placed.add(chosen := ask(partitioner, topic))
                partitioner.on_new_batch(topic, None, chosen)
            assert placed == reached

    def test_ours_looks_at_the_leader_for_each_record(self, make: Any) -> None:
        """Kafka's keeps sending until the batch is full: 16 s long at 1 KB/s."""
        partitioner = with_topics(make(), a=[0, 1, 2])
        stuck = ask(partitioner, "a")
        with_topics(partitioner, a=[None if partition == stuck else 1 for partition in range(3)])
        assert ask(partitioner, "a") != stuck
