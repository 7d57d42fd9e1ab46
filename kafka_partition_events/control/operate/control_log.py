"""Reads the control topics, through confluent-kafka: for the tracker and `kpe change`."""

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import Message

from kafka_partition_events.control.compacted_topic import CompactedTopic
from kafka_partition_events.control.protocol.codec import AnyRecord, Place, Skipped, decode_or_skip
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Ack, Lease
from kafka_partition_events.control.protocol.topics import EVERYTHING, PREFIX


class ControlLog:
    """What is in ``kpe.changes``, ``kpe.leases`` and ``kpe.acks``, merged. One thread at a time.

    Attributes:
        ledger: What was read so far; of a topic that was created anew, what the former one told, too.
        skipped: Counts records that were not understood.
    """

    def __init__(self, config: Mapping[str, Any], prefix: str = PREFIX) -> None:
        """Make it; connecting happens in the background, by librdkafka's settings."""
        self.ledger = Ledger()
        self.skipped = Skipped()
        self._prefix = prefix
        self._topics = CompactedTopic(config)

    def read(self, timeout: float, topics: Collection[str] = EVERYTHING) -> None:
        """Read on, up to the ends that the topics have now. Only what is committed.

        Raises:
            ControlTopicError: a topic is missing or can't be read to its end in time. The next call goes on
                where this one was.
        """
        for message in self._topics.read([f"{self._prefix}{topic}" for topic in topics], timeout):
            match (message.topic() or "").removeprefix(self._prefix):
                case "changes":
                    key, place = message.key() or b"", place_of(message)
                    self.ledger.take_written(key, message.value(), self.skipped, place)
                case "leases" if (lease := self._decoded(Lease, message)) is not None:
                    self.ledger.take_lease(lease, appended_ms(message))
                case "acks" if (ack := self._decoded(Ack, message)) is not None:
                    self.ledger.take_ack(ack, appended_ms(message))

    def close(self) -> None:
        """Close the connections."""
        self._topics.close()

    def _decoded(self, kind: type[AnyRecord], message: Message) -> AnyRecord | None:
        value = message.value()
        return None if value is None else decode_or_skip(kind, value, self.skipped, place_of(message))


def appended_ms(message: Message) -> int:
    """Return when the broker appended a record, in milliseconds since 1970."""
    return message.timestamp()[1]


def place_of(message: Message) -> Place:
    """Return where a record is."""
    return message.topic() or "", message.partition() or 0, message.offset() or 0
