"""Delivery: in order, in batches, at least once, whatever the target does; and its end."""

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog.testing

from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.outbox import Deliverer, DeliveryError, RetryPolicy, SqliteOutbox
from kafka_partition_events.outbox.retry import RetryDecision, decide
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, ScriptedSink, append, ids, scratch, scratch_journal

LONG_S = 10_000.0
"""Longer than any back-off."""


def failure(reason: str = "timeout", **facts: Any) -> DeliveryError:
    return DeliveryError(f"it was {reason}", reason=reason, **facts)


class HalfWay(random.Random):
    """No dice."""

    def random(self) -> float:
        return 0.5


class FragileOutbox(SqliteOutbox):
    """An outbox that may take no cursor any more, or be damaged."""

    full = False
    damaged = False

    def write(self, *entries: Any, **parts: Any) -> None:
        if self.full and parts.get("cursors"):
            raise OutboxError("full")
        super().write(*entries, **parts)

    def refuse(self, reader: str, entry: Any) -> None:
        if self.full:
            raise OutboxError("full")
        super().refuse(reader, entry)

    def read(self, reader: str, limit: int) -> Any:
        if self.damaged:
            raise OutboxError("damaged")
        return super().read(reader, limit)


class Delivery:
    """A deliverer at work, its outbox, its clock, and the sink at its other end."""

    def __init__(self, *script: Exception | None, waiting: str = "", **policy: Any) -> None:
        self.clock = ManualClock(wall=NOW)
        self.outbox = scratch(FragileOutbox, clock=self.clock)
        self.sink = ScriptedSink(*script)
        self.outbox.subscribe("scripted")
        append(self.outbox, *waiting)
        self.deliverer = Deliverer(
            self.outbox, self.sink, retry=RetryPolicy(**policy), clock=self.clock, rng=HalfWay()
        )
        self.deliverer.start()

    def waiting(self) -> list[str]:
        return ids(self.outbox.read("scripted", 100))

    def pause(self) -> None:
        """Return when the deliverer waits for time to pass."""
        self.clock.wait_for_waiters()

    def later(self, *entries: Any) -> None:
        """Append entries while it has nothing to do, and let it read the outbox."""
        self.pause()
        append(self.outbox, *entries)
        self.clock.advance(0.5)

    def retry(self) -> list[str]:
        """Let a back-off pass, and return what is tried then."""
        self.pause()
        self.clock.advance(LONG_S)
        return self.sink.next_call()


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[Delivery] = []

    def start(*script: Exception | None, **options: Any) -> Delivery:
        made.append(Delivery(*script, **options))
        return made[-1]

    yield start
    for delivery in made:
        delivery.deliverer.close(0)


class TestDelivery:
    def test_is_in_order_in_batches_of_the_sinks_size(self, make: Any) -> None:
        delivery = make(waiting="12345")
        assert delivery.sink.next_call() == ["1", "2", "3"]
        assert delivery.sink.next_call() == ["4", "5"]
        delivery.pause()
        assert delivery.waiting() == []
        stats = delivery.deliverer.stats
        assert (stats.state, stats.delivered, stats.failures) == ("idle", 5, {})

    def test_comes_within_half_a_second_for_what_is_appended_later(self, make: Any) -> None:
        delivery = make()
        delivery.pause()
        assert delivery.deliverer.stats.state == "idle"
        delivery.later("1")
        assert delivery.sink.next_call() == ["1"]
        delivery.later("2")
        assert delivery.sink.next_call() == ["2"]

    def test_begins_where_another_process_stopped(self) -> None:
        outbox = scratch_journal(clock=ManualClock(wall=NOW))
        outbox.subscribe("scripted")
        append(outbox, "1", "2", "3", "4")
        outbox.write(cursors={"scripted": outbox.read("scripted", 2)[-1].seq})
        sink = ScriptedSink()
        deliverer = Deliverer(outbox, sink, clock=ManualClock(wall=NOW))
        deliverer.start()
        deliverer.start()
        assert sink.next_call() == ["3", "4"]
        deliverer.close()


