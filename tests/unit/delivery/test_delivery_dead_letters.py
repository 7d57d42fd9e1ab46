"""What is given up, and what never is."""

from typing import Any

from tests.unit.delivery.at_work import failure


class TestDeadLetters:
    def test_are_what_the_target_refuses_and_the_rest_goes_on_at_once(self, make: Any) -> None:
        delivery = make(failure("http_400", delivered=1, refused=True), waiting="123")
        assert delivery.sink.next_call() == ["1", "2", "3"]
        assert delivery.sink.next_call() == ["3"]
        delivery.pause()
        assert [(d.entry.id, d.reason) for d in delivery.outbox.dead_letters()] == [("2", "http_400")]
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
        assert [(d.entry.id, d.reason) for d in delivery.outbox.dead_letters()] == [("1", "error")]
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

    def test_are_never_what_has_waited_for_long(self, make: Any) -> None:
        delivery = make(failure(), waiting="1")
        delivery.sink.next_call()
        delivery.pause()
        delivery.clock.advance(6_040_000.0)
        assert delivery.sink.next_call() == ["1"]
        assert delivery.outbox.dead_letters() == []
