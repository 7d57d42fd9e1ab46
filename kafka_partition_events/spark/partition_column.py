"""Spark as a Kafka producer that knows the partitions: which one each row goes to, and the way there.

``with_partition`` adds the INT column that Spark's Kafka sink takes; ``write_to_kafka`` does that for a
batch and writes it. Keys go where the Java client and this library's partitioners put them; rows without a
key avoid partitions that are offline. ``backend_of`` tells how a session hashes keys, and why not otherwise.
"""

from kafka_partition_events.spark.errors import KeyHashError, UnknownPartitionError
from kafka_partition_events.spark.partitioner.backends import backend_of
from kafka_partition_events.spark.partitioner.column import with_partition
from kafka_partition_events.spark.partitioner.jvm_function import Backend, BackendName
from kafka_partition_events.spark.partitioner.policy import OfflinePolicy, PartitionPolicy
from kafka_partition_events.spark.partitioner.snapshot import ClusterSource
from kafka_partition_events.spark.partitioner.writer import (
    BATCH_HEADER,
    PARTITION_HEADER,
    QUERY_HEADER,
    ROW_HEADER,
    Written,
    write_to_kafka,
)

__all__ = [
    "BATCH_HEADER",
    "PARTITION_HEADER",
    "QUERY_HEADER",
    "ROW_HEADER",
    "Backend",
    "BackendName",
    "ClusterSource",
    "KeyHashError",
    "OfflinePolicy",
    "PartitionPolicy",
    "UnknownPartitionError",
    "Written",
    "backend_of",
    "with_partition",
    "write_to_kafka",
]
