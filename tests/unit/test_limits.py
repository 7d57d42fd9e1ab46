"""Limits: a grown topic is routed as if it had not grown."""

from collections.abc import Callable, Iterator

import pytest

from kafka_partition_events import (
    UNASSIGNED,
    AdaptivePartitioner,
    BufferBudget,
    CapLifted,
    CapReached,
    Cluster,
    DefaultPartitioner,
    GrowthSafePartitioner,
    Partitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
    UniformStickyPartitioner,
)
from kafka_partition_events.testing.scripted import cluster_of

SIX = cluster_of({"orders": [1, 2, 3] * 2, "other": [1, 2, 3]})
TWELVE = cluster_of({"orders": [1, 2, 3] * 4, "other": [1, 2, 3]})
HELD = {"orders": 6}
MAKERS: list[Callable[[], Partitioner]] = [
    DefaultPartitioner,
    AdaptivePartitioner,
    UniformStickyPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
    lambda: AdaptivePartitioner(key_partitions={"orders": 8}),
    lambda: GrowthSafePartitioner(mapping="rendezvous"),
]


def chosen(partitioner: Partitioner, cluster: Cluster | None = None, records: int = 200) -> set[int]:
    """Return where keyed and unkeyed records go."""
    places = set()
    for n in range(records):
        for key in (None, b"key-%d" % n):
            places.add(partitioner.partition("orders", key, key, b"v", b"v", cluster))
        partitioner.on_new_batch("orders", cluster, next(iter(places)))
    return places


@pytest.fixture(params=MAKERS)
def partitioner(request: pytest.FixtureRequest) -> Iterator[Partitioner]:
    made: Partitioner = request.param()
    yield made
    made.close()


class TestEveryPartitioner:
    def test_keeps_to_a_limit_that_was_there_before_the_growth(self, partitioner: Partitioner) -> None:
        partitioner.apply_snapshot(SIX)
        partitioner.routing.limit(HELD)
        assert chosen(partitioner) <= set(range(6))
        partitioner.apply_snapshot(TWELVE)
        assert chosen(partitioner) <= set(range(6))
        for limits, count in (({}, 12), (HELD, 6)):
            partitioner.routing.limit(limits)
            route = partitioner.route("orders")
            assert route is not None
            assert route.count == count

    def test_keeps_to_it_without_a_table_by_what_the_limit_tells(self, partitioner: Partitioner) -> None:
        assert chosen(partitioner) == {UNASSIGNED}
        partitioner.routing.limit(HELD)
        assert chosen(partitioner) <= set(range(6))
        partitioner.apply_snapshot(TWELVE)
        partitioner.apply_snapshot(None)
        assert chosen(partitioner) <= set(range(6))
        partitioner.routing.limit({})
        assert chosen(partitioner) == {UNASSIGNED}

    def test_keeps_to_it_by_the_clients_own_cluster(self, partitioner: Partitioner) -> None:
        assert chosen(partitioner, TWELVE)
        partitioner.routing.limit(HELD)
        assert chosen(partitioner, TWELVE) <= set(range(6))
        partitioner.routing.limit({})
        route = partitioner.route("orders", TWELVE)
        assert route is not None
        assert route.count == 12


def test_a_cap_that_follows_from_lifting_a_limit_is_told() -> None:
    partitioner = DefaultPartitioner(budget=BufferBudget(max_partitions={"orders": 8}, instance_id="a"))
    partitioner.routing.limit(HELD)
    assert partitioner.apply_snapshot(TWELVE) == ()
    (reached,) = partitioner.routing.limit({})
    assert isinstance(reached, CapReached)
    assert (reached.partitions, reached.limit) == (12, 8)
    (lifted,) = partitioner.routing.limit(HELD)
    assert isinstance(lifted, CapLifted)


def test_the_same_limits_again_change_nothing() -> None:
    partitioner = DefaultPartitioner()
    partitioner.apply_snapshot(TWELVE)
    partitioner.routing.limit(HELD)
    route = partitioner.route("orders")
    assert partitioner.routing.limit({"orders": 6}) == ()
    assert partitioner.route("orders") is route
