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


def test_partitions_that_stay_usable_get_the_same_but_for_a_record_per_thread_and_change() -> None:
    """Of a round robin whose partitions come and go."""
    threads, records, changes = 6, 6_000, 40
    partitioner = RoundRobinPartitioner()
    tables = [cluster_of({"t": [1] * 8}), cluster_of({"t": [1, None, None, 1, 1, 1, 1, None]})]
    partitioner.apply_snapshot(tables[0])
    placed: list[Counter[int]] = []
    sent = threading.Semaphore(0)

    def produce() -> None:
        mine: Counter[int] = Counter()
        for _ in range(records):
            mine[partitioner.partition("t", None, None, b"v", b"v", None)] += 1
            sent.release()
        placed.append(mine)

    def change_tables() -> None:
        for change in range(changes):
            for _ in range(threads * records // changes // 2):
                sent.acquire()
            partitioner.apply_snapshot(tables[change % 2])

    together(change_tables, *[produce] * threads)
    everywhere = sum(placed, Counter[int]())
    assert everywhere.total() == threads * records
    shares = [everywhere[partition] for partition in (0, 3, 4, 5, 6)]
    # A thread that still has the old route goes back to it once, and the next one returns: two changes each.
    assert max(shares) - min(shares) <= 1 + 2 * threads * changes
    assert min(shares) > records * threads / 8 - 2 * threads * changes


@pytest.mark.parametrize("make", [DefaultPartitioner, RoundRobinPartitioner])
def test_every_choice_is_from_one_whole_table(make: Callable[..., Partitioner]) -> None:
    """The writer alternates between two tables that share none; 3 and 4 are usable in neither."""
    partitioner = make(budget=BufferBudget(max_partitions={"t": 6}, instance_id="a"))
    left = cluster_of({"t": [1] * 3 + [None] * 5})
    right = cluster_of({"t": [None] * 5 + [1] * 3})
    partitioner.apply_snapshot(left)
    stop = threading.Event()

    def write() -> None:
        for i in range(1_500):
            partitioner.apply_snapshot((right, left)[i % 2])
        stop.set()

    def read() -> None:
        while not stop.is_set():
            chosen = partitioner.partition("t", None, None, None, b"", None)
            assert chosen in {0, 1, 2, 5, 6, 7}
            partitioner.on_new_batch("t", None, chosen)
            partitioner.partition("t", None, None, None, b"", None)
            if make is DefaultPartitioner:
                assert partitioner.partition("t", None, b"k", None, b"", None) == murmur2_partition(b"k", 8)

    together(write, *[read] * 3)
    settled = {partitioner.partition("t", None, None, None, b"", None) for _ in range(20)}
    assert settled <= {0, 1, 2}, "the last table is the left one"


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
