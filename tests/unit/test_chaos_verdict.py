"""What the judge of a tormented pair of observers takes for a page that came twice."""

from math import inf

import pytest

from tests.chaos.observers import HAND_OVER_S, Page, doubles


@pytest.mark.parametrize(
    ("one", "other", "is_double"),
    [
        (Page(2, 0, 100), Page(2, 100, 200), False),
        (Page(2, 0, 100), Page(3, 10, 90), False),
        (Page(2, 0, 100), Page(2, 99, 200), False),  # handed over: closed as soon as the other one is told
        (Page(2, 0, 100), Page(2, 10, 200), True),
        (Page(2, 10, 60), Page(2, 0, 100), True),
        (Page(2, 0, inf), Page(2, 10, inf), True),
    ],
)
def test_two_incidents_of_a_broker_that_are_open_at_once(one: Page, other: Page, is_double: bool) -> None:
    told = list(doubles({"a": one, "b": other}, {}))
    assert bool(told) is is_double, told


def test_an_opening_that_comes_again_long_after() -> None:
    assert list(doubles({}, {"a": [0.0, HAND_OVER_S]})) == []
    assert list(doubles({}, {"a": [100.0, 0.0]})) == ["a: opened again after 100 s"]
