"""Reads the control topics, through confluent-kafka: for the tracker, `kpe change` and whoever audits."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import (
    ELECTING,
    described_topic,
    error_name,
    error_text,
    is_of_the_group,
)
from kafka_partition_events.clients.confluent.connection import Connection, time_left
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.clients.rights import is_refusal
from kafka_partition_events.control.protocol.codec import AnyRecord, Place, Skipped, decode_or_skip
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Ack, Allowed, Approval, Command, Given, Lease
from kafka_partition_events.control.protocol.topics import EVERYTHING, PREFIX
from kafka_partition_events.errors import ControlTopicError, MetadataFetchError
from kafka_partition_events.metadata.reconcile import UNKNOWN_TOPIC

CURE: Final = "`kpe topics init` creates the control topics"

_UNREACHED: Final = "are the brokers up, and may they be asked?"

_READING: Final = {
    "group.id": "kpe-reader",  # never joined, but librdkafka wants one
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",  # where retention has deleted what we were about to read
    "isolation.level": "read_committed",
    # The mark at the end of a transaction takes an offset and is no record: only this tells of the end.
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
}
_AT_ONCE: Final = 10_000
_MANY: Final = 50_000
"""Of more leases or acks than these the latest of each key is understood, as after compaction."""
_PAUSE_S: Final = 0.1
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_Place = tuple[str, int]
_Take = Callable[[Message], None]


class ControlLog:
    """What is in ``kpe.changes``, ``kpe.approvals``, ``kpe.leases`` and ``kpe.acks``, merged.

    One thread at a time.

    It joins no group and leaves no trace. Topics may gain partitions. One that was created anew is read from
    its beginning; what the former one told stays in the ledger.

    Attributes:
        ledger: What was read so far. After a `read` that has failed, it holds a part of what there is.
        skipped: Counts records that were not understood.
    """

    def __init__(self, config: Mapping[str, Any], prefix: str = PREFIX, *, every: bool = False) -> None:
        """Make it; connecting happens in the background.

        Args:
            config: The settings of any librdkafka client; those that say how to connect are used.
            prefix: What the names of the control topics begin with.
            every: Whether each record is to be understood, also those that compaction would have removed.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self.ledger = Ledger()
        self.skipped = Skipped()
        self._connection = Connection(config)
        self._config = config
        self._prefix = prefix
        self._takes: dict[str, _Take] = {
            f"{prefix}changes": self._take_change,
            f"{prefix}approvals": self._take_approval,
            f"{prefix}leases": self._take_lease,
            f"{prefix}acks": self._take_ack,
        }
        self._compacted = () if every else (f"{prefix}leases", f"{prefix}acks")
        self._consumer: Consumer | None = None
        self._ids: dict[str, str | None] = {}
        self._next: dict[_Place, int] = {}

    def read(self, timeout: float, topics: Collection[str] = EVERYTHING) -> None:
        """Read on, up to the ends that the topics have now. Only what is committed.

        Args:
            timeout: Seconds after which to give up.
            topics: Which to read; leases of a large fleet are many.

        Raises:
            ControlTopicError: a topic is missing or can't be read to its end in time. The next call goes on
                where this one was.
        """
        names = {f"{self._prefix}{topic}" for topic in topics}
        takes = {name: take for name, take in self._takes.items() if name in names}
        self._read(takes, time.monotonic() + timeout)

    def read_commands(self, timeout: float) -> list[Given]:
        """Return all commands that ``kpe.commands`` still holds; see `read`.

        Raises:
            ControlTopicError: as `read`.
        """
        found = list[Given]()

        def take(message: Message) -> None:
            if (given := command_in(message, self.skipped)) is not None:
                found.append(given)

        self._read_anew("commands", take, timeout)
        return found

    def read_approvals(self, timeout: float) -> list[Allowed]:
        """Return all approvals that ``kpe.approvals`` still holds; see `read`.

        Raises:
            ControlTopicError: as `read`.
        """
        found = list[Allowed]()

        def take(message: Message) -> None:
            if (approval := self._decoded(Approval, message)) is not None:
                found.append(Allowed(approval, message.offset() or 0, appended_ms(message)))

        self._read_anew("approvals", take, timeout)
        return found

    def read_to(self, topic: str) -> tuple[int, ...]:
        """Return the offset of the first record that was not read yet, by partition, of ``"leases"``, say."""
        name = f"{self._prefix}{topic}"
        offsets = {place[1]: offset for place, offset in self._next.items() if place[0] == name}
        return tuple(offsets.get(partition, 0) for partition in range(max(offsets, default=-1) + 1))

    def close(self) -> None:
        """Close the connections."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
        self._connection.close()

    # -- reading -------------------------------------------------------------------------------------

    def _read(self, takes: Mapping[str, _Take], deadline: float) -> None:
        try:
            unread = self._unread(list(takes), deadline)
            if unread:
                self._read_to_ends(unread, takes, deadline)
        except (KafkaException, TimeoutError) as error:
            raise self._failure("can't read the control topics", error) from error
        self._connection.succeeded()

    def _read_anew(self, topic: str, take: _Take, timeout: float) -> None:
        name = f"{self._prefix}{topic}"
        self._forget(name)
        self._read({name: take}, time.monotonic() + timeout)

    def _unread(self, topics: list[str], deadline: float) -> dict[_Place, int]:
        """Return by how many offsets each partition is behind; wait for leaders that are being elected."""
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
            if end < self._next.get(place, 0):  # another topic under the name, of a broker that tells no ids
                self._next[place] = 0
        unread = {place: end - self._next.get(place, 0) for place, end in ends.items()}
        return {place: number for place, number in unread.items() if number > 0}

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
        wanted = TopicCollection(topics)
        answers = self._connection.admin().describe_topics(wanted, request_timeout=time_left(deadline))
        places: list[_Place] = []
        for topic, answer in answers.items():
            try:
                with self._naming(topic):
                    info = described_topic(answer.result(time_left(deadline)))
            except KafkaException as error:
                if error_name(error.args[0]) == UNKNOWN_TOPIC:
                    raise ControlTopicError(f"there is no topic {topic}; {CURE}") from error
                raise
            if self._ids.setdefault(topic, info.topic_id) != info.topic_id:
                self._forget(topic)
                self._ids[topic] = info.topic_id
            places += [(topic, partition.partition) for partition in info.partitions]
        return places

    def _forget(self, topic: str) -> None:
        self._next = {place: offset for place, offset in self._next.items() if place[0] != topic}

    def _read_to_ends(self, unread: dict[_Place, int], takes: Mapping[str, _Take], deadline: float) -> None:
        if self._consumer is None:
            self._consumer = Consumer({"log_level": 2, **connecting(self._config), **_READING})
        consumer, ended = self._consumer, set[_Place]()
        latest: dict[tuple[_Place, bytes], Message] = {}
        behind = Counter[str]()
        for (topic, _), number in unread.items():
            behind[topic] += number
        held = {topic for topic in self._compacted if behind[topic] > _MANY}
        consumer.assign([TopicPartition(*place, self._next.get(place, 0)) for place in sorted(unread)])
        try:
            while not ended >= unread.keys():
                # What waits already is taken in one go: `consume` alone would wait until it has so many.
                first = consumer.poll(time_left(deadline))
                if first is None:
                    raise TimeoutError("they were not read to their ends in time")
                for message in (first, *consumer.consume(_AT_ONCE, 0)):
                    place = self._step(message, ended)
                    if place is not None and place[0] in held:
                        latest[place, message.key() or b""] = message  # a compacted topic takes none without
                    elif place is not None:
                        takes[place[0]](message)
                if len(latest) > _MANY:
                    self._understand(latest, takes)
        finally:
            consumer.unassign()  # else it would go on asking for more
            self._understand(latest, takes)

    def _understand(self, latest: dict[tuple[_Place, bytes], Message], takes: Mapping[str, _Take]) -> None:
        for (place, _), message in latest.items():
            takes[place[0]](message)
        latest.clear()

    def _step(self, message: Message, ended: set[_Place]) -> _Place | None:
        """Take note of how far a partition was read; return where a record is, None for an end."""
        error, place = message.error(), (message.topic() or "", message.partition() or 0)
        if error is None:
            self._next[place] = (message.offset() or 0) + 1
            return place
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public name
            self._next[place] = max(self._next.get(place, 0), message.offset() or 0)
            ended.add(place)
        elif not is_of_the_group(error):
            with self._naming(place[0]):
                raise KafkaException(error)
        return None

    @contextlib.contextmanager
    def _naming(self, topic: str) -> Iterator[None]:
        """Raise that a topic must not be read as an error that names it, and who may not."""
        try:
            yield
        except KafkaException as error:
            if not is_refusal(error_name(error.args[0])):
                raise
            needed = Right(("Read",), "topic", topic)
            raise ControlTopicError(
                f"can't read topic {topic}: {error_text(error.args[0], self._config, needed)}"
            ) from error

    def _failure(self, what: str, error: BaseException) -> ControlTopicError:
        cause: MetadataFetchError = self._connection.failure(what, error)
        missing = isinstance(error, KafkaException) and error_name(error.args[0]) == UNKNOWN_TOPIC
        return ControlTopicError(f"{cause}; {CURE if missing else _UNREACHED}")

    # -- records -------------------------------------------------------------------------------------

    def _decoded(self, kind: type[AnyRecord], message: Message) -> AnyRecord | None:
        value = message.value()
        return None if value is None else decode_or_skip(kind, value, self.skipped, place_of(message))

    def _take_change(self, message: Message) -> None:
        self.ledger.take_written(message.key() or b"", message.value(), self.skipped, place_of(message))

    def _take_approval(self, message: Message) -> None:
        if (approval := self._decoded(Approval, message)) is not None:
            self.ledger.take_approval(approval)

    def _take_lease(self, message: Message) -> None:
        if (lease := self._decoded(Lease, message)) is not None:
            self.ledger.take_lease(lease, appended_ms(message))

    def _take_ack(self, message: Message) -> None:
        if (ack := self._decoded(Ack, message)) is not None:
            self.ledger.take_ack(ack, appended_ms(message))


def appended_ms(message: Message) -> int:
    """Return when the broker appended a record, in milliseconds since 1970."""
    return message.timestamp()[1]


def place_of(message: Message) -> Place:
    """Return where a record is."""
    return message.topic() or "", message.partition() or 0, message.offset() or 0


def command_in(message: Message, skipped: Skipped) -> Given | None:
    """Return the command that a record of ``kpe.commands`` tells; None if it tells none, which is noted."""
    place = place_of(message)
    command = decode_or_skip(Command, message.value() or b"", skipped, place)
    return None if command is None else Given(command, place[2], appended_ms(message))
