"""confluent-kafka (librdkafka): a metadata source, a producer that asks a partitioner, a store for pins."""

try:
    import confluent_kafka as _confluent_kafka  # noqa: F401 - only to explain its absence
except ImportError as error:
    raise ImportError(
        'confluent-kafka is not installed; install the extra: pip install "kafka-partition-events[confluent]"'
    ) from error

from kafka_partition_events.clients.confluent.pin_store import KafkaPinStore
from kafka_partition_events.clients.confluent.producer import PartitioningProducer
from kafka_partition_events.clients.confluent.source import ConfluentMetadataSource
from kafka_partition_events.clients.confluent.stats import ProducerStats

__all__ = ["ConfluentMetadataSource", "KafkaPinStore", "PartitioningProducer", "ProducerStats"]
