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
from kafka_partition_events.testing import ManualClock, cluster_of

QUEUES = (5, 0, 3, 0, 1)
"""Batches that wait in Kafka's test, by partition: the weights are 6 less these, 1, 6, 3, 6, 5 (of 21)."""

RACKED = tuple(Node(broker, "h", 9092, rack) for broker, rack in enumerate(("r0", "r1", "r0", "r1")))
UNRACKED = tuple(Node(broker, "h", 9092) for broker in range(4))


def make(turn_bytes: int, **options: Any) -> AdaptivePartitioner:
    """Make a partitioner on a clock that stands still, so that turns end by bytes alone."""
    kind: type[AdaptivePartitioner] = type("Made", (AdaptivePartitioner,), {"turn_bytes": turn_bytes})
    return kind(clock=ManualClock().monotonic, rng=random.Random(1), **options)


def ask(partitioner: AdaptivePartitioner) -> int:
    return partitioner.partition("test", None, None, b"v", b"v", None)


def behind(queues: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Say that so many turns wait on each partition."""
    monkeypatch.setattr(TopicPace, "backlogs", lambda *args: [queues[place] for place in args[-1]])


class TestAdaptive:
    @pytest.mark.parametrize(
        ("rack", "nodes"),
        [(None, None), (None, RACKED), ("r0", UNRACKED)],
        ids=["no racks", "racks that do not matter", "a client with a rack, brokers without"],
    )
    def test_42_choices_have_kip_794s_proportions_exactly(
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
        partitioner.apply_snapshot(cluster_of({"test": [0, None, 2, 3, 0]}))
        picked = Counter(ask(partitioner) for _ in range(30))
        assert [picked[partition] for partition in range(5)] == [2, 0, 6, 12, 10]


def test_the_clients_rack_is_kept_to_as_long_as_one_of_its_partitions_has_a_leader() -> None:
    """Four partitions, led by brokers in r0, r1, r0, r1; the client is in r0."""
    partitioner = make(turn_bytes=1, rack="r0")

    def reached(*leaders: int | None) -> set[int]:
        partitioner.apply_snapshot(cluster_of({"test": leaders}, RACKED))
        return {ask(partitioner) for _ in range(8)}

    assert reached(0, 1, 2, 3) == {0, 2}
    assert reached(0, 1, None, 3) == {0}
    assert reached(None, 1, None, 3) == {1, 3}
    assert reached(0, 1, None, 3) == {0}, "back in the rack at once"
