"""When the next poll is due, step by step."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.metadata.state import JITTER, Moment, PollState, Timing, step
from kafka_partition_events.testing.scripted import observe
from tests.poller_kit import DOWN

THEN = datetime(2024, 1, 1, tzinfo=UTC)
ONLINE = observe({"orders": [1]}, brokers=[1, 2])
OFFLINE = observe({"orders": [None]}, brokers=[1, 2])
CHANGED = observe({"orders": [None]}, brokers=[1])


def state(interval: float = 30.0, least: float = 0.25) -> PollState:
    return PollState(timing=Timing(interval, 10.0, least), since=0.0)


def after(
    before: PollState, answers: Iterable[Observation | BaseException], jitter: float = 1.0
) -> tuple[PollState, list[float]]:
    """Return what is known after the answers, and the delay after each of them."""
    delays = []
    for answer in answers:
        before, _ = step(before, answer, THEN, Moment(0.0, THEN, 0), jitter)
        delays.append(before.health.next_delay)
    return before, delays


URGENT = [OFFLINE] * 6
STORIES: dict[str, tuple[list[Observation | Exception], list[float]]] = {
    "all is well": ([ONLINE, ONLINE], [30.0, 30.0]),
    "urgent polls slow down to a tenth of the interval": ([*URGENT], [0.25, 0.5, 1, 2, 3, 3]),
    "news makes urgent polls fast again": ([*URGENT, CHANGED, CHANGED], [0.25, 0.5]),
    "so does a time when all was well": ([*URGENT, ONLINE, OFFLINE], [30.0, 0.25]),
    "failures slow down to the interval": ([DOWN] * 9, [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]),
    "urgent polls begin at the floor after an outage": ([*URGENT, *[DOWN] * 9, OFFLINE], [0.25]),
}
"""Answers, and the last delays that follow."""


@pytest.mark.parametrize(("answers", "last"), STORIES.values(), ids=STORIES)
def test_delays(answers: list[Observation | Exception], last: list[float]) -> None:
    _, delays = after(state(), answers)
    assert delays[-len(last) :] == last


def test_failures_without_end_are_an_interval_apart() -> None:
    _, delays = after(state().with_health(failures=100_000), [DOWN])
    assert delays == [30]


@pytest.mark.parametrize("interval", [0.1, 0.25, 1.0, 5.0])
@pytest.mark.parametrize("answer", [OFFLINE, DOWN])
def test_a_short_interval_is_never_exceeded(interval: float, answer: Observation | BaseException) -> None:
    _, delays = after(state(interval), [answer] * 20)
    assert max(delays) <= interval


@pytest.mark.parametrize(("jitter", "normal", "first"), [(JITTER[0], 27, 0.25), (JITTER[1], 33, 0.275)])
def test_jitter_is_a_tenth_either_way_above_the_floor(jitter: float, normal: float, first: float) -> None:
    for answer, delay in ((ONLINE, normal), (OFFLINE, first), (DOWN, first)):
        assert after(state(), [answer], jitter)[1] == [pytest.approx(delay)]
