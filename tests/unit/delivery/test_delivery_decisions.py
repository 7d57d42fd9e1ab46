"""The pure decisions: what to do after a try, and how long to wait."""

from typing import Any

import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox import RetryPolicy
from kafka_partition_events.outbox.retry import Decision, decide
from tests.unit.delivery.at_work import failure

POLICY = RetryPolicy()


class TestDecisions:
    def test_after_success_all_is_delivered_and_forgotten(self) -> None:
        assert decide(POLICY, 7, 3, None, 0.5) == Decision(delivered=3, failures=0, delay=0.0)

    @pytest.mark.parametrize(
        ("failures", "bound"), [(0, 1.0), (1, 2.0), (4, 16.0), (9, 512.0), (10, 900.0), (10_000, 900.0)]
    )
    def test_delays_double_up_to_15_minutes_and_are_drawn_from_all_of_that(
        self, failures: int, bound: float
    ) -> None:
        for jitter in (0.0, 0.25, 0.999):
            decision = decide(POLICY, failures, 3, failure(), jitter)
            assert decision == Decision(delivered=0, failures=failures + 1, delay=jitter * bound)

    def test_progress_begins_a_new_row_of_failures(self) -> None:
        decision = decide(POLICY, 9, 3, failure(delivered=1), 0.5)
        assert decision == Decision(delivered=1, failures=1, delay=0.5)

    def test_a_target_may_ask_for_patience_up_to_a_limit(self) -> None:
        assert decide(POLICY, 0, 3, failure(retry_after=30.0), 0.5).delay == 30.0
        assert decide(POLICY, 9, 3, failure(retry_after=30.0), 0.5).delay == 256.0, "at least, it said"
        assert decide(POLICY, 0, 3, failure(retry_after=1e9), 0.5).delay == POLICY.max_delay
        assert decide(POLICY, 0, 3, failure(retry_after=-5.0), 0.5).delay == 0.5

    def test_a_refusal_is_about_the_next_entry_and_the_one_after_it_is_tried_at_once(self) -> None:
        decision = decide(POLICY, 9, 3, failure(delivered=1, refused=True), 0.5)
        assert decision == Decision(delivered=1, refused=True, failures=0, delay=0.0)

    @pytest.mark.parametrize(("claimed", "delivered"), [(-1, 0), (3, 3), (99, 3)])
    def test_a_sink_cannot_deliver_more_than_it_got(self, claimed: int, delivered: int) -> None:
        assert decide(POLICY, 0, 3, failure(delivered=claimed), 0.5).delivered == delivered
        refusal = decide(POLICY, 0, 3, failure(delivered=99, refused=True), 0.5)
        assert (refusal.refused, refusal.failures) == (False, 1), "there is no entry to be refused"

    @pytest.mark.parametrize("fault", [{"first_delay": 0}, {"first_delay": 901}, {"max_age": 0}])
    def test_a_policy_must_make_sense(self, fault: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError, match="a retry policy needs"):
            RetryPolicy(**fault)
