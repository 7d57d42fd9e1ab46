"""Routes: ready tuples, compiled once for each change; fail open."""

from kafka_partition_events import BufferBudget
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.routing.table import Route, compile_table
from kafka_partition_events.testing.scripted import cluster_of

CAPPED = BufferBudget(max_partitions={"orders": 4}, instance_id="a")


def route(cluster: Cluster, budget: BufferBudget | None = None, topic: str = "orders") -> Route:
    return compile_table(cluster, budget).routes[topic]


def test_all_tuples_are_one_object_when_everything_is_online_and_admitted() -> None:
    r = route(cluster_of({"orders": [1, 2, 3]}))
    assert r.all == (0, 1, 2)
    assert r.all is r.online is r.admitted is r.admitted_online is r.usable
    assert not r.capped
    assert not r.rerouted


def test_offline_partitions_are_not_usable_but_count_for_keys() -> None:
    r = route(cluster_of({"orders": [1, None, 3]}))
    assert r.usable == (0, 2)
    assert r.count == 3
    assert r.rerouted
    assert [r.is_online(p) for p in r.all] == [True, False, True]


def test_a_cap_leaves_partitions_out() -> None:
    r = route(cluster_of({"orders": [1] * 12}), CAPPED)
    assert len(r.usable) == 4
    assert r.usable == r.admitted == r.admitted_online
    assert r.capped
    assert not r.rerouted


def test_an_online_partition_stands_in_for_an_admitted_one_that_is_offline() -> None:
    healthy = compile_table(cluster_of({"orders": [1] * 12}), CAPPED)
    chosen = healthy.routes["orders"].admitted
    lost = chosen[0]
    leaders = [None if p == lost else 1 for p in range(12)]
    broken = compile_table(cluster_of({"orders": leaders}), CAPPED, healthy)
    r = broken.routes["orders"]
    assert r.admitted == chosen
    assert lost not in r.admitted_online
    assert len(r.admitted_online) == 4
    assert set(chosen) - {lost} < set(r.admitted_online)
    assert r.rerouted

    healed = compile_table(cluster_of({"orders": [1] * 12}), CAPPED, broken)
    assert healed.routes["orders"].usable == chosen


def test_no_route_is_ever_without_a_usable_partition() -> None:
    nothing_online = route(cluster_of({"orders": [None] * 12}, brokers=[1]), CAPPED)
    assert nothing_online.usable == nothing_online.admitted
    assert len(nothing_online.usable) == 4
    assert route(cluster_of({"orders": [None, None]}, brokers=[1])).usable == (0, 1)


def test_an_online_partition_that_the_cap_leaves_out_beats_an_admitted_one_that_is_offline() -> None:
    chosen = route(cluster_of({"orders": [1] * 12}), CAPPED).admitted
    leaders = [None if p in chosen else 1 for p in range(12)]
    r = route(cluster_of({"orders": leaders}), CAPPED)
    assert not set(r.usable) & set(chosen)
    assert len(r.usable) == 4


def test_topics_that_did_not_change_keep_their_route() -> None:
    before_cluster = cluster_of({"orders": [1] * 12, "payments": [1, 1]})
    before = compile_table(before_cluster, CAPPED)
    after_cluster = Cluster(
        nodes=before_cluster.nodes,
        by_topic={**before_cluster.by_topic, "payments": cluster_of({"payments": [1]}).by_topic["payments"]},
        generation=2,
    )
    after = compile_table(after_cluster, CAPPED, before)
    assert after.generation == 2
    assert after.routes["orders"] is before.routes["orders"]
    assert after.routes["payments"] is not before.routes["payments"]
