"""Listeners that raise, block, leave, invite others: what they do disturbs nobody else."""

from collections.abc import Callable
from typing import cast

import pytest

from kafka_partition_events.errors import ConfigurationError, PollerClosedError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import ScriptedSource
from tests.poller_kit import WAIT_S, Pollers, orders


class OnFirst(RecordingListener):
    """Does something of its own in the first callback."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self.action, self.outcome = action, cast("object", None)

    def on_event(self, event: ev.Event) -> None:
        if not self.events:
            try:
                self.outcome = self.action()
            except Exception as error:  # noqa: BLE001 - the test looks at it
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
        asking = OnFirst(lambda: poller.refresh("a callback", wait=WAIT_S))
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
