"""aiokafka: a metadata source, `attach` (records go where a partitioner says), and a class for it."""

try:
    import aiokafka  # noqa: F401
except ImportError as error:
    raise ImportError(
        'aiokafka is not installed; install the extra: pip install "kafka-partition-events[aiokafka]"'
    ) from error

from kafka_partition_events.clients.aiokafka.attach import PartitioningAIOKafkaProducer, attach
from kafka_partition_events.clients.aiokafka.source import AiokafkaMetadataSource
from kafka_partition_events.clients.attaching import key_stats, rescue_stats

__all__ = ["AiokafkaMetadataSource", "PartitioningAIOKafkaProducer", "attach", "key_stats", "rescue_stats"]
