"""Routes compiled from any snapshot and any budget."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events import BufferBudget, Cluster, RoundRobinPartitioner, StickyPartitioner
from kafka_partition_events.routing.table import Route, compile_routes
from kafka_partition_events.testing.scripted import cluster_of

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
