"""Delivery to a target that forgets: what still holds is said again, when nothing new is to be said."""

import queue
from collections.abc import Iterator, Sequence

import pytest
import structlog.testing

from kafka_partition_events.outbox import Deliverer, Entry, MemoryQueue
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, ScriptedSink, append
from tests.unit.delivery.at_work import LONG_S, HalfWay, failure

Answer = bool | Exception


class ForgetfulTarget(ScriptedSink):
    """Has its own script for repetitions; then there is nothing to be said."""

    def __init__(self, *answers: Answer, script: Sequence[Exception | None] = ()) -> None:
        super().__init__(*script)
        self.heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._answers = list(answers)

    def deliver(self, entries: Sequence[Entry], /) -> None:
        self.heard.put("delivered")
        super().deliver(entries)

    def repeat(self) -> bool:
        answer = self._answers.pop(0) if self._answers else False
        if answer is not False:
            self.heard.put("repeated")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def next(self) -> str:
        return self.heard.get(timeout=10)


class AtWork:
    def __init__(self, sink: ForgetfulTarget) -> None:
        self.sink = sink
        self.clock = ManualClock(wall=NOW)
        self.outbox = MemoryQueue(clock=self.clock)
        self.deliverer = Deliverer(self.outbox, sink, repeat=sink.repeat, clock=self.clock, rng=HalfWay())


@pytest.fixture
def started() -> Iterator[list[AtWork]]:
    at_work: list[AtWork] = []
    yield at_work
    for each in at_work:
        each.deliverer.close(0)


def start(started: list[AtWork], sink: ForgetfulTarget, *waiting: str) -> AtWork:
    at_work = AtWork(sink)
    append(at_work.outbox, *waiting)
    started.append(at_work)
    at_work.deliverer.start()
    return at_work


def test_what_is_new_comes_first(started: list[AtWork]) -> None:
    at_work = start(started, ForgetfulTarget(True), "1", "2", "3", "4")  # in batches of three
    assert [at_work.sink.next() for _ in range(3)] == ["delivered", "delivered", "repeated"]


def test_it_is_asked_again_each_second(started: list[AtWork]) -> None:
    at_work = start(started, ForgetfulTarget(True, False, True))
    assert at_work.sink.next() == "repeated"
    at_work.clock.wait_for_waiters()
    assert at_work.deliverer.stats.state == "idle"
    at_work.clock.advance(1)
    assert at_work.sink.next() == "repeated"


def test_a_repetition_that_fails_is_tried_again_as_a_delivery_is(started: list[AtWork]) -> None:
    with structlog.testing.capture_logs() as logs:
        at_work = start(started, ForgetfulTarget(failure(), failure(refused=True), True))
        for _ in range(2):
            assert at_work.sink.next() == "repeated"
            at_work.clock.wait_for_waiters()
            assert at_work.deliverer.stats.state == "backing_off"
            at_work.clock.advance(LONG_S)
        assert at_work.sink.next() == "repeated"
        at_work.clock.wait_for_waiters()
    stats = at_work.deliverer.stats
    assert (stats.state, stats.failures, stats.retries) == ("idle", {"timeout": 2}, 2)
    assert at_work.outbox.dead_letters() == []
    assert [log["event"] for log in logs] == ["delivery_failed", "delivery_failed", "delivery_resumed"]


def test_a_bug_of_the_sinks_is_not_the_end_of_it(started: list[AtWork]) -> None:
    at_work = start(started, ForgetfulTarget(ValueError("oops"), True))
    assert at_work.sink.next() == "repeated"
    at_work.clock.wait_for_waiters()
    assert at_work.deliverer.stats.last_error == "ValueError('oops')"
    at_work.clock.advance(LONG_S)
    assert at_work.sink.next() == "repeated"


def test_one_that_is_closing_says_nothing_again(started: list[AtWork]) -> None:
    at_work = start(started, ForgetfulTarget(False, True))
    at_work.clock.wait_for_waiters()
    at_work.deliverer.close(5)
    assert at_work.sink.heard.empty()
