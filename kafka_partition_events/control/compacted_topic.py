"""Reads compacted topics to their ends, again and again, without a group. Needs confluent-kafka."""

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import ELECTING, error_name
from kafka_partition_events.clients.confluent.connection import Connection, time_left
from kafka_partition_events.clients.librdkafka import connecting, login_of
from kafka_partition_events.clients.rights import is_refusal
from kafka_partition_events.control.described import describe_topics
from kafka_partition_events.control.protocol.topics import CURE
from kafka_partition_events.errors import ControlTopicError, MetadataFetchError
from kafka_partition_events.process import OwnProcess, forget_in_children, leak

_READING: Final = {
    "group.id": "kpe-reader",  # never joined, but librdkafka wants one
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",  # where retention has deleted what we were about to read
    "isolation.level": "read_committed",
    # The mark at the end of a transaction takes an offset and is no record: only this shows the end.
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
}
_AT_ONCE: Final = 10_000
_MANY: Final = 50_000
"""Of more records than these in one read the latest of each key is kept, as after compaction."""
_PAUSE_S: Final = 0.1
_UNREACHED: Final = "are the brokers up, and may they be asked?"
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_Place = tuple[str, int]


class CompactedTopic:
    """What comes to compacted topics: the records since the last read. One thread.

    It joins no group and leaves no trace. Only what is committed is read. Topics may gain partitions. One
    that was re-created is read from its beginning. A read is all or nothing: half a log would show a past
    that never was, so what a read that fails has found belongs to the next one.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Make it; connecting happens in the background, by what `config` says of that."""
        self._config = config
        self._connection = Connection(config)
        self._process = OwnProcess("reader of compacted topics")
        self._login: object = None
        self._consumer: Consumer | None = None
        self._ids: dict[str, str | None] = {}
        self._next: dict[_Place, int] = {}
        self._found: dict[object, Message] = {}
        forget_in_children(self, CompactedTopic._forget)

    def _forget(self) -> None:
        """Leave the consumer to the parent, in a forked child."""
        leak(self._consumer)

    def read(self, topics: Collection[str], timeout: float) -> list[Message]:
        """Read on, up to the ends that the topics have now.

        Returns:
            The records, those of a partition in order; a tombstone has no value.

        Raises:
            ControlTopicError: a topic is missing, or can't be read to its end in time. The next call goes on
                where this one was.
            ForkedError: this was made before a fork.
        """
        self._process.check()
        deadline = time.monotonic() + timeout
        try:
            unread = self._unread(sorted(topics), deadline)
            if unread:
                self._read_to_ends(unread, deadline)
        except (KafkaException, TimeoutError) as error:
            if login_of(self._config) != self._login:
                self._disconnect()  # the login was replaced meanwhile
            raise self._failure(f"can't read {', '.join(sorted(topics))}", error) from error
        self._connection.succeeded()
        wanted = {key: message for key, message in self._found.items() if message.topic() in topics}
        self._found = {key: message for key, message in self._found.items() if key not in wanted}
        return [*wanted.values()]

    def close(self) -> None:
        """Close the connections."""
        self._disconnect()
        self._connection.close()

    def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    # -- how far the topics go -----------------------------------------------------------------------

    def _unread(self, topics: list[str], deadline: float) -> set[_Place]:
        """Return the partitions with something new; wait for leaders that are being elected."""
        while True:
            try:
                ends = self._ends(topics, deadline)
            except KafkaException as error:
                if error_name(error.args[0]) not in ELECTING or time_left(deadline) <= _PAUSE_S:
                    raise
                time.sleep(_PAUSE_S)
            else:
                break
        for place, end in ends.items():
            if end < self._next.get(place, 0):  # another topic under the name, of a broker without topic ids
                self._next[place] = 0
        return {place for place, end in ends.items() if end > self._next.get(place, 0)}

    def _ends(self, topics: list[str], deadline: float) -> dict[_Place, int]:
        """Return where the partitions end, by one request to each broker."""
        latest = {TopicPartition(*place): _LATEST for place in self._places(topics, deadline)}
        answers = self._connection.admin().list_offsets(
            latest, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=time_left(deadline)
        )
        ends: dict[_Place, int] = {}
        for tp, end in answers.items():
            with self._naming(tp.topic):
                ends[tp.topic, tp.partition] = end.result(time_left(deadline)).offset
        return ends

    def _places(self, topics: list[str], deadline: float) -> list[_Place]:
        try:
            found = describe_topics(self._connection, topics, time_left(deadline), "Read")
        except MetadataFetchError as error:
            raise ControlTopicError(str(error)) from error
        places: list[_Place] = []
        for topic in topics:
            if (info := found.get(topic)) is None:
                raise ControlTopicError(f"there is no topic {topic}; {CURE}")
            if self._ids.setdefault(topic, info.topic_id) != info.topic_id:
                self._next = {place: offset for place, offset in self._next.items() if place[0] != topic}
                self._ids[topic] = info.topic_id
            places += [(topic, partition.partition) for partition in info.partitions]
        return places

    # -- records -------------------------------------------------------------------------------------

    def _read_to_ends(self, unread: set[_Place], deadline: float) -> None:
        if self._consumer is None:
            self._login = login_of(self._config)
            self._consumer = Consumer({"log_level": 2, **connecting(self._config), **_READING})
        consumer, ended = self._consumer, set[_Place]()
        consumer.assign([TopicPartition(*place, self._next.get(place, 0)) for place in sorted(unread)])
        try:
            while not ended >= unread:
                # What waits already is taken in one go: `consume` alone would wait until it has so many.
                first = consumer.poll(time_left(deadline))
                if first is None or time.monotonic() > deadline:
                    raise TimeoutError("it was not read to the end in time")
                for message in (first, *consumer.consume(_AT_ONCE, 0)):
                    self._take(message, ended)
        finally:
            consumer.unassign()  # else it would go on asking for more

    def _take(self, message: Message, ended: set[_Place]) -> None:
        error, place = message.error(), (message.topic() or "", message.partition() or 0)
        if error is None:
            offset = message.offset() or 0
            self._next[place] = offset + 1
            key = (place, offset) if len(self._found) < _MANY else (place, message.key())
            self._found.pop(key, None)  # the latest one comes last
            self._found[key] = message
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public name
            self._next[place] = max(self._next.get(place, 0), message.offset() or 0)
            ended.add(place)
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # of a group that is not used
            with self._naming(place[0]):
                raise KafkaException(error)

    # -- what goes wrong -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _naming(self, topic: str) -> Iterator[None]:
        """Raise that a topic must not be read as an error that names it, and the right."""
        try:
            yield
        except KafkaException as error:
            if is_refusal(error_name(error.args[0])):
                raise self._failure(f"can't read topic {topic}", error, topic) from error
            raise

    def _failure(self, what: str, error: BaseException, *topics: str) -> ControlTopicError:
        needed = [Right(("Read",), "topic", topic) for topic in topics]
        failure = self._connection.failure(what, error, *needed)
        return ControlTopicError(str(failure) if topics else f"{failure}; {_UNREACHED}")
