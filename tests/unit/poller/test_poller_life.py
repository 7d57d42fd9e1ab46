"""From start to close: threads, what stays readable, and the health that is told."""

import threading
from collections.abc import Callable, Iterable
from typing import cast

import pytest
from structlog.testing import capture_logs

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.errors import ConfigurationError, PollerClosedError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import ScriptedSource, observe
from tests.poller_kit import DOWN, WAIT_S, Pollers, Table, eventually, orders
from tests.replay import apply


class TestLife:
    def test_start_and_close_are_idempotent(self, make: Pollers) -> None:
        source = ScriptedSource(orders(1))
        poller = make(source)
        listener = RecordingListener()
        poller.register(listener)
        with poller:
            poller.start()
            listener.wait_for(4)
            assert [t.name for t in threading.enumerate()].count("kpe-poller") == 1
            assert poller.health.running
        poller.close()
        assert (source.closed, listener.closed) == (1, 1)
        assert not poller.health.running

    def test_a_closed_poller_stays_readable_and_learns_nothing(self, make: Pollers) -> None:
        poller = make(orders(1))
        poller.poll_once()
        poller.close()
        assert poller.cluster is not None
        assert poller.health.polls == 1
        poller.emit(ev.Event())
        calls = poller.start, poller.poll_once, poller.refresh, lambda: poller.register(RecordingListener())
        for call in calls:
            with pytest.raises(PollerClosedError):
                call()

    def test_a_listener_may_come_back(self, make: Pollers) -> None:
        poller = make(orders(1))
        listener = RecordingListener()
        poller.poll_once()
        poller.register(listener).close(wait=WAIT_S)
        registration = poller.register(listener)
        assert registration.wait_synced(WAIT_S)
        assert apply(EMPTY, listener.events) == poller.cluster

    def test_a_source_that_cannot_be_closed_disturbs_nobody(self, make: Pollers) -> None:
        class Stubborn(ScriptedSource):
            def close(self) -> None:
                super().close()
                raise ZeroDivisionError

        source = Stubborn(orders(1))
        with make(source):
            pass
        assert source.closed == 1

    def test_a_source_that_would_end_a_thread_has_an_outage(self, make: Pollers, clock: ManualClock) -> None:
        class Exiting(ScriptedSource):
            def fetch(self, topics: frozenset[str] | None, /, *, timeout: float) -> Observation:
                if len(self.asked) == 1:
                    self.asked.append(topics)
                    raise KeyboardInterrupt
                return super().fetch(topics, timeout=timeout)

        poller = make(Exiting(orders(1)))
        table = Table()
        poller.register(table)
        poller.poll_once()
        poller.start()
        eventually(lambda: poller.health.failures == 1)

        def recovered_by_then() -> bool:
            clock.advance(60)  # again and again: the thread may not wait for it yet
            return poller.health.failures == 0

        eventually(recovered_by_then)
        assert poller.health.running
        assert table.adopted[-1] is not None

    def test_an_error_not_of_the_source_ends_no_thread(self, make: Pollers, clock: ManualClock) -> None:
        """Nobody would start it again, and all tables would turn stale."""
        errors = [ZeroDivisionError("a producer's own")]

        def written() -> Iterable[str]:
            if errors:
                raise errors.pop()
            return ["orders"]

        poller = make(orders(1), topics=[])
        partitioner = DefaultPartitioner()
        poller.join(partitioner, written)
        with capture_logs() as logs:
            poller.start()
            clock.wait_for_waiters()
            assert poller.health.polls == 0
            clock.advance(0.25)
            eventually(lambda: partitioner.route("orders") is not None)
        assert [(line["event"], line["log_level"]) for line in logs] == [("poll_abandoned", "critical")]
        assert poller.health.internal_errors == 1
        assert poller.health.running

    def test_an_outage_is_logged_once(self, make: Pollers) -> None:
        poller = make(orders(1), DOWN, DOWN, DOWN, orders(1), DOWN, DOWN)
        with capture_logs() as logs:
            for _ in range(7):
                poller.poll_once()
        assert [(line["event"], line["error"]) for line in logs] == [("metadata_unavailable", "down")] * 2

    def test_health(self, make: Pollers, clock: ManualClock) -> None:
        poller = make(orders(1), DOWN, DOWN, observe(brokers=[]))
        assert poller.health.last_attempt is None
        poller.poll_once()
        clock.advance(5)
        poller.poll_once()
        poller.poll_once()
        health = poller.health
        assert (health.polls, health.failures, health.last_error) == (3, 2, "down")
        assert (health.last_success, health.last_attempt) == (0.0, 5.0)
        poller.poll_once()
        assert (sum(poller.health.refusals.values()), poller.health.failures) == (1, 2)


# -- listeners that leave, invite others, or close it ------------------------------------------------------


class OnFirst(RecordingListener):
    """Does something of its own in the first callback."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self.action, self.outcome = action, cast("object", None)

    def on_event(self, event: ev.Event) -> None:
        if not self.events:
            try:
                self.outcome = self.action()
            except Exception as error:  # noqa: BLE001 - the test compares it
                self.outcome = error
        super().on_event(event)


class TestListenersThatMisbehave:
    @pytest.fixture
    def bystander(self) -> RecordingListener:
        return RecordingListener()

    def test_unregisters_itself_and_another(self, make: Pollers, bystander: RecordingListener) -> None:
        poller = make(orders(1), orders(2))
        other = RecordingListener()
        other_registration = poller.register(other)

        def leave() -> None:
            registration.close(wait=WAIT_S)
            other_registration.close()

        leaving = OnFirst(leave)
        registration = poller.register(leaving)
        poller.register(bystander)
        poller.poll_once()
        leaving.wait_for(1)
        poller.poll_once()
        bystander.wait_for(5)
        registration.close(wait=WAIT_S)
        assert leaving.closed == 1
        assert leaving.kinds() == ["broker_added"]
        assert "leader_changed" not in other.kinds()

    def test_registers_itself_again(self, make: Pollers) -> None:
        poller = make(orders(1))
        again = OnFirst(lambda: poller.register(again))
        poller.register(again)
        poller.poll_once()
        again.wait_for(4)
        assert isinstance(again.outcome, ConfigurationError)

    def test_refreshes_and_waits(self, make: Pollers) -> None:
        poller = make(orders(1), orders(2), clock=None, min_interval=0.001)
        asking = OnFirst(lambda: poller.refresh(wait=WAIT_S))
        poller.register(asking)
        poller.start()
        asking.wait_for(5)
        assert asking.outcome is True

    def test_closes_the_poller(self, make: Pollers, bystander: RecordingListener) -> None:
        source = ScriptedSource(orders(1))
        poller = make(source)
        closing = OnFirst(lambda: poller.close(timeout=WAIT_S))
        poller.register(closing)
        poller.register(bystander)
        poller.start()
        bystander.wait_for(4)
        closing.wait_for(4)
        with pytest.raises(PollerClosedError):
            poller.poll_once()
        assert (bystander.closed, source.closed) == (1, 1)
