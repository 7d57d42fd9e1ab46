"""The wheel: exact proportions, evenly spread; and KIP-794's weights with a floor."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.partitioners.adaptive import FLOOR, Wheel, adaptive_weights


def picked(
    weights: Sequence[int], start: int, steps: int, places: Iterable[int] | None = None
) -> Counter[int]:
    """Return how often each place comes in so many steps."""
    wheel = Wheel(None, list(places or range(len(weights))), weights, 0.0, count(start))
    return Counter(wheel.next() for _ in range(steps))


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
    of_a_round = picked(given_, start, sum(given_))
    assert [of_a_round[place] for place in range(len(given_))] == given_


@pytest.mark.parametrize(
    "weights", [[1, 6, 3, 6, 5], [1, 20], [20, 20, 1], [19, 20, 20, 20], [7] * 12, [1] * 30 + [20] * 6]
)
def test_any_stretch_of_steps_has_about_the_proportions(weights: list[int]) -> None:
    """A drawn number would be off by the root of the stretch: 10 of 400 and more, one time in twenty."""
    total = sum(weights)
    for start in range(0, 3 * total, 7):
        for length in (total // 2, total, 400):
            found = picked(weights, start, length)
            for place, weight in enumerate(weights):
                assert abs(found[place] - length * weight / total) <= 4


def test_places_keep_their_names() -> None:
    assert picked([1, 2, 3], 0, 6, places=[4, 9, 17]) == {4: 1, 9: 2, 17: 3}
