import random

import pytest

from kafka_partition_events.metadata.pacing import Pacing


class Unjittered(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return 1.0


def pacing(interval: float = 30.0, floor: float = 0.25) -> Pacing:
    return Pacing(interval, floor, Unjittered())


def test_all_is_well() -> None:
    plan = pacing()
    assert [plan.after_answer(changed=changed, urgent=False) for changed in (True, False)] == [30.0, 30.0]


def test_urgent_polls_slow_down_to_a_tenth_of_the_interval() -> None:
    plan = pacing()
    assert [plan.after_answer(changed=False, urgent=True) for _ in range(6)] == [0.25, 0.5, 1, 2, 3, 3]


def test_news_makes_urgent_polls_fast_again() -> None:
    plan = pacing()
    for _ in range(6):
        plan.after_answer(changed=False, urgent=True)
    assert plan.after_answer(changed=True, urgent=True) == 0.25
    assert plan.after_answer(changed=False, urgent=True) == 0.5


def test_failures_slow_down_to_the_interval() -> None:
    plan = pacing()
    delays = [plan.after_failure(n) for n in range(1, 10)]
    assert delays == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]
    assert plan.after_failure(100_000) == 30


def test_urgent_polls_begin_at_the_floor_after_an_outage() -> None:
    plan = pacing()
    for n in range(1, 10):
        plan.after_failure(n)
    assert plan.after_answer(changed=False, urgent=True) == 0.25


@pytest.mark.parametrize("interval", [0.1, 0.25, 1.0, 5.0])
def test_a_short_interval_is_never_exceeded(interval: float) -> None:
    plan = pacing(interval)
    assert all(plan.after_answer(changed=False, urgent=True) <= interval for _ in range(20))
    assert all(plan.after_failure(n) <= interval for n in range(1, 20))


def test_jitter_is_a_tenth_either_way_and_never_below_the_floor() -> None:
    """500 numbers leave out the last sixth of the range with a probability of (5/6)**500 = 3e-40."""
    plan = Pacing(30.0, 0.25, random.Random(7))
    normal = [plan.after_answer(changed=False, urgent=False) for _ in range(500)]
    assert 27 <= min(normal) < 28
    assert 32 < max(normal) <= 33
    assert min(plan.after_failure(1) for _ in range(500)) == 0.25
