"""Partitioners under threads, with the interpreter switching between them as often as it can."""

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from kafka_partition_events import BufferBudget, DefaultPartitioner, Partitioner, RoundRobinPartitioner
from kafka_partition_events.routing.hashing import murmur2_partition
from kafka_partition_events.testing.scripted import cluster_of
from tests.partitioner_kit import LiveCluster
from tests.threads_kit import together

THREADS = 8
ROUNDS = 4_000


def test_round_robin_stays_even_under_threads_and_the_double_call() -> None:
    partitioner = RoundRobinPartitioner()
    partitioner.apply_snapshot(cluster_of({"t": [1] * 8}))
    totals: list[Counter[int]] = []

    def produce() -> None:
        placed: Counter[int] = Counter()
        for i in range(ROUNDS):
            first = partitioner.partition("t", None, None, None, b"", None)
            if i % 3 == 0:
                partitioner.on_new_batch("t", None, first)
                assert partitioner.partition("t", None, None, None, b"", None) == first
            placed[first] += 1
        totals.append(placed)

    together(*[produce] * THREADS)
    assert sum(totals, Counter()) == dict.fromkeys(range(8), THREADS * ROUNDS // 8)


@pytest.mark.parametrize("make", [DefaultPartitioner, RoundRobinPartitioner])
def test_every_choice_is_from_one_whole_table(make: Callable[..., Partitioner]) -> None:
    """The writer alternates between two tables that share no usable partition."""
    partitioner = make(budget=BufferBudget(max_partitions={"t": 6}, instance_id="a"))
    left = cluster_of({"t": [1] * 4 + [None] * 4})
    right = cluster_of({"t": [None] * 4 + [1] * 4})
    partitioner.apply_snapshot(left)
    stop = threading.Event()

    def write() -> None:
        for i in range(1_500):
            partitioner.apply_snapshot((right, left)[i % 2])
        stop.set()

    def read() -> None:
        while not stop.is_set():
            chosen = partitioner.partition("t", None, None, None, b"", None)
            assert 0 <= chosen < 8
            partitioner.on_new_batch("t", None, chosen)
            partitioner.partition("t", None, None, None, b"", None)
            if make is DefaultPartitioner:
                assert partitioner.partition("t", None, b"k", None, b"", None) == murmur2_partition(b"k", 8)

    together(write, *[read] * 3)
    settled = {partitioner.partition("t", None, None, None, b"", None) for _ in range(20)}
    assert settled <= {0, 1, 2, 3}, "the last table is the left one"


def test_a_table_is_never_replaced_by_routes_of_the_cluster_argument() -> None:
    """kafka-python's update and the poller's adoption race; whatever the order, the table wins."""

    live = LiveCluster(1)
    table = cluster_of({"t": [None, 1]})
    for _ in range(300):
        partitioner = DefaultPartitioner()
        partitioner.partition("t", None, None, None, b"", live)

        def update(listener: Callable[[object], None] = live.listeners[-1]) -> None:
            for _ in range(20):
                listener(live)

        def adopt(adopter: Partitioner = partitioner) -> None:
            adopter.apply_snapshot(table)

        together(update, adopt)
        assert partitioner.partition("t", None, None, None, b"", live) == 1
