"""A poller in a forked child: nothing hangs, polling goes on, listeners start from the snapshot."""

import threading
import time

import pytest
from attrs import evolve

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.errors import PollerClosedError
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events.metadata.diff import apply
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing.scripted import observe
from tests.fork_kit import FORKS, LIMIT_S, in_child

ANSWERS = [observe({"orders": [leader]}, brokers=[1, 2, 3]) for leader in (1, 2, 3)]

pytestmark = FORKS


class Changing:
    """A source without a lock, whose every answer differs from the last one."""

    def __init__(self) -> None:
        self.turns = 0

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        self.turns += 1
        return evolve(ANSWERS[self.turns % 3], started_at=started_at)

    def close(self) -> None:
        pass


class Plain(PartitionChangeListener):
    """Keeps what it hears without a lock, for a fork may come while a lock is held."""

    def __init__(self, name: str = "plain") -> None:
        self.name = name
        self.events: list[Event] = []
        self.closed = 0

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        self.closed += 1

    def wait_for(self, number: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while len(self.events) < number:
            assert time.monotonic() < deadline
            threading.Event().wait(0.001)


def test_polling_goes_on_and_listeners_start_from_the_snapshot() -> None:
    listener = Plain()
    with MetadataPoller(Changing(), interval=0.002, min_interval=0.001) as poller:
        registration = poller.register(listener)
        listener.wait_for(10)

        def check() -> None:
            listener.wait_for(len(listener.events) + 20)
            poller.close()
            kinds = [event.kind for event in listener.events]
            assert kinds.count("resync") == 1
            after = [event.sequence for event in listener.events[kinds.index("resync") :]]
            assert after == list(range(after[0], after[0] + len(after)))
            assert apply(EMPTY, listener.events) == poller.cluster
            assert listener.closed == 1
            assert [t for t in threading.enumerate() if t.name.startswith("kpe-")] == []
            registration.close(wait=1)

        in_child(check)
        listener.wait_for(len(listener.events) + 5)  # the parent never noticed


def test_a_fork_while_every_lock_is_busy() -> None:
    class Busy(Plain):
        def on_event(self, event: Event) -> None:
            super().on_event(event)
            poller.emit(event) if event.kind == "leader_changed" else None
            assert poller.health.polls > 0

    poller = MetadataPoller(Changing(), interval=0.0005, min_interval=0.0001)
    with poller:
        registrations = [poller.register(Busy(name=f"busy-{n}"), capacity=4) for n in range(3)]

        def check() -> None:
            polls = poller.health.polls
            assert poller.refresh("child", wait=LIMIT_S)
            assert poller.health.polls > polls
            registrations[0].close(wait=1)
            poller.register(Plain())
            poller.close()

        for _ in range(10):
            in_child(check)


def test_a_poller_that_was_not_started_or_is_closed_stays_so() -> None:
    idle, closed = MetadataPoller(Changing()), MetadataPoller(Changing())
    registration = closed.register(Plain())
    closed.close()

    def check() -> None:
        assert not idle.health.running
        assert not closed.health.running
        assert idle.poll_once()
        registration.close(wait=1)
        idle.close()
        closed.close()

    in_child(check)
    idle.close()


def test_close_in_the_parent_is_not_held_up_by_children() -> None:
    poller = MetadataPoller(Changing(), interval=0.01)
    poller.start()
    in_child(lambda: None)
    began = time.monotonic()
    poller.close()
    assert time.monotonic() - began < LIMIT_S


def test_a_poller_that_was_made_for_a_producer_is_closed_in_a_child() -> None:
    """The producer does not work there: what it asks for would fail, and be logged, for ever."""
    partitioner = DefaultPartitioner()
    with MetadataPoller(Changing(), interval=0.002, min_interval=0.001) as poller:
        poller.join(partitioner, tuple, last_closes=True)
        assert poller.refresh("test", wait=LIMIT_S)

        def check() -> None:
            assert not poller.health.running
            assert [t for t in threading.enumerate() if t.name == "kpe-poller"] == []
            assert partitioner.route("orders") is None
            with pytest.raises(PollerClosedError):
                poller.start()

        in_child(check)
        assert partitioner.route("orders") is not None
        assert poller.refresh("the parent goes on", wait=LIMIT_S)
