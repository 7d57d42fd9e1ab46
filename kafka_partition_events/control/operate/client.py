"""What commands of change control use: the control topics, and what brokers say. Needs confluent-kafka."""

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import error_name
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.control.groups.index import GroupIndex
from kafka_partition_events.control.groups.prober import scan
from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.groups.writers import Writers
from kafka_partition_events.control.operate.control_log import ControlLog
from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin
from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Command, Given
from kafka_partition_events.control.protocol.topics import CURE
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.metadata.reconcile import UNKNOWN_TOPIC

_WRITING: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "partitioner": "murmur2_random",
}
_GROUPS_S: Final = 15.0


class ControlClient:
    """The control topics of a cluster, and its consumer groups. Blocks for I/O; one thread at a time."""

    def __init__(self, config: Mapping[str, Any], control: Mapping[str, Any], prefix: str) -> None:
        """Connect in the background.

        Args:
            config: librdkafka's settings for the cluster that is changed.
            control: The same for the one with the control topics.
            prefix: What the names of the control topics begin with.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self._commands = f"{prefix}commands"
        self._connection = Connection(control)
        self._writing = {"log_level": 2, **connecting(control), **_WRITING}
        self._log = ControlLog(control, prefix)
        self._topics = ControlTopicAdmin(config)
        self._groups = GroupAdmin(config)
        self._writers = Writers(config)

    @property
    def ledger(self) -> Ledger:
        """What was read so far."""
        return self._log.ledger

    def read(self, timeout: float, topics: Collection[str]) -> None:
        """Read these of the control topics on, to their present ends; see `ControlLog.read`."""
        self._log.read(timeout, topics)

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
            appended = self._deliver(command, deadline)
        except (KafkaException, TimeoutError) as error:
            topic = self._commands
            needed = Right(("Write",), "topic", topic)
            raise ControlTopicError(
                str(self._connection.failure(f"can't write to topic {topic}", error, needed))
            ) from error
        return Given(command, appended.offset() or 0, appended.timestamp()[1])

    def groups(self, topic: str) -> Mapping[str, Group | None]:
        """Return the groups that read a topic, or have committed offsets of it; None: it can't be seen.

        Raises:
            MetadataFetchError: nobody answers, or not for us.
        """
        index = GroupIndex()
        found = scan(self._groups, index, [topic], _GROUPS_S)
        return {name: found.get(name) for name in index.of(topic)}

    def writers(self, partitions: Collection[TopicPartition], now_ms: int) -> int | None:
        """Return how many producers brokers know to be writing to partitions; see `Writers.count`."""
        return self._writers.count(partitions, now_ms)

    def compacted(self, topic: str) -> bool | None:
        """Return whether a topic is compacted; None: not known."""
        policy = self._topics.setting(topic, "cleanup.policy")
        return None if policy is None else "compact" in policy

    def close(self) -> None:
        """Close the connections."""
        for part in (self._topics, self._log, self._connection, self._groups, self._writers):
            part.close()

    def _check_topic(self, timeout: float) -> None:
        # To describe a topic creates none; to write a record might, and not as it should be.
        admin, topic = self._connection.admin(), self._commands
        try:
            admin.describe_topics(TopicCollection([topic]), request_timeout=timeout)[topic].result(timeout)
        except KafkaException as error:
            if error_name(error.args[0]) == UNKNOWN_TOPIC:
                raise ControlTopicError(f"there is no topic {topic}; {CURE}") from error
            raise

    def _deliver(self, command: Command, deadline: float) -> Message:
        told: list[tuple[KafkaError | None, Message]] = []
        milliseconds = max(1, round(1_000 * (deadline - time.monotonic())))
        producer = Producer({**self._writing, "message.timeout.ms": milliseconds})
        producer.produce(
            self._commands, encode(command), key_of(command), on_delivery=lambda *report: told.append(report)
        )
        while not told:  # librdkafka tells of every record when its time is over, at the latest
            producer.poll(0.5)
        ((error, message),) = told
        if error is not None:
            raise KafkaException(error)
        return message
