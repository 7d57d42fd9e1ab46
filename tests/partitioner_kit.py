"""What tests of partitioners share: a question as a client asks it, a table, broker health with a clock."""

import random
from collections.abc import Callable
from typing import Any, TypeVar

from kafka_partition_events import Partitioner
from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.health.tracker import DeliveryTracker
from kafka_partition_events.metadata.listener import name_of
from kafka_partition_events.testing.scripted import cluster_of

AnyPartitioner = TypeVar("AnyPartitioner", bound=Partitioner)


class Lowest(random.Random):
    """Draws the first of what there is, so that a round begins with partition 0."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0


class LiveCluster:
    """kafka-python's ``ClusterMetadata``, which knows a topic ``t``, as far as a partitioner sees it."""

    def __init__(self, *leaders: int) -> None:
        self.leaders = leaders
        self.listeners: list[Callable[[object], None]] = []
        self.reads = 0

    def add_listener(self, listener: Callable[[object], None]) -> None:
        self.listeners.append(listener)

    def update(self, *leaders: int) -> None:
        self.leaders = leaders
        for listener in self.listeners:
            listener(self)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        self.reads += 1
        return set(range(len(self.leaders))) if topic == "t" else None

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        return {i for i, leader in enumerate(self.leaders) if leader != -1} if topic == "t" else None


def ask(
    partitioner: Partitioner, key: Any = None, *, topic: str = "t", value: bytes = b"v", cluster: Any = None
) -> int:
    return partitioner.partition(topic, key, key, value, value, cluster)


def with_table(partitioner: AnyPartitioner, *leaders: int | None) -> AnyPartitioner:
    """Let a partitioner see a topic ``t`` with these leaders."""
    partitioner.apply_snapshot(cluster_of({"t": leaders}, brokers=[1, 2, 3]))
    return partitioner


def judged(
    partitioner: Partitioner, clock: Callable[[], float], policy: DetectorPolicy | None = None
) -> DeliveryTracker:
    """Let a partitioner judge brokers by another clock and policy."""
    deliveries = DeliveryTracker(partitioner.routing.renew, policy, clock, lambda: name_of(partitioner))
    partitioner.deliveries = partitioner.routing.deliveries = deliveries
    return deliveries
