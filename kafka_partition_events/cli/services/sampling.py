"""Reads the latest records of a topic, the same number from each partition."""

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from kafka_partition_events.acls import Right
from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.cli.common.output import report
from kafka_partition_events.cli.services.services import (
    FIRST_ANSWER_S,
    KeySample,
    SampledRecord,
    connected,
    list_topics,
)
from kafka_partition_events.clients.confluent.answers import error_name, error_text
from kafka_partition_events.clients.confluent.connection import Connection

_SLICE_S = 0.2
_AT_ONCE = 2_000
_PROGRESS_S = 3.0
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001 - librdkafka's name

_DEFAULTS = {"log_level": 2}
_FIXED = {
    "group.id": "kpe-doctor",  # required by librdkafka; no member joins it, and nothing is committed
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


def sample_topic(config: Mapping[str, str], topic: str, records: int, timeout: float) -> KeySample:
    """Read the latest records of a topic, leaving nothing behind: no group membership, no commits.

    Args:
        config: How to connect.
        topic: What to read.
        records: About how many of the latest.
        timeout: For how many seconds at the most.

    Raises:
        CliError: no answer, no such topic, or it must not be read.
    """
    deadline = time.monotonic() + timeout
    with connected(config) as connection:
        online, partitions = _partitions(connection, topic, config)
        bounds = _bounds(connection, topic, online, config)
    share = math.ceil(records / max(1, len(online)))
    windows = {partition: (max(first, end - share), end) for partition, (first, end) in bounds.items()}
    with contextlib.closing(Consumer({**_DEFAULTS, **config, **_FIXED})) as consumer:
        consumer.assign([TopicPartition(topic, p, start) for p, (start, _end) in windows.items()])
        read, timed_out = _read(consumer, windows, lambda e: _refusal(topic, e, config), deadline)
    offline = partitions - len(online)
    return KeySample(partitions=partitions, records=read, offline=offline, timed_out=timed_out)


def _partitions(connection: Connection, topic: str, config: Mapping[str, str]) -> tuple[list[int], int]:
    """Return the partitions that have a leader, and how many there are."""
    answer = list_topics(connection, topic)
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


def _read(
    consumer: Consumer, windows: Ranges, refusal: Callable[[KafkaError], str], deadline: float
) -> tuple[list[SampledRecord], bool]:
    """Read windows to their ends; return the records, and whether there was no time for all.

    Raises:
        CliError: the topic must not be read, or is gone; `refusal` says which.
    """
    records: list[SampledRecord] = []
    open_ = {partition for partition, (start, end) in windows.items() if start < end}
    report_at = time.monotonic() + _PROGRESS_S
    while open_:
        if (now := time.monotonic()) >= deadline:
            return records, True
        if now >= report_at:
            report_at = now + _PROGRESS_S
            report(f"{len(records):,} records read")
        for message in consumer.consume(_AT_ONCE, timeout=_SLICE_S):
            error, partition, offset = message.error(), message.partition() or 0, message.offset() or 0
            if error is not None and error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, *_UNKNOWN):
                raise CliError(refusal(error))
            if error is None and offset < windows[partition][1]:
                records.append(SampledRecord(partition, offset, message.key()))
            at_end = error is None or error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 - so it is named
            if at_end and partition in open_ and (error is not None or offset >= windows[partition][1] - 1):
                open_.discard(partition)
                consumer.incremental_unassign([TopicPartition(message.topic() or "", partition)])
    return records, False
