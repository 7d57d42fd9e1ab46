"""Change control through confluent-kafka: the control topics, and the rebalance hook of a consumer.

Agents of kafka-python's producers reach the control topics by this `ControlLink`, too.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
    from confluent_kafka import TopicPartition as ConfluentPartition
except ImportError as error:
    raise ImportError(
        "change control needs confluent-kafka, with kafka-python's producers too; install the extra: "
        'pip install "kafka-partition-events[confluent]"'
    ) from error

from attrs import evolve

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import ELECTING, error_name, error_text
from kafka_partition_events.clients.confluent.connection import time_left
from kafka_partition_events.clients.librdkafka import connecting, login_of
from kafka_partition_events.clients.rights import is_refusal
from kafka_partition_events.control.agents.consumer_agent import ConsumerAgent
from kafka_partition_events.control.agents.consumer_duties import ConsumerReading, to_pin
from kafka_partition_events.control.compacted_topic import CompactedTopic
from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.cluster import TopicPartition

_WRITING: Final = {
    "acks": "all",
    "linger.ms": 50,
    "message.timeout.ms": 30_000,
    "partitioner": "murmur2_random",  # as with the other client, so that a key stays on its partition
}
_CLOSING_S: Final = 1.0


class ControlLink:
    """Reads and writes with clients of its own. One thread at a time."""

    def __init__(self, config: Mapping[str, Any], *, prefix: str = PREFIX) -> None:
        """Make a link; connecting happens in the background.

        Args:
            config: The settings of any librdkafka client; those that say how to connect are used.
            prefix: What the names of the control topics begin with.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self._config = config
        self._changes = CompactedTopic(config)
        self._prefix = prefix
        self._producer: Producer | None = None
        self._refused = self._lost = False
        self._login: object = None

    # -- reading -------------------------------------------------------------------------------------

    def read_changes(self, timeout: float) -> Sequence[tuple[bytes, bytes | None]]:
        """Return what was appended since the last call; see `Link`."""
        if self._producer is not None:
            self._producer.poll(0)
        found = self._changes.read([f"{self._prefix}changes"], timeout)
        return [(message.key() or b"", message.value()) for message in found]

    # -- writing -------------------------------------------------------------------------------------

    def publish(self, key: str, value: bytes, on_done: Callable[[int | None], None]) -> None:
        """Hand a lease over; see `Link`. That it must not be written is logged once."""
        topic = f"{self._prefix}leases"

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None and is_refusal(error_name(error)) and not self._refused:
                self._refused = True
                needed = Right(("Write",), "topic", topic)
                _log.warning("control_record_refused", error=error_text(error, self._config, needed))
            self._lost = error is not None
            on_done(message.timestamp()[1] if error is None else None)

        try:
            if self._lost and login_of(self._config) != self._login:
                self._producer = None  # the login was replaced meanwhile
            if self._producer is None:
                self._lost, self._login = False, login_of(self._config)
                self._producer = Producer({"log_level": 2, **connecting(self._config), **_WRITING})
            self._producer.produce(topic, value, key, on_delivery=delivered)
        except (KafkaException, BufferError):
            on_done(None)

    def close(self) -> None:
        """Close the connections."""
        if self._producer is not None:
            self._producer.flush(_CLOSING_S)
            self._producer = None
        self._changes.close()


LIMIT_S: Final = 5.0
"""How many seconds a hook may hold up a rebalance."""

Callback = Callable[[Consumer, list[ConfluentPartition]], Any]

_EARLIEST: Final = -2
"""The time that ListOffsets takes for "where the log begins"."""

_REFUSED: Final = "COMMIT_REFUSED"
"""An asynchronous commit gives no reason. Most likely the coordinator does not know the partition yet."""

_PASSING: Final = ELECTING | frozenset({
    "UNKNOWN_TOPIC_OR_PARTITION", "_UNKNOWN_PARTITION", "REPLICA_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "REQUEST_TIMED_OUT",
    "_TRANSPORT", "_WAIT_COORD", _REFUSED,
})  # fmt: skip
"""Errors that pass by themselves."""

_PAUSE_S: Final = 0.1

_log = get_logger(__name__)


