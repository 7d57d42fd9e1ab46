"""What the Kafka of this run can do."""

from typing import Final

from kafka_partition_events.jvm import kafka_lock

HAS_NEW_GROUPS: Final = kafka_lock() >= "kafka-4.0"
"""Whether consumers may say ``group.protocol=consumer`` (KIP-848). Before it is a preview that is off."""
