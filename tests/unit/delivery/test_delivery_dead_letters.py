"""What is given up, and what never is."""

from typing import Any

import pytest

from tests.outbox_kit import NOW, append, entry
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
        delivery = make(*[bug] * 10, waiting="12", max_age=1e9)
        assert delivery.sink.next_call() == ["1", "2"]
        tries = [delivery.retry() for _ in range(9)]
        assert tries == [["1", "2"]] * 4 + [["1"]] * 5, "the last times alone"
        assert delivery.sink.next_call() == ["2"]
        delivery.pause()
        assert [(d.entry.id, d.reason) for d in delivery.outbox.dead_letters()] == [("1", "error")]
        assert delivery.deliverer.stats.failures == {"error": 10}

    def test_are_never_what_failed_in_company_only(self, make: Any) -> None:
        delivery = make(*[KeyError("a bug")] * 15, waiting="12", open_after=15, max_age=1e9)
        delivery.sink.next_call()
        assert [delivery.retry() for _ in range(14)] == [["1", "2"]] * 14
        assert delivery.retry() == ["1"], "the other one is at fault"
        assert delivery.outbox.dead_letters() == []

    def test_are_not_what_the_target_was_down_for(self, make: Any) -> None:
        delivery = make(*[failure()] * 9, KeyError("a bug"), *[failure()] * 10, waiting="1", max_age=1e9)
        delivery.sink.next_call()
        for _ in range(20):
            assert delivery.retry() == ["1"]
        assert delivery.outbox.dead_letters() == []

    def test_are_what_is_a_week_old(self, make: Any) -> None:
        delivery = make(failure(), waiting="12", max_delay=1.0)
        delivery.sink.next_call()
        delivery.pause()
        delivery.clock.advance(0.25)
        append(delivery.outbox, entry("3", at=delivery.clock.now()))
        delivery.pause()
        delivery.clock.advance(604_800.0)
        assert delivery.sink.next_call() == ["3"]
        delivery.pause()
        letters = delivery.outbox.dead_letters()
        assert [(d.entry.id, d.reason) for d in letters] == [("1", "too_old"), ("2", "too_old")]

    @pytest.mark.parametrize("step", [610_000.0, -610_000.0])
    def test_are_not_what_is_old_by_a_clock_that_was_set(self, make: Any, step: float) -> None:
        delivery = make(failure(), failure(), waiting="1", max_delay=1.0)
        delivery.sink.next_call()
        delivery.clock.set_back(step)
        assert delivery.retry() == ["1"]
        append(delivery.outbox, entry("2", at=delivery.clock.now()))
        assert delivery.retry() == ["1", "2"]
        assert delivery.outbox.dead_letters() == []

    def test_are_never_what_comes_after_an_entry_that_is_young_enough(self, make: Any) -> None:
        delivery = make()
        delivery.pause()
        delivery.clock.advance(610_000.0)
        append(delivery.outbox, entry("1", at=delivery.clock.now()), entry("2", at=NOW))
        assert delivery.sink.next_call() == ["1", "2"]

    def test_may_be_all_there_is(self, make: Any) -> None:
        delivery = make()
        delivery.pause()
        delivery.clock.advance(610_000.0)
        append(delivery.outbox, *(entry(str(number), at=NOW) for number in range(7)))
        append(delivery.outbox, entry("young", at=delivery.clock.now()))
        assert delivery.sink.next_call() == ["young"]
        assert len(delivery.outbox.dead_letters()) == 7
