"""Delivery: in order, in batches, at least once, whatever the target does."""

from typing import Any

import structlog.testing

from kafka_partition_events.durations import NO_DELAYS
from kafka_partition_events.outbox import Deliverer, Write
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, ScriptedSink, append, scratch_journal
from tests.unit.delivery.at_work import LONG_S, failure


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

    def test_tells_how_long_entries_took(self, make: Any) -> None:
        delivery = make(failure(), waiting="1")
        assert delivery.sink.next_call() == ["1"]
        assert delivery.deliverer.stats.delays == NO_DELAYS
        assert delivery.retry() == ["1"]
        delivery.pause()
        assert delivery.deliverer.stats.delays.total == LONG_S

    def test_begins_where_another_process_stopped(self) -> None:
        outbox = scratch_journal(clock=ManualClock(wall=NOW))
        append(outbox, "1", "2", "3", "4")
        outbox.subscribe("scripted")
        outbox.write(Write(cursors={"scripted": outbox.read("scripted", 2)[-1].seq}))
        sink = ScriptedSink()
        deliverer = Deliverer(outbox, sink, clock=ManualClock(wall=NOW))
        deliverer.start()
        deliverer.start()
        assert sink.next_call() == ["3", "4"]
        deliverer.close()

    def test_may_leave_out_what_was_there_before_the_sink(self) -> None:
        outbox, sink = scratch_journal(clock=ManualClock(wall=NOW)), ScriptedSink()
        append(outbox, "1")
        deliverer = Deliverer(outbox, sink, from_start=False, clock=ManualClock(wall=NOW))
        append(outbox, "2")
        deliverer.start()
        assert sink.next_call() == ["2"]
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
