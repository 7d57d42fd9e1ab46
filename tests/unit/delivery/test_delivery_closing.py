"""The end of a deliverer: what it still delivers, what it waits for, what it leaves behind."""

import threading
from typing import Any

import structlog.testing

from kafka_partition_events.outbox import Deliverer
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, ScriptedSink, append, ids, scratch_journal
from tests.unit.delivery.at_work import failure


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
        append(outbox, "1", "2")
        deliverer = Deliverer(outbox, sink, clock=ManualClock(wall=NOW))
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
