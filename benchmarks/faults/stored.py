"""What is really in a topic."""

import time
from collections import Counter
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.faults.spec import parse_value

_LIMIT_S, _AT_LEAST_A_S = 60.0, 20_000
_AT_ONCE = 10_000


def read_back(bootstrap: str, topic: str, partitions: int, run: str, records: int) -> "Counter[int]":
    """Read the topic from its beginning; return how often each record of the run, by number, is in it.

    `records` is about how many there are; it sets the limit.

    Raises:
        BenchError: it could not be read to its end in time.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-faults",  # required, though nobody joins it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    found: Counter[int] = Counter()
    try:
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
        for value in _values(consumer, topic, partitions, _LIMIT_S + records / _AT_LEAST_A_S):
            by, number = parse_value(value)
            if by == run and number >= 0:
                found[number] += 1
    finally:
        consumer.close()
    return found


def _values(consumer: Any, topic: str, partitions: int, limit: float) -> Any:
    from confluent_kafka import KafkaError  # noqa: PLC0415

    deadline = time.monotonic() + limit
    ended: set[int] = set()
    while len(ended) < partitions:
        for message in consumer.consume(_AT_ONCE, timeout=0.2):
            error = message.error()
            if error is None:
                yield message.value()
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so it is named
                ended.add(message.partition())
        if time.monotonic() > deadline:
            raise BenchError(f"topic {topic} could not be read to its end within {limit:.0f} s")
