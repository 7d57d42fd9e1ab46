"""Reads the latest records of a topic, the same number from each partition."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from kafka_partition_events.acls import Right
from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.cli.services.services import FIRST_ANSWER_S, Sample, SampledRecord, SampleRequest
from kafka_partition_events.clients.confluent.answers import error_name, error_text
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.errors import ConfigurationError

_SLICE_S = 0.2
_AT_ONCE = 2_000
_LEAST_STEP = 100
"""How many offsets of each partition are read at least, but the first time: compaction leaves few records."""

_PROGRESS_S = 3.0
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001 - librdkafka's name

_DEFAULTS = {"log_level": 2}
_FIXED = {
    "group.id": "kpe-doctor",  # required by librdkafka; nobody joins it, and nothing is committed
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_uncommitted",  # who aborts a transaction has chosen partitions all the same
    "fetch.queue.backoff.ms": 10,
    "allow.auto.create.topics": False,
}

Ranges = dict[int, tuple[int, int]]
"""Partition -> the offsets from (included) and to (excluded)."""


def sample_topic(config: Mapping[str, str], request: SampleRequest, tell: Callable[[str], None]) -> Sample:
    """Read the latest records of a topic, leaving nothing behind: no group membership, no commits.

    Args:
        config: How to connect.
        request: What to read.
        tell: Called with a line of text every few seconds.

    Raises:
        CliError: no answer, no such topic, or it must not be read.
    """
    deadline = time.monotonic() + request.timeout
    try:
        connection = Connection(config)
    except ConfigurationError as error:
        raise CliError(one_line(error)) from error
    with contextlib.closing(connection):
        online, partitions = _partitions(connection, request.topic, config)
        bounds = _bounds(connection, request.topic, online, config)
    consumer = Consumer({**_DEFAULTS, **config, **_FIXED})
    try:
        tail = _Tail(consumer, config, request, bounds, deadline, tell)
        records = tail.read()
    finally:
        consumer.close()
    return Sample(
        partitions=partitions,
        records=records,
        offline=partitions - len(online),
        timed_out=tail.timed_out,
    )


def _partitions(connection: Connection, topic: str, config: Mapping[str, str]) -> tuple[list[int], int]:
    """Return the partitions that have a leader, and how many there are."""
    try:
        answer = connection.admin().list_topics(topic, timeout=FIRST_ANSWER_S)
    except KafkaException as error:
        raise CliError(one_line(connection.failure("no answer from the brokers", error))) from error
    metadata = answer.topics[topic]
    if metadata.error is not None:
        raise CliError(_refusal(topic, metadata.error, config))
    online = [p.id for p in metadata.partitions.values() if p.leader in answer.brokers]
    return sorted(online), len(metadata.partitions)


def _bounds(
    connection: Connection, topic: str, partitions: Sequence[int], config: Mapping[str, str]
) -> Ranges:
    """Return the first offset of each partition and the one after its last."""
    ends = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, partition): spec for partition in partitions}
        futures = connection.admin().list_offsets(asked, request_timeout=FIRST_ANSWER_S) if asked else {}
        try:
            ends.append({tp.partition: future.result().offset for tp, future in futures.items()})
        except KafkaException as error:
            raise CliError(_refusal(topic, error.args[0], config)) from error
    first, last = ends
    return {partition: (first[partition], last[partition]) for partition in partitions}


def _refusal(topic: str, error: KafkaError, config: Mapping[str, str]) -> str:
    if error.code() in _UNKNOWN:
        return f"there is no topic {topic}, or you may not see it"
    if error.code() == KafkaError.TOPIC_EXCEPTION:
        return f"{topic!r} can't be the name of a topic"
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return f"topic {topic}: {error_text(error, config, Right(('Read',), 'topic', topic))}"
    return f"topic {topic}: {error_name(error)}: {one_line(error.str())}"


class _Tail:
    """Reads backwards from the ends of the partitions, some offsets of each at a time."""

    def __init__(
        self,
        consumer: Consumer,
        config: Mapping[str, str],
        request: SampleRequest,
        bounds: Ranges,
        deadline: float,
        tell: Callable[[str], None],
    ) -> None:
        self.timed_out = False
        self._consumer = consumer
        self._config = config
        self._request = request
        self._unread = bounds
        self._deadline = deadline
        self._tell = tell
        self._tell_at = time.monotonic() + _PROGRESS_S
        self._records: list[SampledRecord] = []

    def read(self) -> list[SampledRecord]:
        """Return as many records as are wanted, or as there are, or as there is time for."""
        while not self.timed_out and (windows := self._next_windows()):
            self._read_windows(windows)
            for partition, (start, _end) in windows.items():
                self._unread[partition] = (self._unread[partition][0], start)
        return self._records

    def _next_windows(self) -> Ranges:
        """Return the last unread offsets of each partition, so many that they should be enough."""
        left = {p: (first, end) for p, (first, end) in self._unread.items() if first < end}
        missing = self._request.records - len(self._records)
        if not left or missing <= 0:
            return {}
        step = math.ceil(missing / len(left))
        if self._records:  # not the first time: some partitions are short, or offsets hold no records
            step = max(step, _LEAST_STEP)
        return {p: (max(first, end - step), end) for p, (first, end) in left.items()}

    def _read_windows(self, windows: Ranges) -> None:
        topic = self._request.topic
        self._consumer.assign([TopicPartition(topic, p, start) for p, (start, _end) in windows.items()])
        open_ = set(windows)
        for message in self._messages(open_):
            partition, offset = message.partition(), message.offset()
            if partition not in open_:
                continue
            error = message.error()
            end = windows[partition][1]
            if error is None and offset < end:
                self._records.append(SampledRecord(partition, offset, message.key()))
            if error is not None or offset >= end - 1:
                open_.discard(partition)
                self._consumer.incremental_unassign([TopicPartition(topic, partition)])

    def _messages(self, open_: set[int]) -> Iterator[Any]:
        """Yield messages and ends of partitions until nothing is open any more or the time is over."""
        while open_:
            now = time.monotonic()
            if now >= self._deadline:
                self.timed_out = True
                return
            if now >= self._tell_at:
                self._tell_at = now + _PROGRESS_S
                self._tell(f"{len(self._records):,} of {self._request.records:,} records read")
            for message in self._consumer.consume(_AT_ONCE, timeout=min(_SLICE_S, self._deadline - now)):
                error = message.error()
                if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so it is named
                    yield message
                elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, *_UNKNOWN):
                    raise CliError(_refusal(self._request.topic, error, self._config))
