"""Choosers among any places, with any weights, in any order."""

from collections import Counter
from math import gcd, lcm
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.partitioners.choosers import (
    Choice,
    Chooser,
    evenly,
    least_loaded,
    near_rack,
    shuffle_sharded,
    weighted,
)
from kafka_partition_events.partitioners.choosers.shards import SHARDS, places_of
from tests.chooser_kit import choice_of, chosen, load

leaders = st.lists(st.sampled_from([1, 2, 3, None]), min_size=1, max_size=24)
places = st.sets(st.integers(0, 40), min_size=1).map(lambda ids: tuple(sorted(ids)))
shards = st.integers(0, SHARDS - 1)
k = st.integers(1, 8)


@st.composite
def choosers(draw: st.DrawFn, depth: int = 3) -> Chooser:
    """Any composition."""
    ends, links = ["evenly", "weighted", "least_loaded"], ["near_rack", "shuffle_sharded"]
    match draw(st.sampled_from(ends + links if depth else ends)):
        case "evenly":
            return evenly()
        case "weighted":
            by = draw(st.sampled_from(["partition", "broker"]))
            weights = draw(st.dictionaries(st.integers(0, 24), st.just(0) | st.floats(1e-9, 1e15)))
            return weighted(weights, by=by)  # type: ignore[arg-type]
        case "least_loaded":
            return least_loaded(rng=Random(draw(st.integers())))
        case "near_rack":
            then = draw(choosers(depth=depth - 1))
            return near_rack(draw(st.sampled_from("abc")), then, spill=draw(st.integers(0, 5)))
        case _:
            return shuffle_sharded(draw(k), draw(choosers(depth=depth - 1)))


@given(choosers(), st.lists(st.tuples(leaders, st.sampled_from([None, b"", b"a"])), min_size=1, max_size=20))
def test_any_composition_chooses_one_of_the_places(
    chooser: Chooser, asked: list[tuple[list[int | None], bytes | None]]
) -> None:
    for partitions, key in asked:
        choice = choice_of(partitions, key=key)
        load(choice, choice.places[0], len(asked))
        for _ in range(3):
            assert chooser(choice) in choice.places


@given(st.lists(places, min_size=1, max_size=5), st.data())
def test_evenly_is_even_to_within_one_in_every_set_whatever_the_order(
    sets: list[tuple[int, ...]], data: st.DataObject
) -> None:
    choice, chooser = choice_of([1] * 41), evenly()
    placed: dict[tuple[int, ...], Counter[int]] = {}
    for asked in data.draw(st.lists(st.sampled_from(sets), max_size=200)):
        placed.setdefault(asked, Counter())[chooser(choice.among(asked))] += 1
    for asked, counts in placed.items():
        assert max(counts.values()) - min(counts[place] for place in asked) <= 1


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(0, 50))
def test_weights_are_exact_in_every_round(weights: list[int], begun: int) -> None:
    choice, chooser = choice_of([1] * len(weights)), weighted(dict(enumerate(weights)))
    chosen(chooser, choice, begun)
    unit = gcd(*weights)
    expected = [weight // unit for weight in weights] if unit else [1] * len(weights)
    placed = chosen(chooser, choice, sum(expected))
    assert [placed[place] for place in range(len(weights))] == expected


@given(
    st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=12),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_a_brokers_share_is_exact_however_many_partitions_it_leads(led: list[int], shares: list[int]) -> None:
    weights = dict(zip((1, 2, 3), shares, strict=True))
    choice, chooser = choice_of(led), weighted(weights, by="broker")
    counts = Counter(led)
    rounds = lcm(*counts.values())
    placed = chosen(chooser, choice, rounds * sum(weights[broker] for broker in counts))
    by_broker = Counter[int]()
    for place, times in placed.items():
        by_broker[led[place]] += times
    assert by_broker == {broker: weights[broker] * rounds for broker in counts}


@given(shards, k, places, st.data())
def test_places_that_go_take_no_other_place_from_a_shard(
    shard: int, k: int, before: tuple[int, ...], data: st.DataObject
) -> None:
    """And those that come, which is the same seen backwards, take the place of as many at most."""
    gone = data.draw(st.sets(st.sampled_from(before), max_size=len(before) - 1))
    after = tuple(place for place in before if place not in gone)
    had, has = set(places_of(shard, k, before)), set(places_of(shard, k, after))
    assert len(has) == min(k, len(after))
    assert had - gone <= has <= set(after)


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=30), k, leaders)
def test_a_keys_places_are_the_same_in_every_instance(
    keys: list[bytes], k: int, partitions: list[int | None]
) -> None:
    shown: list[list[tuple[int, ...]]] = []
    for _ in range(2):
        seen: list[tuple[int, ...]] = []

        def first(choice: Choice, seen: list[tuple[int, ...]] = seen) -> int:
            seen.append(choice.places)
            return choice.places[0]

        chooser = shuffle_sharded(k, first)
        for key in keys:
            chooser(choice_of(partitions, key=key))
        shown.append(seen)
    assert shown[0] == shown[1]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers())
def test_least_loaded_is_the_least_but_for_records_in_turn(loads: list[int], seed: int) -> None:
    """1 in 100 is in turn: 13 and more of 200 come less than once in a million runs."""
    choice = choice_of([1] * len(loads))
    for place, records in enumerate(loads):
        load(choice, place, records)
    placed = chosen(least_loaded(rng=Random(seed)), choice, 200)
    least = {place for place, records in enumerate(loads) if records == min(loads)}
    assert sum(placed[place] for place in placed.keys() - least) <= 12
