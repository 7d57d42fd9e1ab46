"""Round robin under any sequence of route changes."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events import RoundRobinPartitioner
from kafka_partition_events.testing.scripted import cluster_of
from tests.partitioner_kit import Lowest

leaders = st.lists(st.sampled_from([1, 2, 3, None]), min_size=1, max_size=8)
suspects = st.sampled_from([None, 1, 2, 3])
phases = st.lists(st.tuples(leaders, suspects, st.integers(0, 20)), min_size=1, max_size=10)


@given(phases, st.randoms(use_true_random=False))
def test_partitions_that_stay_usable_are_never_more_than_one_record_apart(
    history: list[tuple[list[int | None], int | None, int]], rng: random.Random
) -> None:
    """In any stretch of records, among the partitions that were usable all the time."""
    partitioner = RoundRobinPartitioner(rng=rng)
    asked: list[tuple[int, frozenset[int]]] = []
    for words, suspect, records in history:
        partitioner.apply_snapshot(cluster_of({"t": words}, brokers=[1, 2, 3]))
        if suspect is not None:
            partitioner.deliveries.unreachable(suspect)
        route = partitioner.route("t")
        assert route is not None
        placed_now = [partitioner.partition("t", None, None, b"v", b"v", None) for _ in range(records)]
        asked += [(chosen, route.usable_set) for chosen in placed_now]
    for begin in range(len(asked)):
        placed: Counter[int] = Counter()
        stayed = asked[begin][1]
        for chosen, usable in asked[begin:]:
            stayed &= usable
            placed[chosen] += 1
            shares = [placed[partition] for partition in stayed]
            assert not shares or max(shares) - min(shares) <= 1


@given(phases)
def test_a_record_that_is_asked_about_twice_takes_one_step(
    history: list[tuple[list[int | None], int | None, int]],
) -> None:
    once, twice = RoundRobinPartitioner(rng=Lowest()), RoundRobinPartitioner(rng=Lowest())
    for words, _suspect, records in history:
        for partitioner in (once, twice):
            partitioner.apply_snapshot(cluster_of({"t": words}))
        for _ in range(records):
            first = twice.partition("t", None, None, b"v", b"v", None)
            twice.on_new_batch("t", None, first)
            again = twice.partition("t", None, None, b"v", b"v", None)
            assert first == again == once.partition("t", None, None, b"v", b"v", None)
