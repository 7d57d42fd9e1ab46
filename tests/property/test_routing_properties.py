"""Where records go, by routes compiled from any history of snapshots and any budget."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events import (
    AdaptivePartitioner,
    BufferBudget,
    Cluster,
    DefaultPartitioner,
    GrowthSafePartitioner,
    Partitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from kafka_partition_events.routing.hashing import HashName
from kafka_partition_events.routing.table import Route, compile_routes
from kafka_partition_events.testing.scripted import cluster_of
from tests.partitioner_kit import Lowest

leaders = st.lists(st.sampled_from([1, 2, 3, None]), min_size=1, max_size=24)
snapshots = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), leaders, min_size=1).map(
    lambda topics: cluster_of(topics, brokers=[1, 2, 3])
)
budgets = st.none() | st.builds(
    BufferBudget,
    buffer_memory=st.integers(1, 40),
    batch_size=st.just(1),
    max_partitions=st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 12)),
    instance_id=st.sampled_from(["x", "y"]),
)
few_leaders = st.lists(st.sampled_from([1, 2, 3, None]), min_size=1, max_size=8)
suspects = st.sampled_from([None, 1, 2, 3])
phases = st.lists(st.tuples(few_leaders, suspects, st.integers(0, 20)), min_size=1, max_size=10)


@given(st.lists(snapshots, min_size=1, max_size=6), budgets)
def test_routes_name_existing_ids_and_are_never_empty(
    history: list[Cluster], budget: BufferBudget | None
) -> None:
    table: dict[str, Route] = {}
    for cluster in history:
        table = compile_routes(cluster, budget, table)
        assert table.keys() == cluster.by_topic.keys()
        for name, route in table.items():
            every = set(range(len(cluster.by_topic[name].partitions)))
            online = cluster.available_partitions_for_topic(name)
            assert set(route.all) == every
            assert set(route.online) == online
            assert set(route.admitted) <= every
            assert route.usable
            assert set(route.usable) <= every
            assert route.usable_set == set(route.usable)
            assert not online or set(route.usable) <= online, "an offline partition is the last resort"


@given(st.lists(snapshots, min_size=1, max_size=6), budgets)
def test_the_cap_holds_whatever_happened_before(history: list[Cluster], budget: BufferBudget | None) -> None:
    table: dict[str, Route] = {}
    for cluster in history:
        table = compile_routes(cluster, budget, table)
        if budget is None:
            continue
        for name, route in table.items():
            limit = budget.max_partitions.get(name, route.count)
            assert len(route.admitted) <= max(1, limit)
            assert len(route.admitted_online) <= len(route.admitted)


@given(snapshots, budgets)
def test_compiling_the_same_again_reuses_every_route(cluster: Cluster, budget: BufferBudget | None) -> None:
    table = compile_routes(cluster, budget)
    again = compile_routes(cluster, budget, table)
    assert all(again[name] is route for name, route in table.items())


@given(st.lists(snapshots, min_size=1, max_size=5), st.booleans())
def test_no_built_in_ever_picks_an_offline_partition_while_an_online_one_is_there(
    history: list[Cluster], sticky: bool
) -> None:
    partitioner = StickyPartitioner() if sticky else RoundRobinPartitioner()
    for cluster in history:
        partitioner.apply_snapshot(cluster)
        for name in cluster.by_topic:
            online = cluster.available_partitions_for_topic(name)
            for _ in range(3):
                chosen = partitioner.partition(name, None, None, None, b"", None)
                assert chosen in online if online else chosen in range(len(cluster.by_topic[name].partitions))
                partitioner.on_new_batch(name, None, chosen)


# -- round robin ---------------------------------------------------------------------------------------


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


# -- keys of a topic that grows ------------------------------------------------------------------------

KEYS = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=20)
GROWTH = st.lists(st.integers(1, 60), min_size=1, max_size=6).map(sorted)
HASHES = st.sampled_from(["murmur2", "crc32", "fnv1a"])


def where(partitioner: Partitioner, keys: list[bytes], count: int) -> list[int]:
    partitioner.apply_snapshot(cluster_of({"t": [1] * count}))
    return [partitioner.partition("t", key, key, None, None, None) for key in keys]


@given(keys=KEYS, first=st.integers(1, 60), growth=GROWTH, hash_name=HASHES, data=st.data())
def test_a_key_of_a_topic_in_key_partitions_never_moves(
    keys: list[bytes], first: int, growth: list[int], hash_name: HashName, data: st.DataObject
) -> None:
    fixed = {"t": data.draw(st.integers(1, first), label="key_partitions")}
    for partitioner in (
        DefaultPartitioner(hash_name=hash_name, key_partitions=fixed),
        AdaptivePartitioner(hash_name=hash_name, key_partitions=fixed),
        GrowthSafePartitioner(mapping="rendezvous", hash_name=hash_name, key_partitions=fixed),
    ):
        before = where(partitioner, keys, first)
        assert max(before) < fixed["t"]
        for more in growth:
            assert where(partitioner, keys, first + more) == before


@given(keys=KEYS, growth=GROWTH, hash_name=HASHES)
def test_rendezvous_moves_a_key_only_to_a_partition_that_is_new(
    keys: list[bytes], growth: list[int], hash_name: HashName
) -> None:
    partitioner = GrowthSafePartitioner(mapping="rendezvous", hash_name=hash_name)
    before, had = where(partitioner, keys, growth[0]), growth[0]
    for count in growth[1:]:
        after = where(partitioner, keys, count)
        assert all(a == b or a >= had for a, b in zip(after, before, strict=True))
        before, had = after, count
