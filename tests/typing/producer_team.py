"""A producer as application teams use it; ``mypy --strict`` and pyright must accept all of it."""

from kafka_partition_events import AdaptivePartitioner
from kafka_partition_events.clients.confluent import PartitioningProducer


def send(servers: str, orders: list[bytes]) -> int:
    """Send orders; return how many are outstanding, and how many copies were sent."""
    with PartitioningProducer(
        {"bootstrap.servers": servers}, AdaptivePartitioner(), rescue="hedge"
    ) as producer:
        for order in orders:
            producer.produce("orders", value=order, key="42")
            producer.poll(0)
        copies: int = producer.stats.rescue.copies
        return producer.flush(10.0) + copies
