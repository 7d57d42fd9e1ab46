"""Spark as a Kafka producer that knows the partitions: which one each row goes to, and the way there.

``with_partition`` adds the INT column that Spark's Kafka sink takes; ``write_to_kafka`` does that for a
batch and writes it. Keys go where the topic's other writers put them; rows without a key avoid partitions
that are offline.
"""

try:
    import pyspark as _pyspark  # noqa: F401 - only to explain its absence
except ImportError as error:
    raise ImportError('PySpark is not installed: pip install "kafka-partition-events[spark]"') from error

from kafka_partition_events.spark.errors import UnknownPartitionError
from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.partitioner.column import with_partition
from kafka_partition_events.spark.partitioner.snapshot import ClusterSource
from kafka_partition_events.spark.partitioner.writer import Written, write_to_kafka

__all__ = [
    "ClusterSource",
    "HashName",
    "UnknownPartitionError",
    "Written",
    "with_partition",
    "write_to_kafka",
]
