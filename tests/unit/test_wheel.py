"""The wheel: exact proportions, evenly spread; and KIP-794's weights with a floor."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.routing.wheel import FLOOR, adaptive_weights, make_wheel

weights = st.lists(st.integers(1, 60), min_size=1, max_size=40)


def test_the_worst_place_keeps_a_twentieth_of_the_best() -> None:
    weights = adaptive_weights([999, 0, 998])
    assert weights == [50, 1000, 50]
    assert adaptive_weights([38, 0]) == [2, 39], "never less"


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=50))
def test_no_place_starves_and_a_shorter_queue_never_gets_less(queues: list[int]) -> None:
    made = adaptive_weights(queues)
    assert min(made) >= 1
    assert max(made) <= FLOOR * min(made)
    ranked = sorted(zip(queues, made, strict=True))
    assert all(a[1] >= b[1] for a, b in pairwise(ranked))


@given(weights, st.integers(0, 1000))
def test_each_round_has_the_proportions_exactly_wherever_it_begins(given_: list[int], start: int) -> None:
    wheel = make_wheel(range(len(given_)), given_)
    picked = Counter(wheel.at(step) for step in range(start, start + sum(given_)))
    assert [picked[place] for place in range(len(given_))] == given_


@pytest.mark.parametrize(
    "weights", [[1, 6, 3, 6, 5], [1, 20], [20, 20, 1], [19, 20, 20, 20], [7] * 12, [1] * 30 + [20] * 6]
)
def test_any_stretch_of_steps_has_about_the_proportions(weights: list[int]) -> None:
    """A drawn number would be off by the root of the stretch: 10 of 400 and more, one time in twenty."""
    wheel = make_wheel(range(len(weights)), weights)
    total = sum(weights)
    for start in range(0, 3 * total, 7):
        for length in (total // 2, total, 400):
            picked = Counter(wheel.at(start + step) for step in range(length))
            for place, weight in enumerate(weights):
                assert abs(picked[place] - length * weight / total) <= 4


def test_places_keep_their_names() -> None:
    assert {make_wheel([4, 9, 17], [1, 2, 3]).at(step) for step in range(6)} == {4, 9, 17}
