"""Where records of change control come from."""

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen
from attrs.validators import min_len
from pyspark.sql import DataFrame, SparkSession

from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.spark.changes.records import TOPICS
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.fleet.sources import COLUMNS
from kafka_partition_events.spark.kafka import explained, stream_topics

_COMMITTED: Final = {"isolation.level": "read_committed"}
"""What a tracker wrote that was fenced in the middle was never said."""


@frozen(kw_only=True)
class ControlTopics:
    """``kpe.changes``, ``kpe.leases`` and ``kpe.acks`` from their beginnings: a `fleet.sources.Source`.

    Attributes:
        bootstrap: The brokers, ``host:port,host:port``.
        prefix: What the topics' names begin with.
        options: More options of Kafka's Java consumer by its own names; never shown.
        max_per_batch: How many records a batch holds at the most.
    """

    bootstrap: str = field(validator=min_len(1))
    prefix: str = PREFIX
    options: Mapping[str, str] = field(factory=dict, repr=False)
    max_per_batch: int | None = None

    @property
    def name(self) -> str:
        """The topics; brokers may move."""
        return f"the Kafka topics {', '.join(self._topics)}"

    @property
    def _topics(self) -> list[str]:
        return [f"{self.prefix}{topic}" for topic in TOPICS]

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the topics' records, as far as they are committed."""
        options = {**self.options, **_COMMITTED}
        found = stream_topics(spark, self.bootstrap, self._topics, options, max_per_batch=self.max_per_batch)
        return found.select(*COLUMNS)

    def explain(self, error: Exception) -> SparkJobError:
        """Return the cause and the cure."""
        return explained(error, self._topics, self.bootstrap)
