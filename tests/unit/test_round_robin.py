"""Round robin: where it begins, and that it goes on where it was when partitions come and go.

What it does as long as nothing changes is in ``test_partitioners.py`` and in ``tests/conformance``.
"""

import random
from collections import Counter

import pytest

from kafka_partition_events import RoundRobinPartitioner
from kafka_partition_events.testing.scripted import cluster_of
from tests.partitioner_kit import Lowest, ask, with_table


class TestStart:
    @pytest.mark.parametrize("leaders", [[1] * 3, [1, None, None, None, None, None, 1, 1]])
    def test_is_drawn_evenly_from_the_usable_ones(self, leaders: list[int | None]) -> None:
        """3,000 instances over 3 partitions: 1,000 each, standard deviation 26; the bounds are 5 of them.

        Many short-lived producers, each with one record, must not burden the partition behind a gap.
        """
        rng = random.Random(7)
        drawn = Counter(ask(with_table(RoundRobinPartitioner(rng=rng), *leaders)) for _ in range(900))
        assert len(drawn) == 3
        assert all(230 < number < 370 for number in drawn.values())


class TestChanges:
    def test_it_goes_on_where_it_was(self) -> None:
        partitioner = with_table(RoundRobinPartitioner(rng=Lowest()), *[1] * 6)
        assert [ask(partitioner) for _ in range(3)] == [0, 1, 2]
        with_table(partitioner, 1, None, 1, None, 1, 1)
        assert [ask(partitioner) for _ in range(4)] == [4, 5, 0, 2]
        with_table(partitioner, *[1] * 6)
        assert [ask(partitioner) for _ in range(3)] == [4, 5, 0]

    def test_a_topic_that_vanished_is_forgotten(self) -> None:
        partitioner = with_table(RoundRobinPartitioner(rng=Lowest()), *[1] * 6)
        ask(partitioner)
        partitioner.apply_snapshot(cluster_of({"another": [1]}))
        with_table(partitioner, *[1] * 6)
        assert ask(partitioner) == 0
