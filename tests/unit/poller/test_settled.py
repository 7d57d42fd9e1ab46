"""What listeners hear that override `on_settled`: which snapshot stands, and since when it is known to."""

import threading
from datetime import datetime

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import ScriptedSource, observe
from tests.poller_kit import DOWN, WAIT_S, Pollers, orders


class Settled(PartitionChangeListener):
    """Keeps what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Cluster, datetime | None]] = []

    def on_settled(self, cluster: Cluster, polled_at: datetime | None) -> None:
        self.calls.append((cluster, polled_at))


class Slow(ScriptedSource):
    """Takes half a second for each answer."""

    clock: ManualClock

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        self.clock.advance(0.5)
        return super().fetch(topics, started_at=started_at, timeout=timeout)


def test_good_answers_alone_confirm_a_snapshot_from_the_moment_at_which_they_were_asked_for(
    make: Pollers, clock: ManualClock
) -> None:
    source = Slow(orders(1), orders(1), orders(2), DOWN, observe(brokers=[]))
    source.clock = clock
    poller, listener = make(source), Settled()
    registration = poller.register(listener)
    expected: list[tuple[Cluster, datetime | None]] = []
    for good in (True, True, True, False, False):
        began = clock.now()
        poller.poll_once()
        assert poller.cluster is not None
        expected.append((poller.cluster, began if good else expected[-1][1]))
        clock.advance(10)
    poller.emit(ev.CapLifted(topic="orders", partitions=1, partitioner="sticky"))
    assert registration.wait_synced(WAIT_S)
    assert listener.calls == [*expected, expected[-1]]
    assert [cluster.generation for cluster, _ in expected] == [1, 1, 2, 2, 2]


def test_answers_without_news_start_no_worker_for_other_listeners(make: Pollers) -> None:
    poller = make(orders(1))
    poller.poll_once()
    poller.register(RecordingListener(), replay=False)
    poller.poll_once()
    assert not [t for t in threading.enumerate() if t.name.startswith("kpe-")]
