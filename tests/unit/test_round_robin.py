"""Round robin: where it begins, and that it goes on where it was when partitions come and go.

What it does as long as nothing changes is in ``test_partitioners.py`` and in ``tests/conformance``.
"""

import random
from collections import Counter

import pytest

from kafka_partition_events import ConfigurationError, RoundRobinPartitioner
from kafka_partition_events.testing.scripted import cluster_of


def ask(partitioner: RoundRobinPartitioner, topic: str = "t", key: bytes | None = None) -> int:
    return partitioner.partition(topic, key, key, b"v", b"v", None)


def adopt(partitioner: RoundRobinPartitioner, *leaders: int | None) -> None:
    partitioner.apply_snapshot(cluster_of({"t": leaders}))


def with_table(partitioner: RoundRobinPartitioner, *leaders: int | None) -> RoundRobinPartitioner:
    adopt(partitioner, *leaders)
    return partitioner


class TestStart:
    @pytest.mark.parametrize(("start", "first"), [(0, 0), (3, 3), (4, 0), (11, 3)])
    def test_is_the_first_partition_modulo_their_number(self, start: int, first: int) -> None:
        partitioner = with_table(RoundRobinPartitioner(start=start), 1, 1, 1, 1)
        assert [ask(partitioner) for _ in range(5)] == [(first + step) % 4 for step in range(5)]

    def test_holds_for_each_topic(self) -> None:
        partitioner = RoundRobinPartitioner(start=2)
        partitioner.apply_snapshot(cluster_of({"t": [1] * 4, "u": [1] * 4}))
        assert [ask(partitioner, topic) for topic in "tut"] == [2, 2, 3]

    @pytest.mark.parametrize(("start", "first"), [(1, 2), (3, 0)])
    def test_is_the_next_usable_one_if_it_is_offline(self, start: int, first: int) -> None:
        assert ask(with_table(RoundRobinPartitioner(start=start), 1, None, 1, None)) == first

    def test_must_be_a_partition_number(self) -> None:
        with pytest.raises(ConfigurationError, match="start must be a partition number, 0 or more, not -1"):
            RoundRobinPartitioner(start=-1)

    @pytest.mark.parametrize("leaders", [[1] * 3, [1, None, None, None, None, None, 1, 1]])
    def test_is_drawn_evenly_from_the_usable_ones_by_default(self, leaders: list[int | None]) -> None:
        """900 instances over 3 partitions: 300 each, standard deviation 14; the bounds are 5 of them.

        Many short-lived producers, each with one record, must not burden the partition behind a gap.
        """
        rng = random.Random(7)
        drawn = Counter(ask(with_table(RoundRobinPartitioner(rng=rng), *leaders)) for _ in range(900))
        assert len(drawn) == 3
        assert all(230 < number < 370 for number in drawn.values())


class TestChanges:
    def test_it_goes_on_where_it_was(self) -> None:
        partitioner = with_table(RoundRobinPartitioner(start=0), *[1] * 6)
        assert [ask(partitioner) for _ in range(3)] == [0, 1, 2]
        adopt(partitioner, 1, None, 1, None, 1, 1)
        assert [ask(partitioner) for _ in range(4)] == [4, 5, 0, 2]
        adopt(partitioner, *[1] * 6)
        assert [ask(partitioner) for _ in range(3)] == [4, 5, 0]

    def test_a_topic_that_vanished_is_forgotten(self) -> None:
        partitioner = with_table(RoundRobinPartitioner(start=0), *[1] * 6)
        ask(partitioner)
        partitioner.apply_snapshot(cluster_of({"another": [1]}))
        adopt(partitioner, *[1] * 6)
        assert ask(partitioner) == 0
