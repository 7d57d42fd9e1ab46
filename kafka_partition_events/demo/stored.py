"""What is really in a topic: read plainly, and by an `OrderedConsumer`."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.clients.flight.predecessors import AFTER_HEADER
from kafka_partition_events.demo.key_order import Handed

_LIMIT_S = 60.0


def read_numbers(bootstrap_servers: str, topic: str, partitions: int) -> "Counter[int]":
    """Read a topic from beginning to end; return how often each record's number is in it.

    Raises:
        CliError: it could not be read to its end in time.
    """
    from confluent_kafka import Consumer  # noqa: PLC0415

    return Counter(int(each.value()) for each in _messages(Consumer, bootstrap_servers, topic, partitions))


def read_in_order(bootstrap_servers: str, topic: str, partitions: int) -> list[Handed]:
    """Return the records with a key, one after the other as an `OrderedConsumer` hands them out.

    Raises:
        CliError: it could not be read to its end in time.
    """
    from kafka_partition_events.clients.confluent import OrderedConsumer  # noqa: PLC0415

    return [
        Handed(each.key(), int(each.value()), moved=AFTER_HEADER in dict(each.headers() or ()))
        for each in _messages(OrderedConsumer, bootstrap_servers, topic, partitions)
        if each.key() is not None
    ]


def _messages(reader: Any, bootstrap_servers: str, topic: str, partitions: int) -> Iterator[Any]:
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition  # noqa: PLC0415

    consumer = reader(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "kpe-demo",  # required, though no member joins it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    deadline = time.monotonic() + _LIMIT_S
    ended: set[int] = set()
    try:
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
        while len(ended) < partitions:
            for message in consumer.consume(10_000, timeout=0.2):
                if (error := message.error()) is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so it is named
                    ended.add(message.partition())
            if time.monotonic() > deadline:
                raise CliError(f"topic {topic} could not be read to its end within {_LIMIT_S:.0f} s")
    finally:
        consumer.close()
