"""Reads the control topics, through confluent-kafka: for the tracker and `kpe change`."""

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import Message

from kafka_partition_events.control.compacted_topic import CompactedTopic
from kafka_partition_events.control.protocol.codec import Place, Skipped, decode_or_skip
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Lease
from kafka_partition_events.control.protocol.topics import EVERYTHING, PREFIX, tracker_name


class ControlLog:
    """What is in ``kpe.changes`` and ``kpe.leases``, merged. One thread at a time.

    Attributes:
        ledger: What was read so far; of a topic that was recreated, also what was in the former one. Not the
            tracker's own leases: it is no producer.
        skipped: Counts records that were not understood.
    """

    def __init__(self, config: Mapping[str, Any], prefix: str = PREFIX) -> None:
        """Make it; connecting happens in the background, by librdkafka's settings."""
        self.ledger = Ledger()
        self.skipped = Skipped()
        self._prefix, self._tracker = prefix, tracker_name(prefix)
        self._topics = CompactedTopic(config)

    def read(self, timeout: float, topics: Collection[str] = EVERYTHING) -> None:
        """Read on, up to the ends that the topics have now. Only what is committed.

        Raises:
            ControlTopicError: a topic is missing or can't be read to its end in time. The next call goes on
                where this one was.
        """
        for message in self._topics.read([f"{self._prefix}{topic}" for topic in topics], timeout):
            value, at = message.value(), place_of(message)
            if message.topic() == f"{self._prefix}changes":
                self.ledger.take_written(message.key() or b"", value, self.skipped, at)
            elif value is not None:
                lease = decode_or_skip(Lease, value, self.skipped, at)
                if lease is not None and lease.instance_id != self._tracker:
                    self.ledger.take_lease(lease, appended_ms(message))

    def close(self) -> None:
        """Close the connections."""
        self._topics.close()


def appended_ms(message: Message) -> int:
    """Return when the broker appended a record, in milliseconds since 1970."""
    return message.timestamp()[1]


def place_of(message: Message) -> Place:
    """Return where a record is."""
    return message.topic() or "", message.partition() or 0, message.offset() or 0
