"""The partitioners that pages show: each keeps the contract and does what it says."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kafka_partition_events import Partitioner
from kafka_partition_events.testing import PartitionerContract, cluster_of
from tests.docs_kit import blocks

NAMES = (
    "WeightedPartitioner", "TenantPartitioner", "ShuffleShardedPartitioner", "LeastLoadedPartitioner",
    "LagPartitioner", "VipFirst",
)  # fmt: skip
CUSTOMERS = [b"customer-%d" % number for number in range(400)]


def shown(name: str) -> Any:
    """Return the class of this name as its page shows it."""
    (block,) = (b for b in blocks("python") if f"class {name}(" in b.code)
    names: dict[str, Any] = {"__name__": "docs"}
    exec(compile(block.code, str(block), "exec"), names)  # noqa: S102 - our own page
    return names[name]


def made(name: str) -> Partitioner:
    made: Partitioner = shown(name)({1: 3}) if name == "WeightedPartitioner" else shown(name)()
    return made


def placed(partitioner: Partitioner, times: int, key: bytes | None = None) -> Counter[int]:
    """Return how many of so many records go to each partition of ``orders``."""
    return Counter(partitioner.partition("orders", key, key, None, b"v", None) for _ in range(times))


def places_of(partitioner: Partitioner, leaders: list[int | None]) -> dict[bytes, frozenset[int]]:
    """Return the partitions of each customer."""
    partitioner.apply_snapshot(cluster_of({"orders": leaders}))
    return {key: frozenset(placed(partitioner, 100, key)) for key in CUSTOMERS}


class TestEach(PartitionerContract):
    @pytest.fixture(autouse=True, params=NAMES)
    def _factory(self, request: pytest.FixtureRequest) -> None:
        self.factory: Callable[[], Partitioner] = lambda: made(request.param)

    def make(self) -> Partitioner:
        return self.factory()


TestOfTheTestingPage = shown("TestMyPartitioner")


def test_keys_of_vips_go_to_one_partition_and_no_client_places_them_by_their_hash() -> None:
    partitioner, keys = made("VipFirst"), [b"vip-%d" % number for number in range(20)]
    assert partitioner.requires_metadata("orders")
    partitioner.apply_snapshot(cluster_of({"orders": [1, 2, 3]}))
    assert {at for key in keys for at in placed(partitioner, 1, key)} == {0}
    partitioner.apply_snapshot(cluster_of({"orders": [None, 2, 3]}))
    assert {at for key in keys for at in placed(partitioner, 1, key)} == {0, 1, 2}, "offline: by their hash"


def test_weights_are_those_of_leaders() -> None:
    partitioner = made("WeightedPartitioner")
    partitioner.apply_snapshot(cluster_of({"orders": [1, 2, 3]}))
    assert placed(partitioner, 10_000)[0] == pytest.approx(6_000, rel=0.1)
    partitioner.apply_snapshot(cluster_of({"orders": [2, 1, 3]}))
    assert placed(partitioner, 10_000)[1] == pytest.approx(6_000, rel=0.1)


def test_a_tenant_has_three_partitions_and_each_of_its_keys_one() -> None:
    partitioner = made("TenantPartitioner")
    partitioner.apply_snapshot(cluster_of({"orders": [1, 2, 3] * 4}))
    by_key = {number: set(placed(partitioner, 10, b"acme:%d" % number)) for number in range(100)}
    assert {len(places) for places in by_key.values()} == {1}
    assert len(set.union(*by_key.values())) == 3


def test_a_shuffle_sharded_key_has_four_partitions_the_same_in_every_process() -> None:
    places = places_of(made("ShuffleShardedPartitioner"), [1, 2, 3] * 4)
    assert {len(four) for four in places.values()} == {4}
    assert places == places_of(made("ShuffleShardedPartitioner"), [1, 2, 3] * 4)
    # 495 sets of four are possible; two keys of a hundred share all of them rarely.
    assert len(set(places.values())) > 200


def test_an_outage_costs_a_shuffle_sharded_key_one_partition_and_growth_moves_few() -> None:
    partitioner = made("ShuffleShardedPartitioner")
    before = places_of(partitioner, [1] * 12)
    without = places_of(partitioner, [None, *[1] * 11])
    assert all(len(before[key] - without[key]) == (0 in before[key]) for key in CUSTOMERS)
    grown = places_of(partitioner, [1] * 13)
    moved = [key for key in CUSTOMERS if grown[key] != before[key]]
    assert all(grown[key] - before[key] == {12} for key in moved)
    assert len(moved) == pytest.approx(len(CUSTOMERS) * 4 / 13, rel=0.3)


def test_the_least_loaded_leaves_what_others_wait_for() -> None:
    partitioner = made("LeastLoadedPartitioner")
    partitioner.apply_snapshot(cluster_of({"orders": [1, 2, 3]}))
    for _ in range(10):
        partitioner.deliveries.sent("orders", 0, 1)
    assert partitioner.deliveries.stats.outstanding == {("orders", 0): 10}
    # It is chosen where it is drawn twice: one of nine.
    assert placed(partitioner, 9_000)[0] == pytest.approx(1_000, rel=0.2)


def test_a_metric_that_is_replaced_holds_at_once_and_for_its_topic_alone() -> None:
    partitioner: Any = made("LagPartitioner")
    partitioner.apply_snapshot(cluster_of({"orders": [1, 2, 3]}))
    partitioner.lag = {("orders", 2): 1e9, ("others", 1): 1e9}
    assert set(placed(partitioner, 1_000)) == {0, 1}
    partitioner.lag = {("orders", 0): 1e9, ("orders", 1): 1e9}
    assert set(placed(partitioner, 1_000)) == {2}
    partitioner.lag = {}
    assert set(placed(partitioner, 1_000)) == {0, 1, 2}
