"""What the Spark jobs raise."""

from kafka_partition_events.errors import KafkaPartitionEventsError


class SparkJobError(KafkaPartitionEventsError):
    """Spark could not be started, or could not read the topics; the message says what to do."""


class UnknownPartitionError(SparkJobError):
    """A row names a topic or a partition that the cluster does not have."""
