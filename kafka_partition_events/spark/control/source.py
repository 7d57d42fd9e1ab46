"""Where records of changes come from."""

from collections.abc import Mapping, Sequence

from attrs import frozen

from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.spark.ingest.sources import KafkaTopics


@frozen(kw_only=True)
class ChangesTopic(KafkaTopics):
    """``kpe.changes``, as far as its records are committed.

    Attributes:
        prefix: What the topic's name begins with.
    """

    prefix: str = PREFIX

    @property
    def topics(self) -> Sequence[str]:
        """The topic."""
        return [f"{self.prefix}changes"]

    @property
    def settings(self) -> Mapping[str, str]:
        """The options, and that what a tracker wrote that was fenced in the middle was never said."""
        return {**self.options, "isolation.level": "read_committed"}
