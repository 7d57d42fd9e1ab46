"""Routes: ready tuples, compiled once for each change; fail open."""

import pytest
from attrs import evolve

from kafka_partition_events import BufferBudget
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.routing.table import NOTHING, Avoidance, Route, compile_routes
from kafka_partition_events.testing.scripted import PartitionSpec, cluster_of

Ids = tuple[int, ...]
CAPPED = BufferBudget(max_partitions={"orders": 4}, instance_id="a")


def route(cluster: Cluster, budget: BufferBudget | None = None, topic: str = "orders") -> Route:
    return compile_routes(cluster, budget)[topic]


def test_all_tuples_are_one_object_when_everything_is_online_and_admitted() -> None:
    r = route(cluster_of({"orders": [1, 2, 3]}))
    assert r.all == (0, 1, 2)
    assert r.all is r.online is r.admitted is r.admitted_online is r.usable
    assert not r.capped
    assert not r.rerouted


def test_an_online_partition_stands_in_for_an_admitted_one_that_is_offline() -> None:
    healthy = compile_routes(cluster_of({"orders": [1] * 12}), CAPPED)
    chosen = healthy["orders"].admitted
    lost = chosen[0]
    leaders = [None if p == lost else 1 for p in range(12)]
    broken = compile_routes(cluster_of({"orders": leaders}), CAPPED, healthy)
    r = broken["orders"]
    assert r.admitted == chosen
    assert lost not in r.admitted_online
    assert len(r.admitted_online) == 4
    assert set(chosen) - {lost} < set(r.admitted_online)
    assert r.rerouted

    healed = compile_routes(cluster_of({"orders": [1] * 12}), CAPPED, broken)
    assert healed["orders"].usable == chosen
    beside = [1 if p in chosen else None for p in range(12)]
    assert not route(cluster_of({"orders": beside}), CAPPED).rerouted, "none is missed"


def test_a_topic_that_comes_takes_of_the_memory_of_others() -> None:
    budget = BufferBudget(buffer_memory=8, batch_size=1, instance_id="a")
    alone, new = cluster_of({"orders": [1] * 12}), cluster_of({"new": [1] * 12})
    before = compile_routes(alone, budget)
    both = evolve(alone, by_topic=[*alone.by_topic.values(), *new.by_topic.values()])
    assert len(before["orders"].admitted) == 8
    assert len(compile_routes(both, budget, before)["orders"].admitted) == 4


def test_topics_that_did_not_change_keep_their_route() -> None:
    cluster, changed = cluster_of({"orders": [1] * 12, "payments": [1, 1]}), cluster_of({"payments": [1]})
    before = compile_routes(cluster, CAPPED)
    later = evolve(cluster, by_topic={**cluster.by_topic, **changed.by_topic}, generation=2)
    after = compile_routes(later, CAPPED, before)
    assert after["orders"] is before["orders"]
    assert after["payments"] is not before["payments"]


class TestAvoiding:
    def test_nothing_to_avoid_leaves_the_route_as_it_is(self) -> None:
        r = route(cluster_of({"orders": [1, 2, 3]}))
        assert r.avoiding(NOTHING) is r
        assert r.avoiding(Avoidance(frozenset({9}))) is r

    @pytest.mark.parametrize(
        ("leaders", "suspects", "down", "usable", "avoided"),
        [
            ([1, 2, 3, 1], [1], set(), (1, 2), (0, 3)),
            ([1, 2], [1, 2], set(), (0, 1), ()),  # where only suspects lead all are used
            ([1, 2, 3], [1, 2, 3], {1, 3}, (1,), (0, 2)),  # but for those that are down
            ([1, 2], [1, 2], {1, 2}, (0, 1), ()),
            ([1, None, 3], [1], set(), (2,), (0,)),  # what is offline is neither usable nor avoided
            ([1, None], [1], {1}, (0,), ()),
            ([None, None], [1], set(), (0, 1), ()),  # the last resort
        ],
    )
    def test_what_is_used_where_suspects_lead(
        self, leaders: list[int | None], suspects: list[int], down: set[int], usable: Ids, avoided: Ids
    ) -> None:
        r = route(cluster_of({"orders": leaders}, brokers=[1, 2, 3])).avoiding(suspect(*suspects, down=down))
        assert (r.usable, r.avoided, r.count) == (usable, avoided, len(leaders))
        assert r.usable_set == frozenset(usable)
        assert r.online == tuple(p for p, it in enumerate(leaders) if it), "metadata has not said otherwise"
        assert (r.safe or set()) == {p for p, it in enumerate(leaders) if it not in (None, *suspects)}

    def test_nothing_stands_in_for_a_suspects_partitions_as_long_as_others_are_admitted(self) -> None:
        leaders = [1 + p % 3 for p in range(12)]
        r = route(cluster_of({"orders": leaders}), CAPPED)
        lost = {p for p in r.admitted if leaders[p] == leaders[r.admitted[0]]}
        spared = r.avoiding(suspect(leaders[r.admitted[0]]))
        assert set(spared.usable) == set(r.admitted) - lost
        assert set(spared.avoided) == lost
        assert spared.admitted == r.admitted, "the cap has not changed"

    def test_when_all_admitted_are_of_suspects_others_stand_in_for_all(self) -> None:
        chosen = route(cluster_of({"orders": [1] * 12}), CAPPED).admitted
        r = route(cluster_of({"orders": [1 if p in chosen else 2 for p in range(12)]}), CAPPED)
        spared = r.avoiding(suspect(1))
        assert not set(spared.usable) & set(chosen)
        assert len(spared.usable) == 4
        assert spared.avoided == chosen

    def test_a_suspect_that_leads_no_admitted_partition_changes_nothing_that_is_usable(self) -> None:
        chosen = route(cluster_of({"orders": [1] * 12}), CAPPED).admitted
        r = route(cluster_of({"orders": [1 if p in chosen else 2 for p in range(12)]}), CAPPED)
        spared = r.avoiding(suspect(2))
        assert (spared.usable, spared.avoided) == (r.usable, ())

    def test_what_a_suspect_replica_holds_up_is_in_the_way_of_others(self) -> None:
        replicas = [1, 2], [2, 3], [3, 1]
        places: list[PartitionSpec] = [{"leader": it[0], "replicas": it, "isr": it} for it in replicas]
        r = route(cluster_of({"orders": {"partitions": places}}))
        both = Avoidance(leaders=frozenset({2}), replicas=frozenset({2}))
        assert r.avoiding(both).safe == frozenset({2})
        assert r.avoiding(both).held_up == frozenset({0})
        assert r.avoiding(suspect(2)).held_up == frozenset()
        assert r.avoiding(suspect(2, down={2})).held_up == frozenset({1})

    def test_avoiding_again_starts_from_the_routes_own_partitions(self) -> None:
        r = route(cluster_of({"orders": [1, 2, 3]}))
        assert r.avoiding(suspect(1)).avoiding(suspect(2)).usable == (0, 2)


def suspect(*brokers: int, down: set[int] | None = None) -> Avoidance:
    return Avoidance(leaders=frozenset(brokers), down=frozenset(down or ()))
