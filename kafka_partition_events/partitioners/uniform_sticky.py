"""KIP-480's second partitioner: all records, keyed or not, fill one partition's batch at a time."""

from typing import Unpack

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.partitioners.base import PartitionerOptions
from kafka_partition_events.partitioners.sticky import BATCH_BYTES, StickyPartitioner, record_bytes
from kafka_partition_events.routing.table import Route


class UniformStickyPartitioner(StickyPartitioner):
    """Keys are ignored: all records stick to one partition until a batch is full (KIP-480).

    For applications that use keys for something else than placing records: those of one key lose their order.

    kafka-python says when an unkeyed record finds the batch full, and never says so of keyed ones: these
    move on after ``batch_bytes``, which are counted here. On confluent-kafka turns go by time instead, see
    `PartitioningProducer`. Unlike Kafka's own, it also moves when its partition goes offline.
    """

    ignores_keys = True

    def __init__(self, *, batch_bytes: int = BATCH_BYTES, **options: Unpack[PartitionerOptions]) -> None:
        """Make a partitioner.

        Args:
            batch_bytes: How many bytes go to one partition in a row; the producer's batch size.
            **options: Those of `Partitioner`. A budget also caps keyed records; by ``hash_name``
                confluent-kafka places records as long as a topic is unknown.

        Raises:
            ConfigurationError: an argument is not one of its choices.
        """
        if batch_bytes < 1:
            raise ConfigurationError(f"batch_bytes must be at least 1, not {batch_bytes}")
        super().__init__(**options)
        self.batch_bytes = batch_bytes

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        """Return the partition that all records stick to now."""
        place = self._place(topic, route)
        # An unkeyed record that moved on here would open a batch, so kafka-python would have it move once
        # more: of two partitions back to where it was, and the other one would get nothing (KAFKA-9965).
        if key is not None and place.bytes >= self.batch_bytes:
            place = self._begin(topic, route, place)
        place.bytes += record_bytes(key, value)
        return place.partition
