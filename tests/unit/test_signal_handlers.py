"""A signal handler runs in the main thread between any two byte codes, and may produce or report there.

Each test interrupts a thread where it holds a lock, and does there what needs the same lock. With a lock that
lets nobody in twice the thread would wait for itself.
"""

import random
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from kafka_partition_events import BrokerSuspected, Event, RoundRobinPartitioner
from kafka_partition_events.health import tracker
from kafka_partition_events.health.circuits import Change
from kafka_partition_events.health.detector import FailureDetector
from kafka_partition_events.health.in_flight import InFlight
from kafka_partition_events.health.tracker import DeliveryTracker
from kafka_partition_events.testing.scripted import cluster_of
from tests.partitioner_kit import LiveCluster

LIMIT_S = 10.0


class Interrupt:
    """A place in a program; a signal handler runs there once."""

    def __init__(self) -> None:
        self.handler: Callable[[], object] | None = None

    def here(self) -> None:
        handler, self.handler = self.handler, None
        if handler is not None:
            handler()


def interrupted(interrupt: Interrupt, work: Callable[[], object]) -> list[object]:
    """Do some work, and the same in a handler in its midst; return both results, the handler's first."""
    results: list[object] = []
    interrupt.handler = lambda: results.append(work())
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive(), "it waits for itself"
    assert interrupt.handler is None
    return results


def test_a_round_may_be_begun_while_one_is_begun() -> None:
    class Dice(random.Random):
        def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
            interrupt.here()
            return 0

    interrupt = Interrupt()
    partitioner = RoundRobinPartitioner(rng=Dice())
    partitioner.apply_snapshot(cluster_of({"t": [1, 2, 3]}))
    placed = interrupted(interrupt, lambda: partitioner.partition("t", None, None, b"v", b"v", None))
    assert placed == [0, 0], "which begins anew"
    assert partitioner.partition("t", None, None, b"v", b"v", None) == 1


def test_a_cluster_may_be_watched_while_it_is_watched() -> None:
    class Live(LiveCluster):
        def add_listener(self, listener: Callable[[object], None]) -> None:
            interrupt.here()

    interrupt, live, partitioner = Interrupt(), Live(1), RoundRobinPartitioner()
    assert interrupted(
        interrupt, lambda: partitioner.partition("t", None, None, b"v", b"v", live)
    ) == [0, 0]  # fmt: skip


def test_a_record_may_be_sent_while_one_is_noted() -> None:
    def clock() -> float:
        interrupt.here()
        return 100.0

    interrupt = Interrupt()
    deliveries = DeliveryTracker(lambda: None, clock=clock)
    interrupted(interrupt, lambda: deliveries.sent("t", 0, 1))
    assert deliveries.stats.outstanding == {("t", 0): 2}
    interrupted(interrupt, lambda: deliveries.answered("t", 0, 0.005))
    assert deliveries.stats.outstanding == {("t", 0): 0}


class OneAtATime(FailureDetector):
    """A detector that is never entered in the midst of a step."""

    interrupt = Interrupt()
    inside = False

    def answered(self, it: InFlight, latency: float, now: float) -> tuple[Change, ...]:
        assert not self.inside
        self.inside = True
        self.interrupt.here()
        changes = super().answered(it, latency, now)
        self.inside = False
        return changes

    def unreachable(self, broker: int, now: float) -> tuple[Change, ...]:
        assert not self.inside
        return super().unreachable(broker, now)


def test_what_a_handler_reports_within_a_step_is_noted_right_after_it() -> None:
    deliveries, asked = DeliveryTracker(lambda: changed.append(1)), list[object]()
    changed: list[int] = []
    deliveries._detector = detector = OneAtATime()
    deliveries.sent("t", 0, 1)

    def handler() -> None:
        assert deliveries.unreachable(2) == ()
        assert deliveries.answered("t", 0, 0.005) == ()
        deliveries.sent("t", 1, 2)
        asked.extend((deliveries.stuck(), deliveries.lagging(), deliveries.usual_answer))
        assert not changed

    detector.interrupt.handler = handler
    assert deliveries.answered("t", 0, 0.005) == ()
    assert asked == [{}, frozenset(), None], "what must not be read in the midst of a step"
    assert deliveries.suspects() == {2}
    assert changed == [1], "routes are made anew by who was interrupted"
    assert deliveries.stats.outstanding == {("t", 0): 0, ("t", 1): 1}
    (event,) = deliveries.polled()
    assert isinstance(event, BrokerSuspected)
    assert event.broker == 2


class Traced:
    """Two records are answered, and two brokers lost: the second in a handler, after so many byte codes.

    A trace function is what runs there. ``left`` is how many byte codes `DeliveryTracker` had too few.
    """

    def __init__(self, byte_codes: int) -> None:
        self.left = byte_codes
        self.deliveries = DeliveryTracker(lambda: None)
        self.deliveries._detector = OneAtATime()
        self.events: list[Event] = []

    def run(self) -> None:
        sys.settrace(self._trace)
        try:
            self._report(1)
        finally:
            sys.settrace(None)

    def _report(self, broker: int) -> None:
        self.deliveries.sent("t", broker, broker)
        self.events += self.deliveries.answered("t", broker, 0.005)
        self.events += self.deliveries.unreachable(broker)

    def _trace(self, frame: FrameType, what: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != tracker.__file__:
            return None
        frame.f_trace_opcodes = True
        if what == "opcode":
            self.left -= 1
            if self.left == -1:
                self._report(2)
        return self._trace


def test_a_handler_may_report_between_any_two_byte_codes() -> None:
    for number in range(10_000):
        traced = Traced(number)
        deliveries = traced.deliveries
        thread = threading.Thread(target=traced.run, daemon=True)
        thread.start()
        thread.join(LIMIT_S)
        assert not thread.is_alive(), "it waits for itself"
        if traced.left >= 0:
            break
        assert (deliveries._player, len(deliveries._steps)) == (None, 0)
        events = [*traced.events, *deliveries.polled()]
        assert sorted(event.broker for event in events if isinstance(event, BrokerSuspected)) == [1, 2]
        assert deliveries.suspects() == {1, 2}
        assert deliveries.stats.outstanding == {("t", 1): 0, ("t", 2): 0}
    assert number > 300, "it was interrupted everywhere"
