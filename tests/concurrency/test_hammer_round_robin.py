"""Round robin with many threads while its partitions come and go."""

import threading
from collections import Counter

from kafka_partition_events import RoundRobinPartitioner
from kafka_partition_events.testing.scripted import cluster_of
from tests.threads_kit import together

THREADS = 6
RECORDS = 6_000
CHANGES = 40


def test_partitions_that_stay_usable_get_the_same_but_for_a_record_per_thread_and_change() -> None:
    partitioner = RoundRobinPartitioner()
    tables = [cluster_of({"t": [1] * 8}), cluster_of({"t": [1, None, None, 1, 1, 1, 1, None]})]
    partitioner.apply_snapshot(tables[0])
    placed: list[Counter[int]] = []
    records = threading.Semaphore(0)

    def produce() -> None:
        mine: Counter[int] = Counter()
        for _ in range(RECORDS):
            mine[partitioner.partition("t", None, None, b"v", b"v", None)] += 1
            records.release()
        placed.append(mine)

    def change_tables() -> None:
        for change in range(CHANGES):
            for _ in range(THREADS * RECORDS // CHANGES // 2):
                records.acquire()
            partitioner.apply_snapshot(tables[change % 2])

    together(change_tables, *[produce] * THREADS)
    everywhere = sum(placed, Counter[int]())
    assert everywhere.total() == THREADS * RECORDS
    shares = [everywhere[partition] for partition in (0, 3, 4, 5, 6)]
    # A thread that still has the old route goes back to it once, and the next one returns: two changes each.
    assert max(shares) - min(shares) <= 1 + 2 * THREADS * CHANGES
    assert min(shares) > RECORDS * THREADS / 8 - 2 * THREADS * CHANGES
