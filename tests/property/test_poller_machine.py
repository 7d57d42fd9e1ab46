"""Any order of register, leave, poll, fail, get stuck, overflow, close: nobody is told anything wrong."""

import threading

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.registration import Registration
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import ScriptedSource
from tests.property.examples import scaled
from tests.property.worlds import observations
from tests.replay import apply

WAIT_S = 10.0


class Slow(RecordingListener):
    """Takes no event while the gate is shut."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()

    def on_event(self, event: ev.Event) -> None:
        assert self.gate.wait(WAIT_S)
        super().on_event(event)


class PollerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock, self.source = ManualClock(), ScriptedSource()
        self.poller = MetadataPoller(self.source, clock=self.clock, interval=10)
        self.told = 0
        self.here: dict[Slow, Registration] = {}

    listeners = Bundle("listeners")

    @rule(target=listeners, capacity=st.sampled_from([1, 3, 1000]))
    def register(self, capacity: int) -> Slow:
        listener = Slow()
        self.here[listener] = self.poller.register(listener, capacity=capacity)
        return listener

    @rule(listener=consumes(listeners))
    def leave(self, listener: Slow) -> None:
        listener.gate.set()
        self.here.pop(listener).close(wait=WAIT_S)
        assert listener.closed == 1
        self.check(listener)

    @rule(listener=listeners)
    def get_stuck(self, listener: Slow) -> None:
        listener.gate.clear()

    @rule(listener=listeners)
    def go_on(self, listener: Slow) -> None:
        listener.gate.set()

    @rule(answer=observations(), advance=st.sampled_from([0, 1, 40, 320]))
    def poll(self, answer: Observation, advance: float) -> None:
        self.clock.advance(advance)
        self.source.then(answer)
        self.count(self.poller.poll_once())

    @rule()
    def fail(self) -> None:
        self.source.then(MetadataFetchError("down"))
        self.count(self.poller.poll_once())

    @rule()
    def emit(self) -> None:
        self.poller.emit(ev.CapLifted(topic="a", partitions=1, partitioner="mine"))
        self.told += 1

    @precondition(lambda self: self.here)
    @rule()
    def everybody_catches_up(self) -> None:
        for listener, registration in self.here.items():
            listener.gate.set()
            assert registration.wait_synced(WAIT_S)
            assert apply(EMPTY, listener.events) == (self.poller.cluster or EMPTY)
            self.check(listener)

    @invariant()
    def stats_are_sane(self) -> None:
        for registration in self.here.values():
            assert registration.stats.failures == 0

    def count(self, events: tuple[ev.Event, ...]) -> None:
        assert [e.sequence for e in events] == list(range(self.told + 1, self.told + 1 + len(events)))
        self.told += len(events)

    def check(self, listener: Slow) -> None:
        """Check that what a listener heard is in order, and that every gap is accounted for."""
        last: int | None = None
        for event in listener.events:
            if event.initial and last is None:
                continue  # a replay, or the very first answer
            if last is not None:
                assert event.sequence > last or event.initial
                assert event.sequence == last + 1 or isinstance(event, ev.Resync) or event.initial
            last = event.sequence
        assert all(e.dropped > 0 for e in listener.of(ev.Resync))

    def teardown(self) -> None:
        for listener in self.here:
            listener.gate.set()
        self.poller.close(timeout=WAIT_S)
        for listener in self.here:
            assert listener.closed == 1
            assert apply(EMPTY, listener.events) == (self.poller.cluster or EMPTY)
        assert self.source.closed == 1


TestPollerMachine = PollerMachine.TestCase
TestPollerMachine.settings = settings(max_examples=scaled(60), stateful_step_count=30, deadline=None)
