"""What commands of change control use: the control topics, and what brokers say. Needs confluent-kafka."""

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.control.described import describe_topics
from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.control.groups.prober import groups_of
from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.operate.control_log import ControlLog
from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin
from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Command, Given
from kafka_partition_events.control.protocol.topics import CURE
from kafka_partition_events.errors import ControlTopicError

_WRITING: Final = {"acks": "all", "enable.idempotence": True, "linger.ms": 0, "partitioner": "murmur2_random"}
_LIMIT_S: Final = 15.0


class ControlClient:
    """The control topics of a cluster, and its consumer groups. Blocks for I/O; one thread at a time."""

    def __init__(self, config: Mapping[str, Any], prefix: str) -> None:
        """Connect in the background, by librdkafka's settings."""
        self._commands = f"{prefix}commands"
        self._connection = Connection(config)
        self._writing = {"log_level": 2, **connecting(config), **_WRITING}
        self._log = ControlLog(config, prefix)
        self._topics = ControlTopicAdmin(config)
        self._groups = GroupAdmin(config)

    @property
    def ledger(self) -> Ledger:
        """What was read so far."""
        return self._log.ledger

    def read(self, topics: Collection[str], timeout: float = _LIMIT_S) -> None:
        """Read these of the control topics on, to their present ends; see `ControlLog.read`."""
        self._log.read(timeout, topics)

    def send(self, command: Command) -> Given:
        """Write a command, and return it as it was appended.

        If it fails it may have been appended nevertheless; sent again, it does nothing the second time.

        Raises:
            RecordError: something in it is too long, or no text; nothing was written.
            ControlTopicError: there is no such topic, it was refused, or no broker answers.
        """
        value, deadline = encode(command), time.monotonic() + _LIMIT_S
        try:
            # A record for a topic that is not there might create it, and not as it should be.
            if not describe_topics(self._connection, [self._commands], _LIMIT_S, "Write"):
                raise ControlTopicError(f"there is no topic {self._commands}; {CURE}")
            appended = self._deliver(value, key_of(command), deadline)
        except (KafkaException, TimeoutError) as error:
            needed = Right(("Write",), "topic", self._commands)
            failure = self._connection.failure(f"can't write to topic {self._commands}", error, needed)
            raise ControlTopicError(str(failure)) from error
        return Given(command, appended.offset() or 0, appended.timestamp()[1])

    def groups(self, topic: str, count: int) -> Mapping[str, Group | None]:
        """Return the groups of a topic with so many partitions; see `groups_of`."""
        return groups_of(self._groups, topic, count, _LIMIT_S)

    def is_compacted(self, topic: str) -> bool | None:
        """Return whether a topic is compacted; None: that can't be seen."""
        return self._topics.is_compacted(topic)

    def close(self) -> None:
        """Close the connections."""
        for part in (self._topics, self._log, self._connection, self._groups):
            part.close()

    def _deliver(self, value: bytes, key: str, deadline: float) -> Message:
        reports: list[tuple[KafkaError | None, Message]] = []
        milliseconds = max(1, round(1_000 * (deadline - time.monotonic())))
        producer = Producer({**self._writing, "message.timeout.ms": milliseconds})
        producer.produce(self._commands, value, key, on_delivery=lambda *report: reports.append(report))
        while not reports:  # librdkafka reports every record when its time is over, at the latest
            producer.poll(0.5)
        ((error, message),) = reports
        if error is not None:
            raise KafkaException(error)
        return message
