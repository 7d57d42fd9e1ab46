"""Whom nearly all answers that took long needed."""

import random
from collections.abc import Sequence

import pytest

from kafka_partition_events.health.in_flight import MAIN, InFlight, Subject
from kafka_partition_events.health.slowness import Slowness
from kafka_partition_events.metadata.events import Role

BOTH = (Subject(Role.REPLICA, 2), Subject(Role.LEADER, 2))
PARTITIONS: dict[tuple[int, ...], InFlight] = {}
Named = tuple[Subject, ...]
FINE = [(3, 4, 5), (6, 1, 3), (4, 1, 5)]
"""Whom answers need that come soon."""


def partition(brokers: Sequence[int]) -> InFlight:
    """Return what is in flight to a partition with these replicas: always the same."""
    leader, *followers = brokers
    new = InFlight("t", len(PARTITIONS), MAIN, leader, frozenset(followers))
    return PARTITIONS.setdefault(tuple(brokers), new)


def note(
    slowness: Slowness, brokers: Sequence[int], now: float, *, long: bool, known: Sequence[int] = ()
) -> Named:
    return slowness.note(partition(brokers), brokers[0], now, long=long, known=known)


def named_by(
    long: Sequence[Sequence[int]], soon: Sequence[Sequence[int]] = FINE, step: float = 0.01
) -> list[Named]:
    """Note long answers, each after one that came soon."""
    slowness, now, names = Slowness(), 100.0, []
    for number, brokers in enumerate(long):
        now += step
        note(slowness, soon[number % len(soon)], now, long=False)
        names.append(note(slowness, brokers, now, long=True))
    return names


def test_who_is_in_all_of_them_is_named_once_there_are_enough() -> None:
    assert named_by([(1, 2, 3), (2, 4, 5), (6, 2, 1)] * 5)[:14] == [()] * 12 + [BOTH, ()]


def test_of_one_that_was_slow_lately_four_are_enough() -> None:
    slowness = Slowness()
    for number in range(5):
        note(slowness, (3, 4, 5), 0.01 * number, long=False)
    noted = [note(slowness, (leader, 2), 0.05, long=True, known=(2,)) for leader in (1, 3, 4, 5)]
    assert noted == [(), (), (), BOTH]


def test_the_count_begins_anew() -> None:
    names = named_by([(1, 2), (2, 3), (4, 2)] * 10)
    assert [number for number, name in enumerate(names) if name] == [12, 25]


def test_where_nearly_all_is_sent_to_one_broker_that_is_no_evidence() -> None:
    assert set(named_by([(2, 1), (2, 3), (2, 4)] * 40, [(2, 1), (2, 5), (2, 6)])) == {()}


def test_where_most_that_needs_it_is_answered_soon_it_is_those_partitions_and_not_the_broker() -> None:
    """Two partitions with large records have one replica in common."""
    soon = [(2, 3, 4), (4, 5, 6), (5, 2, 6), (3, 4, 5), (6, 3, 2), (4, 2, 5)]
    assert set(named_by([(1, 2, 3), (5, 6, 2)] * 50, soon)) == {()}


@pytest.mark.parametrize("seed", range(20))
def test_noise_names_nobody(seed: int) -> None:
    """Each answer needs three of six brokers, drawn evenly, as on a busy machine."""
    rng = random.Random(seed)
    drawn = [tuple(rng.sample(range(6), 3)) for _ in range(4_000)]
    assert set(named_by(drawn[::2], drawn[1::2])) == {()}


def test_it_goes_on_for_days() -> None:
    slowness = Slowness()
    for minute in range(3 * 24 * 60):
        assert note(slowness, (1, 2), 60.0 * minute, long=True) == ()
