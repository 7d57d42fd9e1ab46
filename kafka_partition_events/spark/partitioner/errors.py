"""What choosing partitions in Spark raises, apart from `PartitionOfflineError`."""

from kafka_partition_events.spark.errors import SparkJobError


class UnknownPartitionError(SparkJobError):
    """A row names a topic or a partition that the cluster does not have."""


class KeyHashError(SparkJobError):
    """No way of hashing keys gives Kafka's answers in this session; the message tells of each one why."""
