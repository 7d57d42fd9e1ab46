"""Pinned keys while threads place them, the partitioner is closed under them, and a cut-over comes."""

import threading

import pytest

from kafka_partition_events.partitioners.growth_safe import GrowthSafePartitioner
from kafka_partition_events.partitioners.pins import MemoryPinStore
from kafka_partition_events.routing.hashing import murmur2_partition
from kafka_partition_events.testing.scripted import cluster_of

LIMIT_S = 30.0
MOVING = [key for key in (b"user-%d" % n for n in range(100)) if murmur2_partition(key, 12) >= 6]


class Placing(threading.Thread):
    """Places keys until it sees them moved, and then each of them once more."""

    def __init__(self, partitioner: GrowthSafePartitioner) -> None:
        super().__init__()
        self.partitioner = partitioner
        self.stop = threading.Event()
        self.after: list[int] = []
        self.before: set[int] = set()

    def place(self, key: bytes) -> int:
        return self.partitioner.partition("t", key, key, None, None, None)

    def run(self) -> None:
        while not self.stop.is_set() and (partition := self.place(MOVING[0])) < 6:
            self.before.add(partition)
        self.after = [self.place(key) for key in MOVING]


@pytest.mark.parametrize("_attempt", range(20))
def test_no_thread_goes_back_and_all_arrive_however_often_it_is_closed(_attempt: int) -> None:
    store = MemoryPinStore()
    partitioner = GrowthSafePartitioner(mapping="pinned", store=store, interval=0.001)
    partitioner.adopt(cluster_of({"t": [1] * 6}))
    threads = [Placing(partitioner) for _ in range(4)]
    threads[0].place(MOVING[0])
    partitioner.adopt(cluster_of({"t": [1] * 12}))
    for thread in threads:
        thread.start()
    assert partitioner._topics is not None
    partitioner._topics.cut_over("t", 12, delay=0.02)
    for _ in range(50):
        partitioner.close()  # as an earlier registration may, late
    for thread in threads:
        thread.join(LIMIT_S)
        thread.stop.set()
        assert thread.before <= {murmur2_partition(MOVING[0], 6)}
        assert thread.after == [murmur2_partition(key, 12) for key in MOVING]
    partitioner.close()
