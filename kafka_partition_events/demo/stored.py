"""What is really in a topic."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from kafka_partition_events.cli.common.errors import CliError

_LIMIT_S = 60.0


def read_numbers(bootstrap_servers: str, topic: str, partitions: int) -> "Counter[int]":
    """Read a topic from beginning to end; return how often each record's number is in it.

    Raises:
        CliError: it could not be read to its end in time.
    """
    return Counter(map(int, read_values(bootstrap_servers, topic, partitions)))


def read_values(bootstrap_servers: str, topic: str, partitions: int) -> list[bytes]:
    """Read a topic from beginning to end; return the values of its records.

    Raises:
        CliError: it could not be read to its end in time.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "kpe-demo",  # required, though nobody joins it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
        return list(_values(consumer, topic, partitions))
    finally:
        consumer.close()


def _values(consumer: Any, topic: str, partitions: int) -> Iterator[bytes]:
    from confluent_kafka import KafkaError  # noqa: PLC0415

    deadline = time.monotonic() + _LIMIT_S
    ended: set[int] = set()
    while len(ended) < partitions:
        for message in consumer.consume(10_000, timeout=0.2):
            if (error := message.error()) is None:
                yield message.value()
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so it is named
                ended.add(message.partition())
        if time.monotonic() > deadline:
            raise CliError(f"topic {topic} could not be read to its end within {_LIMIT_S:.0f} s")
