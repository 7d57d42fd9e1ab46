"""Gives the tracker commands. Needs confluent-kafka."""

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.records import Command, Given
from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.errors import ControlTopicError

_WRITING: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "partitioner": "murmur2_random",
}


class CommandWriter:
    """Writes to ``kpe.commands``. Blocks for I/O; one thread at a time."""

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
        self._topic = f"{prefix}commands"

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
        deadline = time.monotonic() + timeout
        try:
            self._check_topic(timeout)
            return self._deliver(command, deadline)
        except (KafkaException, TimeoutError) as error:
            raise ControlTopicError(
                str(self._connection.failure(f"can't write to topic {self._topic}", error))
            ) from error

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _check_topic(self, timeout: float) -> None:
        # All topics are listed: to ask for one might create it, and so would a record, not as it should be.
        if self._topic not in self._connection.admin().list_topics(timeout=timeout).topics:
            raise ControlTopicError(f"there is no topic {self._topic}; `kpe topics init` creates it")

    def _deliver(self, command: Command, deadline: float) -> Given:
        told: list[tuple[KafkaError | None, Message]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            told.append((error, message))

        milliseconds = max(1, round(1_000 * (deadline - time.monotonic())))
        producer = Producer({**self._settings, "message.timeout.ms": milliseconds})
        producer.produce(self._topic, encode(command), key_of(command), on_delivery=delivered)
        while not told:  # librdkafka tells of every record when its time is over, at the latest
            producer.poll(0.5)
        ((error, message),) = told
        if error is not None:
            raise KafkaException(error)
        return Given(command, message.offset() or 0, message.timestamp()[1])