class RebalanceHook:
    """Lets a consumer begin new partitions at their beginning, whatever ``auto.offset.reset`` says.

    ::

        hook = RebalanceHook(agent)
        hook.subscribe(consumer, ["orders"])  # in place of consumer.subscribe(["orders"])

    When the consumer is given partitions that are new to its group (see `to_pin`), the beginning of each is
    committed before the callback returns, so that a restart keeps it, and the agent reports it to the
    tracker. Classic groups, eager or cooperative, and those of KIP-848. If it fails for longer than
    `LIMIT_S` seconds, that is logged, the consumer begins where it would without a hook, and the next
    assignment tries again.

    The callbacks are for ``Consumer.subscribe`` where other code calls it. They ask brokers only about
    partitions that may be new, and take `LIMIT_S` seconds at most. librdkafka's synchronous commit has no
    limit of time; so the commit is asynchronous, and it is a position when the coordinator returns it. An
    ``on_commit`` of the application's hears of it, too.

    Not thread-safe: for one consumer, which calls it within ``poll`` and ``close``.
    """

    def __init__(
        self,
        agent: ConsumerAgent,
        *,
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Make a hook for one consumer.

        Args:
            agent: Knows the changes, and reports what the consumer has.
            on_assign: The application's own callback, called after the hook's part.
            on_revoke: Likewise; also called for partitions that are lost, as confluent-kafka does.
            pause: For tests.
        """
        self._pause = pause
        self._agent = agent
        self._reading = ConsumerReading()
        self._on_assign = on_assign
        self._on_revoke = on_revoke

    def subscribe(self, consumer: Consumer, topics: Sequence[str]) -> None:
        """Subscribe with this hook, after counting the partitions that the topics have now.

        Args:
            consumer: The consumer.
            topics: As for ``Consumer.subscribe``; those of patterns ("^...") are counted when assigned.

        Raises:
            KafkaException: as ``Consumer.subscribe``.
        """
        named = [topic for topic in topics if not topic.startswith("^")]
        self._count(consumer, named, time.monotonic() + LIMIT_S)
        consumer.subscribe(list(topics), on_assign=self.on_assign, on_revoke=self.on_revoke)

    def on_assign(self, consumer: Consumer, partitions: list[ConfluentPartition]) -> None:
        """Pin what is new, report to the agent, call the application's callback."""
        assigned = _plain(partitions)
        deadline = time.monotonic() + LIMIT_S
        positioned: set[TopicPartition] = set()
        try:
            unknown = {tp.topic for tp in assigned} - self._reading.counts.keys()
            self._count(consumer, unknown, deadline)
            if candidates := self._new(assigned, ()):
                positioned = self._pin(consumer, candidates, deadline)
        except Exception as error:  # noqa: BLE001 - a rebalance must go on, whatever we got wrong
            _log.warning("new_partitions_not_pinned", error=repr(error))
        reading = self._reading
        self._have(reading.assigned.union(assigned), reading.positioned.union(positioned))
        if self._on_assign is not None:
            self._on_assign(consumer, partitions)

    def on_revoke(self, consumer: Consumer, partitions: list[ConfluentPartition]) -> None:
        """Report to the agent, call the application's callback.

        What was positioned is asked for again when assigned: the topic may be another one by then.
        """
        reading, revoked = self._reading, _plain(partitions)
        self._have(reading.assigned.difference(revoked), reading.positioned.difference(revoked))
        if self._on_revoke is not None:
            self._on_revoke(consumer, partitions)

    def _have(self, assigned: frozenset[TopicPartition], positioned: frozenset[TopicPartition]) -> None:
        self._reading = evolve(self._reading, assigned=assigned, positioned=positioned)
        self._agent.report(self._reading)

    def _new(
        self, assigned: Iterable[TopicPartition], committed: Collection[TopicPartition]
    ) -> list[TopicPartition]:
        return to_pin(assigned, committed, self._reading.counts, self._agent.changes)

    # -- asking --------------------------------------------------------------------------------------

    def _count(self, consumer: Consumer, topics: Iterable[str], deadline: float) -> None:
        for topic in topics:
            try:
                found = consumer.list_topics(topic, timeout=time_left(deadline))
            except KafkaException as error:
                _log.warning("partitions_not_counted", topic=topic, error=repr(error))
                return
            metadata = found.topics.get(topic)
            if metadata is not None and metadata.error is None:
                # The lowest count is kept. The latest one might show growth before an assignment does, and
                # the next assignment would bring nothing new.
                count, counts = len(metadata.partitions), self._reading.counts
                self._reading = evolve(
                    self._reading, counts={**counts, topic: min(count, counts.get(topic, count))}
                )

    def _pin(self, consumer: Consumer, new: list[TopicPartition], deadline: float) -> set[TopicPartition]:
        """Commit the beginning of those without a commit; return all that have one now."""
        positioned: set[TopicPartition] = set()
        while left := [tp for tp in new if tp not in positioned]:
            errors = self._try_to_pin(consumer, left, deadline, positioned)
            if errors and errors <= _PASSING and time.monotonic() + _PAUSE_S < deadline:
                self._pause(_PAUSE_S)  # brokers take a moment to hear of new partitions
                continue
            if errors:
                missing = sorted(set(left) - positioned)
                _log.warning("new_partitions_not_pinned", partitions=missing, errors=sorted(errors))
            break
        return positioned

    def _try_to_pin(
        self, consumer: Consumer, new: list[TopicPartition], deadline: float, positioned: set[TopicPartition]
    ) -> set[str]:
        """Put those that have a commit now into a set; return the names of errors."""
        try:
            known = consumer.committed(_of_confluent(new), timeout=time_left(deadline))
            positioned |= _committed(known)
            pinned = self._new(new, positioned)
            if not pinned:
                return _errors(known)
            begins = consumer.offsets_for_times(_of_confluent(pinned, _EARLIEST), timeout=time_left(deadline))
            found = [tp for tp in begins if not tp.error and tp.offset >= 0]
            if not found:
                return _errors([*known, *begins])
            consumer.commit(offsets=found, asynchronous=True)
            # One connection is answered in its order: what this does not return was refused.
            done = consumer.committed(_of_confluent(_plain(found)), timeout=time_left(deadline))
        except KafkaException as error:
            return {error_name(error.args[0])}
        positioned |= _committed(done)
        refused = any(tp.offset < 0 and not tp.error for tp in done)
        return _errors([*known, *begins, *done]) | ({_REFUSED} if refused else set())


def _committed(partitions: Iterable[ConfluentPartition]) -> set[TopicPartition]:
    return {TopicPartition(tp.topic, tp.partition) for tp in partitions if tp.offset >= 0}


def _errors(partitions: Iterable[ConfluentPartition]) -> set[str]:
    return {error_name(tp.error) for tp in partitions if tp.error}


def _plain(partitions: Iterable[ConfluentPartition]) -> list[TopicPartition]:
    return [TopicPartition(tp.topic, tp.partition) for tp in partitions]


def _of_confluent(partitions: Iterable[TopicPartition], offset: int = -1001) -> list[ConfluentPartition]:
    return [ConfluentPartition(tp.topic, tp.partition, offset) for tp in partitions]
