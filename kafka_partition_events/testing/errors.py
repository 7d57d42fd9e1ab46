"""What the test kit raises."""

from kafka_partition_events.errors import KafkaPartitionEventsError


class KitError(KafkaPartitionEventsError):
    """The test kit could not do what a test asked for; the message says why and what to do."""
