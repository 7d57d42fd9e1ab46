"""Which partition of a Kafka topic each row of a DataFrame goes to.

The public names are those of `kafka_partition_events.spark.partition_column`.
"""

from typing import Literal

HashName = Literal["murmur2", "crc32"]
"""That of the Java client and of kafka-python; librdkafka's, so confluent-kafka's, by default."""
