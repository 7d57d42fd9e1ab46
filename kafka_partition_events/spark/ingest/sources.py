"""Where events and records of change control come from: a topic."""

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen
from attrs.validators import min_len
from pyspark.sql import DataFrame, SparkSession

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.kafka import explained, read_topic, topic_ids

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""What a source gives: a record as Kafka's connector does."""


@frozen(kw_only=True)
class KafkaSource:
    """A topic from its beginning.

    Attributes:
        bootstrap: The brokers, ``host:port,host:port``.
        topic: Its name: the one that observers write to, or ``kpe.changes``.
        options: More options of Kafka's Java consumer by its own names; never shown.
        max_per_batch: How many records a batch holds at the most.
    """

    bootstrap: str = field(validator=min_len(1))
    topic: str = field(default="kpe.events", validator=min_len(1))
    options: Mapping[str, str] = field(factory=dict, repr=False)
    max_per_batch: int | None = None

    @property
    def name(self) -> str:
        """The topic; where its brokers are may change."""
        return f"the Kafka topic {self.topic}"

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return all records there are and will be, as a stream of ``COLUMNS``.

        Raises:
            SparkJobError: the session lacks the connector.
        """
        where, limit = (self.bootstrap, self.topic, self.options), self.max_per_batch
        return read_topic(spark.readStream, *where, max_per_batch=limit).select(*COLUMNS)

    def ids(self, spark: SparkSession) -> tuple[str, str]:
        """Return the ids of the cluster and of the topic.

        Raises:
            Exception: what `explain` explains.
        """
        return topic_ids(spark, self.bootstrap, self.topic, self.options)

    def explain(self, error: Exception) -> SparkJobError:
        """Return the cause and the cure of what Spark raised while it read."""
        return explained(error, self.topic, self.bootstrap)
