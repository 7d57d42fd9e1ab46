"""Threads register, leave, emit and read while another publishes, switched as often as Python can."""

import threading
from collections.abc import Callable, Iterator

import pytest

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import ScriptedSource, observe
from tests.replay import apply
from tests.threads_kit import together

CHANGES = 300
MANY = 50
WAIT_S = 30.0


@pytest.fixture
def poller() -> Iterator[MetadataPoller]:
    answers = [
        observe(
            {f"t{n % 7}": [n % 3 + 1] * (1 + n // 50), "orders": [n % 3 + 1, n % 2 + 1]}, brokers=[1, 2, 3]
        )
        for n in range(CHANGES)
    ]
    one = MetadataPoller(ScriptedSource(*answers), clock=ManualClock())
    yield one
    one.close(timeout=WAIT_S)


def publishing(poller: MetadataPoller) -> tuple[Callable[[], None], threading.Event]:
    """Return a job that publishes all changes, and what it sets when it is done."""
    done = threading.Event()

    def publish() -> None:
        for _ in range(CHANGES):
            poller.poll_once()
        done.set()

    return publish, done


def test_a_replay_and_what_follows_leave_no_gap_and_no_double(poller: MetadataPoller) -> None:
    listeners: list[RecordingListener] = []
    registrations = []
    publish, done = publishing(poller)

    def register() -> None:
        while not done.is_set() and len(listeners) < MANY:
            listener = RecordingListener()
            registrations.append(poller.register(listener, capacity=100_000))
            listeners.append(listener)

    together(publish, register, register)
    assert len(listeners) > 2
    for registration in registrations:
        assert registration.wait_synced(WAIT_S)
    for listener in listeners:
        assert apply(EMPTY, listener.events) == poller.cluster
        replay = [e for e in listener.events if e.initial]
        live = [e.sequence for e in listener.events if not e.initial]
        start = replay[-1].sequence if replay else 0
        assert live == list(range(start + 1, start + 1 + len(live)))


def test_small_mailboxes_lose_nothing_uncounted(poller: MetadataPoller) -> None:
    listeners = [RecordingListener(name=f"small-{n}") for n in range(4)]
    registrations = [poller.register(listener, capacity=n + 1) for n, listener in enumerate(listeners)]
    published: list[ev.Event] = []

    def publish() -> None:
        for _ in range(CHANGES):
            published.extend(poller.poll_once())

    def emit() -> None:
        for _ in range(CHANGES):
            poller.emit(ev.CapLifted(topic="orders", partitions=2, partitioner="mine"))

    together(publish, emit)
    for registration in registrations:
        assert registration.wait_synced(WAIT_S)
    told = len(published) + CHANGES
    for listener, registration in zip(listeners, registrations, strict=True):
        heard = [e for e in listener.events if not isinstance(e, ev.Resync)]
        resyncs = listener.of(ev.Resync)
        assert len(heard) + sum(e.dropped for e in resyncs) == told
        assert registration.stats.dropped == sum(e.dropped for e in resyncs)
        sequences = [e.sequence for e in listener.events]
        assert sequences == sorted(set(sequences))
        assert apply(EMPTY, listener.events) == poller.cluster


def test_every_read_is_consistent_and_never_older_than_the_news(poller: MetadataPoller) -> None:
    publish, done = publishing(poller)
    partitioner = DefaultPartitioner()

    class Reader(RecordingListener):
        def on_event(self, event: ev.Event) -> None:
            assert poller.cluster is not None
            assert poller.cluster.generation >= event.generation
            assert (partitioner.routing.generation or 0) >= event.generation
            super().on_event(event)

    def read() -> None:
        last = 0
        while not done.is_set():
            cluster = poller.cluster
            if cluster is not None:
                assert cluster.generation >= last
                last = cluster.generation
                orders = cluster.by_topic["orders"]
                assert len(orders.partitions) == 2

    registrations = [poller.register(Reader(name=f"reader-{n}"), capacity=100_000) for n in range(3)]
    poller.register(partitioner)
    together(publish, read, read)
    for registration in registrations:
        assert registration.wait_synced(WAIT_S)
        assert registration.stats.failures == 0


def test_coming_and_going(poller: MetadataPoller) -> None:
    publish, done = publishing(poller)

    def come_and_go() -> None:
        while not done.is_set():
            listener = RecordingListener()
            registration = poller.register(listener, capacity=2)
            registration.close(wait=WAIT_S)
            assert listener.closed == 1
            apply(EMPTY, listener.events)

    together(publish, come_and_go, come_and_go)
    assert poller.registrations == ()