class TestFailure:
    def test_keeps_what_was_delivered_and_tries_the_rest_again(self, make: Any) -> None:
        delivery = make(failure(delivered=1), waiting="123")
        assert delivery.sink.next_call() == ["1", "2", "3"]
        delivery.pause()
        assert delivery.waiting() == ["2", "3"]
        stats = delivery.deliverer.stats
        assert (stats.state, stats.delivered, stats.failures) == ("backing_off", 1, {"timeout": 1})
        assert delivery.retry() == ["2"], "alone, until one goes through"
        assert delivery.sink.next_call() == ["3"]
        delivery.pause()
        assert delivery.deliverer.stats.state == "idle"

    def test_waits_for_as_long_as_was_decided_whatever_is_appended(self, make: Any) -> None:
        delivery = make(failure(), failure(retry_after=30.0), waiting="1")
        delivery.sink.next_call()
        delivery.pause()
        delivery.clock.advance(0.4)
        append(delivery.outbox, "2")
        assert delivery.sink.calls.empty()
        delivery.clock.advance(0.1)
        assert delivery.sink.next_call() == ["1"]
        delivery.pause()
        delivery.clock.advance(29.0)
        assert delivery.sink.calls.empty()
        delivery.clock.advance(1.0)
        assert delivery.sink.next_call() == ["1"]

    def test_is_logged_with_the_sink_and_the_reason_and_so_is_its_end(self, make: Any) -> None:
        with structlog.testing.capture_logs() as logs:
            delivery = make(failure(), failure(), waiting="1")
            delivery.sink.next_call()
            delivery.retry()
            delivery.retry()
            delivery.pause()
        assert [(log["event"], log["log_level"]) for log in logs] == [
            ("delivery_failed", "warning"),
            ("delivery_failed", "warning"),
            ("delivery_resumed", "info"),
        ]
        assert (logs[0]["sink"], logs[0]["reason"], logs[0]["error"]) == (
            "scripted",
            "timeout",
            "it was timeout",
        )


class TestDeadLetters:
    def test_are_what_the_target_refuses_and_the_rest_goes_on_at_once(self, make: Any) -> None:
        delivery = make(failure("http_400", delivered=1, refused=True), waiting="123")
        assert delivery.sink.next_call() == ["1", "2", "3"]
        assert delivery.sink.next_call() == ["3"]
        delivery.pause()
        assert ids(delivery.outbox.dead_letters()) == ["2"]
        stats = delivery.deliverer.stats
        assert (stats.delivered, stats.failures, stats.state) == (2, {"http_400": 1}, "idle")

    def test_are_what_a_bug_was_met_with_ten_times_and_the_rest_goes_on(self, make: Any) -> None:
        bug = KeyError("a bug")
        delivery = make(*[bug] * 10, waiting="12")
        assert delivery.sink.next_call() == ["1", "2"]
        tries = [delivery.retry() for _ in range(9)]
        assert tries == [["1"]] * 9, "alone"
        assert delivery.sink.next_call() == ["2"]
        delivery.pause()
        assert ids(delivery.outbox.dead_letters()) == ["1"]
        assert delivery.deliverer.stats.failures == {"error": 10}

    def test_are_never_what_failed_in_company_only(self, make: Any) -> None:
        delivery = make(*[KeyError("a bug"), None] * 15, waiting="12")
        delivery.sink.next_call()
        assert delivery.retry() == ["1"], "the other one is at fault"
        assert delivery.outbox.dead_letters() == []

    def test_are_not_what_the_target_was_down_for(self, make: Any) -> None:
        delivery = make(*[failure()] * 9, KeyError("a bug"), *[failure()] * 10, waiting="1")
        delivery.sink.next_call()
        for _ in range(20):
            assert delivery.retry() == ["1"]
        assert delivery.outbox.dead_letters() == []


class TestOutboxInTrouble:
    def test_does_not_make_the_target_hear_the_same_again(self, make: Any) -> None:
        delivery = make(None, failure("http_400", refused=True))
        for expected in ("1", "2"):
            delivery.outbox.full = True
            delivery.later(expected)
            assert delivery.sink.next_call() == [expected]
            delivery.pause()
            assert delivery.deliverer.stats.state == "backing_off"
            assert delivery.waiting() == [expected], "not durable yet"
            delivery.clock.advance(LONG_S)
            delivery.pause()
            delivery.outbox.full = False
            delivery.clock.advance(LONG_S)
            delivery.pause()
            assert delivery.deliverer.stats.state == "idle"
            assert delivery.waiting() == []
        assert delivery.sink.calls.empty()
        assert delivery.deliverer.stats.failures == {"outbox": 4, "http_400": 1}
        assert ids(delivery.outbox.dead_letters()) == ["2"]

    def test_is_waited_for(self, make: Any) -> None:
        delivery = make()
        delivery.pause()
        delivery.outbox.damaged = True
        delivery.later("1")
        delivery.pause()
        assert delivery.deliverer.stats.failures == {"outbox": 1}
        delivery.outbox.damaged = False
        delivery.clock.advance(LONG_S)
        assert delivery.sink.next_call() == ["1"]

    def test_that_was_closed_first_is_no_reason_to_hang(self, make: Any) -> None:
        delivery = make(first_delay=100.0)
        delivery.pause()
        delivery.outbox.close()
        delivery.deliverer.close(10)
        assert delivery.sink.closed == 1


class GatedSink(ScriptedSink):
    """Does not answer before it is allowed to."""

    def __init__(self) -> None:
        super().__init__(batch=1)
        self.gate = threading.Event()

    def deliver(self, entries: Any, /) -> None:
        super().deliver(entries)
        assert self.gate.wait(10)


