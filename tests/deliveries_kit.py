"""What tests of partitioners share: broker health on a clock and by a policy of the test's own."""

from collections.abc import Callable

from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.health.tracker import DeliveryTracker
from kafka_partition_events.metadata.listener import name_of
from kafka_partition_events.partitioners.base import Partitioner


def judged(
    partitioner: Partitioner, clock: Callable[[], float], policy: DetectorPolicy | None = None
) -> DeliveryTracker:
    """Let a partitioner judge brokers by another clock and policy."""
    deliveries = DeliveryTracker(partitioner.routing.renew, policy, clock, lambda: name_of(partitioner))
    partitioner.deliveries = partitioner.routing.deliveries = deliveries
    return deliveries
