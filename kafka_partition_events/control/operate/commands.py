"""Gives the tracker commands, and approvals of changes. Needs confluent-kafka."""

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import error_name
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.control.operate.control_log import CURE
from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.records import Approval, Command, Given
from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.metadata.reconcile import UNKNOWN_TOPIC

_WRITING: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "partitioner": "murmur2_random",
}


class CommandWriter:
    """Writes to ``kpe.commands`` and ``kpe.approvals``. Blocks for I/O; one thread at a time."""

    def __init__(self, config: Mapping[str, Any], prefix: str = PREFIX) -> None:
        """Make it; nothing is connected before the first command.

        Args:
            config: The settings of any librdkafka client; those that say how to connect are used.
            prefix: What the names of the control topics begin with.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self._connection = Connection(config)
        self._settings = {"log_level": 2, **connecting(config), **_WRITING}
        self._prefix = prefix

    def send(self, command: Command, timeout: float) -> Given:
        """Write a command, and return it as it was appended.

        Args:
            command: The command.
            timeout: Seconds after which to give up. It may have been appended nevertheless; sent once more,
                it does nothing the second time.

        Raises:
            RecordError: something in it is too long, or no text; nothing was written.
            ControlTopicError: there is no such topic, it was refused, or nobody answers.
        """
        appended = self._append(f"{self._prefix}commands", command, timeout)
        return Given(command, appended.offset() or 0, appended.timestamp()[1])

    def approve(self, approval: Approval, timeout: float) -> None:
        """Write an approval; see `send`.

        Raises:
            RecordError, ControlTopicError: as `send`. Most people may not write to ``kpe.approvals``.
        """
        self._append(f"{self._prefix}approvals", approval, timeout)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _append(self, topic: str, record: Command | Approval, timeout: float) -> Message:
        deadline = time.monotonic() + timeout
        try:
            self._check_topic(topic, timeout)
            return self._deliver(topic, record, deadline)
        except (KafkaException, TimeoutError) as error:
            needed = Right(("Write",), "topic", topic)
            raise ControlTopicError(
                str(self._connection.failure(f"can't write to topic {topic}", error, needed))
            ) from error

    def _check_topic(self, topic: str, timeout: float) -> None:
        # All topics are listed: to ask for one might create it, and so would a record, not as it should be.
        admin = self._connection.admin()
        if topic in admin.list_topics(timeout=timeout).topics:
            return
        try:  # to describe one creates none, and tells whether it is missing or must not be seen
            admin.describe_topics(TopicCollection([topic]), request_timeout=timeout)[topic].result(timeout)
        except KafkaException as error:
            if error_name(error.args[0]) == UNKNOWN_TOPIC:
                raise ControlTopicError(f"there is no topic {topic}; {CURE}") from error
            raise

    def _deliver(self, topic: str, record: Command | Approval, deadline: float) -> Message:
        told: list[tuple[KafkaError | None, Message]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            told.append((error, message))

        milliseconds = max(1, round(1_000 * (deadline - time.monotonic())))
        producer = Producer({**self._settings, "message.timeout.ms": milliseconds})
        producer.produce(topic, encode(record), key_of(record), on_delivery=delivered)
        while not told:  # librdkafka tells of every record when its time is over, at the latest
            producer.poll(0.5)
        ((error, message),) = told
        if error is not None:
            raise KafkaException(error)
        return message
