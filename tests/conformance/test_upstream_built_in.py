"""``BuiltInPartitionerTest`` of Apache Kafka (KIP-794, KIP-1123), asked of our adaptive partitioner.

Kafka's tests put a counter in place of its random numbers and then expect exact counts. Ours has no random
numbers to replace: its wheel has the proportions exactly, always. It differs on purpose where the tests say.
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from kafka_partition_events import AdaptivePartitioner, Node
from kafka_partition_events.partitioners.adaptive import TopicPace
from kafka_partition_events.routing.wheel import FLOOR, adaptive_weights, make_wheel
from kafka_partition_events.testing import ManualClock, cluster_of
from tests.conformance.asking import ask, with_topics

QUEUES = (5, 0, 3, 0, 1)
"""Batches that wait in Kafka's test, by partition: the weights are 6 less these, 1, 6, 3, 6, 5 (of 21)."""

RACKED = tuple(Node(broker, "h", 9092, rack) for broker, rack in enumerate(("r0", "r1", "r0", "r1")))
UNRACKED = tuple(Node(broker, "h", 9092) for broker in range(4))


def make(turn_bytes: int, **options: Any) -> AdaptivePartitioner:
    """Make a partitioner on a clock that stands still, so that turns end by bytes alone."""
    kind: type[AdaptivePartitioner] = type("Made", (AdaptivePartitioner,), {"turn_bytes": turn_bytes})
    return kind(clock=ManualClock().monotonic, rng=random.Random(1), **options)


def behind(queues: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Say that so many turns wait on each partition."""
    monkeypatch.setattr(TopicPace, "backlogs", lambda *args: [queues[place] for place in args[-1]])


@pytest.mark.parametrize("rack", [None, "r0", "r1", "r2"])
def test_partitions_without_a_leader_are_taken_if_there_is_no_other(rack: str | None) -> None:
    """Whatever the client's rack: one with brokers, one whose brokers lead nothing, and an unknown one."""
    partitioner = make(turn_bytes=1, rack=rack)
    partitioner.apply_snapshot(cluster_of({"a": [0, None, 2], "b": [None, 1], "c": [None]}, RACKED))
    assert {ask(partitioner, "a") for _ in range(100)} == {0, 2}
    assert {ask(partitioner, "b") for _ in range(100)} == {1}
    assert {ask(partitioner, "c") for _ in range(100)} == {0}


class TestAdaptive:
    def test_42_choices_have_kip_794s_proportions_exactly(self) -> None:
        wheel = make_wheel(range(5), adaptive_weights(QUEUES))
        picked = Counter(wheel.at(step) for step in range(42))
        assert [picked[partition] for partition in range(5)] == [2, 12, 6, 12, 10]

    @pytest.mark.parametrize(
        ("rack", "nodes"),
        [(None, None), (None, RACKED), ("r0", UNRACKED)],
        ids=["no racks", "racks that do not matter", "a client with a rack, brokers without"],
    )
    def test_so_has_the_partitioner(
        self, rack: str | None, nodes: tuple[Node, ...] | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partitioner = make(turn_bytes=1, rack=rack)
        behind(QUEUES, monkeypatch)
        partitioner.apply_snapshot(cluster_of({"test": [0, 1, 2, 3, 0]}, nodes))
        picked = Counter(ask(partitioner) for _ in range(42))
        assert [picked[partition] for partition in range(5)] == [2, 12, 6, 12, 10]

    def test_in_the_clients_rack_the_proportions_are_those_of_the_rack(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Partitions 0 and 2 are led there. Their queues are 5 and 3, so the weights are 1 and 3."""
        partitioner = make(turn_bytes=1, rack="r0")
        behind(QUEUES, monkeypatch)
        partitioner.apply_snapshot(cluster_of({"test": [0, 1, 2, 3, 1]}, RACKED))
        assert Counter(ask(partitioner) for _ in range(40)) == {0: 10, 2: 30}

    def test_a_partition_without_a_leader_has_no_weight(self, monkeypatch: pytest.MonkeyPatch) -> None:
        partitioner = make(turn_bytes=1)
        behind(QUEUES, monkeypatch)
        with_topics(partitioner, test=[0, None, 2, 3, 0])
        picked = Counter(ask(partitioner) for _ in range(30))
        assert [picked[partition] for partition in range(5)] == [2, 0, 6, 12, 10]

    def test_equal_queues_mean_equal_shares(self, monkeypatch: pytest.MonkeyPatch) -> None:
        partitioner = make(turn_bytes=1)
        behind([7] * 5, monkeypatch)
        with_topics(partitioner, test=[0, 1, 2, 3, 0])
        assert set(Counter(ask(partitioner) for _ in range(50)).values()) == {10}

    def test_ours_never_weighs_the_worst_below_a_twentieth_of_the_best(self) -> None:
        """Kafka's longest queue has weight 1 however long it is: of 100 against 0, one record in 102.

        A partition that hardly gets a record is one that nobody knows has recovered.
        """
        assert adaptive_weights([100, 0]) == [-(-101 // FLOOR), 101]
        assert adaptive_weights(QUEUES) == [1, 6, 3, 6, 5], "the floor is no matter for short queues"


class TestRacks:
    """Four partitions, led by brokers in r0, r1, r0, r1; the client is in r0."""

    def reached(
        self, partitioner: AdaptivePartitioner, *leaders: int | None, nodes: Any = RACKED
    ) -> set[int]:
        partitioner.apply_snapshot(cluster_of({"test": leaders}, nodes))
        return {ask(partitioner) for _ in range(8)}

    def test_the_clients_own_are_taken_as_long_as_one_has_a_leader(self) -> None:
        partitioner = make(turn_bytes=1, rack="r0")
        assert self.reached(partitioner, 0, 1, 2, 3) == {0, 2}
        assert self.reached(partitioner, 0, 1, None, 3) == {0}
        assert self.reached(partitioner, None, 1, None, 3) == {1, 3}
        assert self.reached(partitioner, 0, 1, None, 3) == {0}, "back in the rack at once"

    def test_brokers_without_racks_are_all_the_same(self) -> None:
        assert self.reached(make(turn_bytes=1, rack="r0"), 0, 1, 2, 3, nodes=UNRACKED) == {0, 1, 2, 3}
