"""confluent-kafka (librdkafka): a metadata source, a partitioning producer, an ordered consumer."""

try:
    import confluent_kafka as _confluent_kafka  # noqa: F401 - only to explain its absence
except ImportError as error:
    raise ImportError(
        'confluent-kafka is not installed; install the extra: pip install "kafka-partition-events[confluent]"'
    ) from error

from kafka_partition_events.clients.confluent.aio import AsyncPartitioningProducer
from kafka_partition_events.clients.confluent.choosing import ProducerStats
from kafka_partition_events.clients.confluent.ordered import OrderedConsumer
from kafka_partition_events.clients.confluent.producer import PartitioningProducer
from kafka_partition_events.clients.confluent.source import ConfluentMetadataSource

__all__ = [
    "AsyncPartitioningProducer",
    "ConfluentMetadataSource",
    "OrderedConsumer",
    "PartitioningProducer",
    "ProducerStats",
]
