"""The outbox itself in trouble: full, damaged, closed too early."""

from typing import Any

from tests.outbox_kit import ids
from tests.unit.delivery.at_work import LONG_S, failure


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
        assert ids(d.entry for d in delivery.outbox.dead_letters()) == ["2"]

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
