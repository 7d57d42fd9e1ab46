"""One `PartitioningProducer` under threads while its routes are swapped."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from operator import lt
from typing import Any

import pytest

from kafka_partition_events import DefaultPartitioner, MetadataPoller, RoundRobinPartitioner
from kafka_partition_events.clients.confluent import PartitioningProducer, turns
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import cluster_of, observe
from tests.threads_kit import together

THREADS = 4
SWAPS = 200
RECORDS = 20_000
LEFT = cluster_of({"t": [1] * 4 + [None] * 4})
RIGHT = cluster_of({"t": [None] * 4 + [1] * 4})


class Sent(threading.local):
    """What the calling thread sent last, in place of what confluent-kafka would send."""

    partition = -1

    def __call__(
        self, _producer: object, _topic: str, _value: Any, _key: Any, partition: int, *_more: Any
    ) -> None:
        self.partition = partition


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sent]:
    sent, before = Sent(), sys.getswitchinterval()

    def plain(ours: PartitioningProducer, *arguments: Any) -> None:
        sent(ours, *arguments)

    monkeypatch.setattr(PartitioningProducer, "plain", plain)
    sys.setswitchinterval(1e-5)
    yield sent
    sys.setswitchinterval(before)


def a_producer(partitioner: Partitioner) -> PartitioningProducer:
    poller = MetadataPoller(ScriptedSource(observe({})))
    return PartitioningProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, partitioner, poller)


@pytest.mark.parametrize("make", [DefaultPartitioner, RoundRobinPartitioner])
def test_no_record_goes_to_an_offline_partition_once_those_in_flight_are_sent(
    make: Callable[[], Partitioner], sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_CHUNK", 10**5)
    monkeypatch.setattr(turns, "CHUNK_S", 150.0)
    partitioner = make()
    ours = a_producer(partitioner)
    # a chunk that is not dropped would last
    monkeypatch.setattr(ours._chooser, "_length", turns.TurnLength(600.0, 600.0))
    done, stop = [0] * THREADS, threading.Event()
    settled: list[range | None] = [None]

    def write(number: int) -> None:
        while not stop.is_set():
            usable = settled[0]
            ours.produce("t", b"v")
            if usable is not None and usable is settled[0]:
                assert sent.partition in usable
            done[number] += 1

    with ThreadPoolExecutor(THREADS) as pool:
        writers = [pool.submit(write, number) for number in range(THREADS)]
        try:
            for swap in range(SWAPS):
                settled[0] = None
                for cluster in (LEFT, RIGHT) * 5 if swap % 2 else (RIGHT, LEFT) * 5:  # some while others look
                    partitioner.apply_snapshot(cluster)
                    time.sleep(0)
                for more in (1, 50):  # the records in flight; then some to look at
                    wanted = [count + more for count in done]
                    while any(map(lt, done, wanted)) and not any(map(Future.done, writers)):
                        time.sleep(0)
                    if more == 1:
                        settled[0] = range(4 * (swap % 2), 4 * (swap % 2) + 4)
        finally:
            stop.set()
    ours.close()
    for writer in writers:
        writer.result()


@pytest.mark.parametrize("make", [DefaultPartitioner, RoundRobinPartitioner])
def test_every_rerouted_record_is_counted_once(make: Callable[[], Partitioner], sent: Sent) -> None:
    partitioner = make()
    ours = a_producer(partitioner)
    partitioner.apply_snapshot(LEFT)

    def write() -> None:
        for _ in range(RECORDS):
            ours.produce("t", b"v")
            assert sent.partition in range(4)

    together(*[write] * THREADS)
    ours.close()
    assert ours.stats.rerouted == THREADS * RECORDS