class TestClosing:
    def test_delivers_what_is_waiting(self, make: Any) -> None:
        delivery = make(waiting="12345678")
        delivery.deliverer.close(10)
        assert delivery.waiting() == []
        assert delivery.sink.closed == 1
        delivery.deliverer.close(10)
        delivery.deliverer.start()
        assert delivery.sink.closed == 1

    def test_delivers_what_comes_between_the_last_read_and_it(self) -> None:
        class Late(SqliteOutbox):
            def read(self, reader: str, limit: int) -> Any:
                found = super().read(reader, limit)
                if deliverer.alive and deliverer.stats.delivered == 0 and not found:
                    append(self, "1")
                    deliverer._deadline = clock.monotonic() + 5.0  # what `close` does first
                return found

        clock, sink = ManualClock(wall=NOW), ScriptedSink()
        outbox = scratch(Late, clock=clock)
        deliverer = Deliverer(outbox, sink, clock=clock)
        deliverer._run()
        assert sink.next_call() == ["1"]

    def test_waits_for_a_retry_that_is_due_in_time(self, make: Any) -> None:
        delivery = make(failure(), waiting="1")
        delivery.sink.next_call()
        delivery.pause()
        closer = threading.Thread(target=delivery.deliverer.close, args=(10,))
        closer.start()
        delivery.clock.advance(0.5)
        closer.join()
        assert delivery.sink.next_call() == ["1"]
        assert delivery.waiting() == []

    def test_does_not_wait_for_a_retry_that_is_due_too_late(self, make: Any) -> None:
        delivery = make(failure(retry_after=60.0), waiting="1")
        delivery.sink.next_call()
        delivery.pause()
        delivery.deliverer.close(10)
        assert delivery.sink.closed == 1
        assert delivery.waiting() == ["1"]

    def test_leaves_behind_a_call_that_takes_too_long_and_what_comes_after_it(self) -> None:
        outbox, sink = scratch_journal(clock=ManualClock(wall=NOW)), GatedSink()
        deliverer = Deliverer(outbox, sink, clock=ManualClock(wall=NOW))
        append(outbox, "1", "2")
        deliverer.start()
        assert sink.next_call() == ["1"]
        assert deliverer.stats.state == "delivering"
        deliverer.close(0)
        assert sink.closed == 0
        sink.gate.set()
        assert deliverer._thread is not None
        deliverer._thread.join(10)
        assert sink.closed == 1
        assert ids(outbox.read("scripted", 10)) == ["2"], "what went through is noted"

    def test_before_the_start_closes_the_sink_once_and_for_all(self) -> None:
        outbox, sink = scratch_journal(clock=ManualClock(wall=NOW)), ScriptedSink()
        deliverer = Deliverer(outbox, sink, clock=ManualClock(wall=NOW))
        append(outbox, "1")
        deliverer.close()
        deliverer.close()
        deliverer.start()
        assert sink.closed == 1
        assert deliverer._thread is None

    def test_survives_a_sink_that_does_not(self) -> None:
        class Stubborn(ScriptedSink):
            def close(self) -> None:
                raise OSError("no")

        deliverer = Deliverer(scratch_journal(clock=ManualClock(wall=NOW)), Stubborn())
        with structlog.testing.capture_logs() as logs:
            deliverer.close()
        assert [log["event"] for log in logs] == ["sink_close_failed"]


POLICY = RetryPolicy()


class TestDecisions:
    @pytest.mark.parametrize(
        ("failures", "bound"), [(0, 1.0), (1, 2.0), (4, 16.0), (9, 512.0), (10, 900.0), (10_000, 900.0)]
    )
    def test_delays_double_up_to_15_minutes_and_are_drawn_from_all_of_that(
        self, failures: int, bound: float
    ) -> None:
        for jitter in (0.0, 0.25, 0.999):
            decision = decide(POLICY, failures, 3, failure(), jitter)
            assert decision == RetryDecision(delivered=0, failures=failures + 1, delay=jitter * bound)

    @pytest.mark.parametrize(
        ("failures", "facts", "expected"),
        [
            (9, {"delivered": 1}, {"delivered": 1, "failures": 1, "delay": 0.5}),
            (0, {"retry_after": 30.0}, {"delay": 30.0}),
            (9, {"retry_after": 30.0}, {"delay": 256.0}),  # at least, it said
            (0, {"retry_after": 1e9}, {"delay": POLICY.max_delay}),
            (0, {"retry_after": -5.0}, {"delay": 0.5}),
            (0, {"delivered": -1}, {"delivered": 0}),
            (0, {"delivered": 99}, {"delivered": 3}),
            (0, {"delivered": 3, "refused": True}, {"refused": False, "failures": 1}),  # which entry is it?
        ],
    )
    def test_go_by_what_the_target_says(
        self, failures: int, facts: dict[str, Any], expected: dict[str, Any]
    ) -> None:
        decision = decide(POLICY, failures, 3, failure(**facts), 0.5)
        assert {name: getattr(decision, name) for name in expected} == expected

    @pytest.mark.parametrize("fault", [{"first_delay": 0}, {"first_delay": 901}, {"max_age": 0}])
    def test_a_policy_must_make_sense(self, fault: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError, match="a retry policy needs"):
            RetryPolicy(**fault)
