"""The group on ``kpe.commands``: it elects the tracker, and hands it the commands. Needs confluent-kafka."""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import error_name
from kafka_partition_events.clients.confluent.connection import Login
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.clients.rights import lacking
from kafka_partition_events.control.operate.control_log import appended_ms, place_of
from kafka_partition_events.control.protocol.codec import Skipped, decode_or_skip
from kafka_partition_events.control.protocol.records import Command, Given
from kafka_partition_events.control.protocol.topics import CURE, tracker_name
from kafka_partition_events.errors import ControlTopicError

SESSION_S: Final = 10.0
"""How long a tracker may not answer until another one is elected."""

_AT_ONCE: Final = 100
_LIMIT_S: Final = 10.0


class Membership:
    """The membership in the group. One thread at a time.

    Attributes:
        elected: Whether this is the tracker.
    """

    def __init__(self, config: Mapping[str, Any], prefix: str, skipped: Skipped) -> None:
        """Make it; nothing is asked before `join`.

        Raises:
            KafkaException: librdkafka refuses a setting.
        """
        self._config = config
        self._topic = f"{prefix}commands"
        self._group = tracker_name(prefix)
        self._login = Login(config)
        self._skipped = skipped
        self.elected = False
        self._next: int | None = None
        self._consumer = Consumer(
            {
                "log_level": 2,
                **connecting(config),
                "error_cb": self._login.note,
                "group.id": self._group,
                "session.timeout.ms": int(SESSION_S * 1_000),
                "heartbeat.interval.ms": 2_000,
                # Who has the partition keeps it when another tracker comes.
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )

    def join(self) -> None:
        """Join the group in the background, if the topic is there.

        Raises:
            ControlTopicError: there is no such topic, or no broker answers.
        """
        try:
            found = self._consumer.list_topics(self._topic, timeout=_LIMIT_S).topics[self._topic]
        except KafkaException as error:
            text = (self._login.refusal or error.args[0]).str()
            raise ControlTopicError(f"the brokers of the control topics do not answer: {text}") from error
        if found.error is not None:
            raise self._failure(found.error)
        self._consumer.subscribe(
            [self._topic], on_assign=self._given, on_revoke=self._taken, on_lost=self._taken
        )

    def commands(self, timeout: float) -> list[Given]:
        """Return the commands that have come; wait for one if there is none.

        Raises:
            ControlTopicError: there is no such topic, or no right to read it as a member of the group.
            KafkaException: anything else that this member does not get over.
        """
        if not self.elected:
            self._login.check()
        first = self._consumer.poll(timeout)
        messages = [] if first is None else [first, *self._consumer.consume(_AT_ONCE, 0)]
        found = []
        for message in messages:
            if (error := message.error()) is not None:
                raise self._failure(error)
            self._next = (message.offset() or 0) + 1
            place = place_of(message)
            command = decode_or_skip(Command, message.value() or b"", self._skipped, place)
            if command is not None:
                found.append(Given(command, place[2], appended_ms(message)))
        return found

    def commit(self) -> None:
        """Let the tracker that is elected next begin behind the commands that were carried out.

        Not in the transaction of what they led to: a command that comes again does nothing, but an offset
        that a rebalance refuses would end that transaction, and the term of office with it.
        """
        if self._next is not None:
            with contextlib.suppress(KafkaException):  # with the next round, then
                self._consumer.commit(
                    offsets=[TopicPartition(self._topic, 0, self._next)], asynchronous=False
                )
                self._next = None

    def close(self) -> None:
        """Leave the group at once."""
        self._consumer.close()

    def _given(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        self.elected = self.elected or bool(partitions)

    def _taken(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.elected, self._next = False, None
        consumer.incremental_unassign(partitions)

    def _failure(self, error: KafkaError) -> Exception:
        missing = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}  # noqa: SLF001 - public name
        if error.code() in missing:
            return ControlTopicError(f"there is no topic {self._topic}; {CURE}")
        needed = Right(("Read",), "topic", self._topic), Right(("Read",), "group", self._group)
        refused = lacking(error_name(error), needed, self._config)
        return KafkaException(error) if refused is None else ControlTopicError(refused)
