"""Read topics from beginning to end: what is really in them."""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.demo.ledger import Found, Payload

_LIMIT_S = 60.0
_STEP_LIMIT_S = 10.0

Arrivals = Mapping[int, Sequence[datetime]]
"""Partition -> when its producer made each record that came to it (UTC)."""


def read_topic(bootstrap_servers: str, topic: str) -> tuple[Found, Arrivals]:
    """Read a whole topic of the demo.

    Raises:
        CliError: it could not be read to its end in time.
    """
    payloads: list[Payload] = []
    arrivals: dict[int, list[datetime]] = {}
    for message in _messages(bootstrap_servers, topic):
        came = arrivals.setdefault(message.partition(), [])  # of a partition without records, too
        if message.error() is None:
            payloads.append(Payload.decode(message.value()))
            came.append(datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC))
    return Found.of(payloads), arrivals


def count_records(bootstrap_servers: str, topic: str) -> int:
    """Return how many records a topic holds now, by its offsets alone. On a real cluster only."""
    from confluent_kafka import TopicPartition  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # noqa: PLC0415

    # Not with a consumer: its group would create Kafka's topic of consumer offsets, and an event.
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    partitions = admin.list_topics(timeout=_STEP_LIMIT_S).topics[topic].partitions
    ends = admin.list_offsets(
        {TopicPartition(topic, partition): latest for partition in partitions}, request_timeout=_STEP_LIMIT_S
    )
    return sum(end.result(_STEP_LIMIT_S).offset for end in ends.values())


def _messages(bootstrap_servers: str, topic: str) -> Iterator[Any]:
    """Yield all records, and the mark of each partition's end."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    deadline = time.monotonic() + _LIMIT_S
    consumer = _consumer(bootstrap_servers)
    try:
        reading = _partitions(consumer, topic)
        consumer.assign(reading)
        unread = len(reading)
        while unread:
            for message in consumer.consume(1000, timeout=1.0):
                if (error := message.error()) is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so it is named
                    yield message
                    unread -= 1
            if time.monotonic() > deadline:
                raise CliError(f"topic {topic} could not be read to its end within {_LIMIT_S:.0f} s")
    finally:
        consumer.close()


def _partitions(consumer: Any, topic: str) -> list[Any]:
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition  # noqa: PLC0415

    known = consumer.list_topics(topic, timeout=_STEP_LIMIT_S).topics[topic].partitions
    return [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in sorted(known)]


def _consumer(bootstrap_servers: str) -> Any:
    from confluent_kafka import Consumer  # noqa: PLC0415

    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"kpe-demo-{uuid.uuid4().hex[:8]}",  # required, though nobody joins it
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "log_level": 2,
        }
    )
