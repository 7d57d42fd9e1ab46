"""The poller publishes while another thread is inside of a partitioner and is interrupted there.

The poller's thread has the poller's lock and is about to take the partitioner's; the other one has the
partitioner's. What a signal handler, a delivery callback or the garbage collector does there must not wait
for the poller's.
"""

import gc
import threading
import weakref
from collections.abc import Callable

import pytest

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.health.tracker import DeliveryTracker
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from tests.poller_kit import WAIT_S, Pollers, orders


class Crossing:
    """A poller that is taking in a second answer, held up just before it takes the partitioner's lock."""

    def __init__(self, make: Pollers, monkeypatch: pytest.MonkeyPatch) -> None:
        self.poller = make(orders(1, 2, 3), orders(1, 2, None), topics=["orders"])
        self.partitioner = DefaultPartitioner()
        self.producer = self.poller.join(self.partitioner, lambda: ("orders",), last_closes=True)
        self.heard = RecordingListener()
        self.poller.register(self.heard, replay=False)
        self.poller.poll_once()
        self._publishing, self._inside = threading.Event(), threading.Event()
        follow = DeliveryTracker.snapshot

        def held_up(deliveries: DeliveryTracker, cluster: Cluster | None) -> tuple[ev.Event, ...]:
            if deliveries is self.partitioner.deliveries and cluster is not None:
                self._publishing.set()
                self._inside.wait(WAIT_S)
            return follow(deliveries, cluster)

        monkeypatch.setattr(DeliveryTracker, "snapshot", held_up)
        self._polls = threading.Thread(target=self.poller.poll_once, daemon=True)

    def interrupt(self, handler: Callable[[], object]) -> None:
        """Call it in a thread that has the partitioner's lock, while the poller waits for it with its own."""

        def report() -> None:
            with self.partitioner.deliveries._lock:
                self._inside.set()
                handler()

        reports = threading.Thread(target=report, daemon=True)
        self._polls.start()
        assert self._publishing.wait(WAIT_S)
        reports.start()
        reports.join(WAIT_S)
        self._polls.join(WAIT_S)
        assert not reports.is_alive(), "the interrupted thread waits for the poller"
        assert not self._polls.is_alive(), "the poller waits for the interrupted thread"


@pytest.fixture
def crossing(make: Pollers, monkeypatch: pytest.MonkeyPatch) -> Crossing:
    return Crossing(make, monkeypatch)


def test_a_handler_may_write_a_new_topic(crossing: Crossing) -> None:
    crossing.interrupt(lambda: crossing.producer.ask_for("last-words"))
    assert crossing.poller._soon


def test_a_handler_may_ask_for_a_poll(crossing: Crossing) -> None:
    crossing.interrupt(crossing.poller.refresh)
    assert crossing.poller._soon


def test_a_handler_may_close_the_producer_and_with_it_the_poller(crossing: Crossing) -> None:
    crossing.interrupt(lambda: crossing.producer.leave(0.0))
    assert crossing.producer not in crossing.poller.subscriptions.producers
    assert crossing.partitioner.route("orders") is None, "a table that is not renewed is taken away"
    assert crossing.poller.source.closed == 1  # type: ignore[attr-defined]


def test_a_callback_may_emit(crossing: Crossing) -> None:
    lifted = ev.CapLifted(topic="orders", partitions=3, partitioner="mine")
    crossing.interrupt(lambda: crossing.poller.emit(lifted))
    crossing.heard.wait_for(lambda events: bool(events) and events[-1].kind == "cap_lifted", WAIT_S)
    numbers = [event.sequence for event in crossing.heard.events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_listener_may_leave(crossing: Crossing) -> None:
    registration = crossing.poller.registrations[0]
    crossing.interrupt(registration.close)
    assert crossing.poller.registrations == (crossing.poller.registrations[0],)
    assert crossing.partitioner.route("orders") is None


class _Producer:
    """What a finalizer is bound to."""

    me: object = None


def test_the_garbage_collector_may_drop_another_producer(crossing: Crossing) -> None:
    other, partitioner = _Producer(), DefaultPartitioner()
    weakref.finalize(other, crossing.poller.join(partitioner, lambda: ()).drop)
    other.me = other
    gc.disable()
    try:
        del other
        crossing.interrupt(gc.collect)
    finally:
        gc.enable()
    assert partitioner.route("orders") is not None, "nothing of ours has run in there"
    crossing.poller.poll_once()
    assert partitioner.route("orders") is None


def test_a_dropped_producers_poller_is_closed_by_its_own_thread(make: Pollers, clock: ManualClock) -> None:
    poller, producer = make(orders(1)), _Producer()
    subscription = poller.join(DefaultPartitioner(), lambda: (), last_closes=True)
    weakref.finalize(producer, subscription.drop)
    poller.start()
    clock.wait_for_waiters()
    thread = poller._thread
    assert thread is not None
    del producer
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert subscription not in poller.subscriptions.producers
    assert poller.subscriptions.closed
    assert poller.source.closed == 1  # type: ignore[attr-defined]
