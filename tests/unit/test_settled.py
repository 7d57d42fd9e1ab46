"""What the poller tells who overrides `on_settled`: which snapshot stands, and since when it is known to."""

import threading
from datetime import datetime

import pytest

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.registration import Registration
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import ScriptedSource, observe
from tests.poller_kit import DOWN, WAIT_S, orders


class Settled(PartitionChangeListener):
    """Keeps how often it was called, and with what last."""

    def __init__(self) -> None:
        self.calls = 0
        self.cluster: Cluster | None = None
        self.polled_at: datetime | None = None

    def on_settled(self, cluster: Cluster, polled_at: datetime | None) -> None:
        self.calls += 1
        self.cluster, self.polled_at = cluster, polled_at


class Slow(ScriptedSource):
    """Takes half a second for each answer."""

    clock: ManualClock

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        self.clock.advance(0.5)
        return super().fetch(topics, started_at=started_at, timeout=timeout)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def followed(
    clock: ManualClock, *steps: Observation | Exception
) -> tuple[MetadataPoller, Settled, Registration]:
    source = Slow(*steps)
    source.clock = clock
    poller, listener = MetadataPoller(source, clock=clock), Settled()
    return poller, listener, poller.register(listener)


def test_each_good_look_confirms_the_snapshot_from_the_moment_at_which_it_began(clock: ManualClock) -> None:
    poller, listener, registration = followed(clock, orders(1), orders(1), orders(2))
    with registration:
        for generation in (1, 1, 2):
            began = clock.now()
            poller.poll_once()
            assert registration.wait_synced(WAIT_S)
            assert listener.cluster is poller.cluster
            assert listener.cluster is not None
            assert listener.cluster.generation == generation
            assert listener.polled_at == began
            clock.advance(10)
    assert listener.calls == 3
    poller.close()


def test_a_look_that_failed_confirms_nothing(clock: ManualClock) -> None:
    poller, listener, registration = followed(clock, orders(1), DOWN, DOWN, observe(brokers=[]))
    good = clock.now()
    for _ in range(4):
        poller.poll_once()
        clock.advance(10)
    assert registration.wait_synced(WAIT_S)
    assert listener.polled_at == good
    assert listener.calls == 4
    poller.close()


def test_nor_does_an_event_from_elsewhere(clock: ManualClock) -> None:
    poller, listener, registration = followed(clock, orders(1))
    good = clock.now()
    poller.poll_once()
    clock.advance(10)
    poller.emit(ev.CapLifted(topic="orders", partitions=1, partitioner="sticky"))
    assert registration.wait_synced(WAIT_S)
    assert (listener.calls, listener.polled_at) == (2, good)
    poller.close()


def test_looks_without_news_start_no_worker_of_who_does_not_ask_for_them(clock: ManualClock) -> None:
    poller = MetadataPoller(ScriptedSource(orders(1)), clock=clock)
    poller.poll_once()
    poller.register(RecordingListener(), replay=False)
    poller.poll_once()
    assert not [t for t in threading.enumerate() if t.name.startswith("kpe-")]
    poller.close()
