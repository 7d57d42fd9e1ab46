"""Whom nearly all answers that took long needed."""

import random
from collections.abc import Sequence

import pytest

from kafka_partition_events.routing.charges import Waits

FINE = [(3, 4, 5), (6, 1, 3), (4, 1, 5)]
"""Whom answers need that come soon."""


def told(
    long: Sequence[Sequence[int]], soon: Sequence[Sequence[int]] = FINE, step: float = 0.01
) -> list[int | None]:
    """Note long answers, each after one that came soon."""
    waits, now, names = Waits(), 100.0, []
    for number, brokers in enumerate(long):
        now += step
        waits.note(soon[number % len(soon)], now, long=False)
        names.append(waits.note(brokers, now, long=True))
    return names


def test_who_is_in_all_of_them_is_named_once_there_are_enough() -> None:
    assert told([(1, 2, 3), (2, 4, 5), (6, 2, 1)] * 5)[:14] == [None] * 12 + [2, None]


def test_the_count_begins_anew() -> None:
    names = told([(1, 2), (2, 3), (4, 2)] * 10)
    assert [number for number, name in enumerate(names) if name is not None] == [12, 25]


def test_where_every_answer_needs_the_same_brokers_nobody_is_named() -> None:
    assert set(told([(1, 2, 3)] * 100, [(1, 2, 3)])) == {None}


def test_where_nearly_all_is_sent_to_one_broker_that_is_no_evidence() -> None:
    assert set(told([(2, 1), (2, 3), (2, 4)] * 40, [(2, 1), (2, 5), (2, 6)])) == {None}


def test_one_that_is_needed_by_two_thirds_is_not_to_blame() -> None:
    assert set(told([(1, 2, 3), (2, 4, 5), (6, 4, 1)] * 40)) == {None}


def test_now_and_then_a_long_one_says_nothing() -> None:
    assert set(told([(1, 2), (2, 3), (4, 2)] * 20, step=0.2)) == {None}


@pytest.mark.parametrize("seed", range(20))
def test_noise_names_nobody(seed: int) -> None:
    """Each answer needs three of six brokers, drawn evenly, as on a busy machine."""
    rng = random.Random(seed)
    drawn = [tuple(rng.sample(range(6), 3)) for _ in range(4_000)]
    assert set(told(drawn[::2], drawn[1::2])) == {None}


def test_it_goes_on_for_days() -> None:
    waits = Waits()
    for minute in range(3 * 24 * 60):
        assert waits.note((1, 2), 60.0 * minute, long=True) is None
