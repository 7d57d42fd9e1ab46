"""A plain consumer that reads whole topics, and the dump of the controllers' log."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from kafka_partition_events.clients.confluent import OrderedConsumer
from kafka_partition_events.jvm import java, kafka_classpath
from tests.chaos.diary import named

_DUMP_LIMIT_S = 300.0


class UnreadableError(Exception):
    """A topic could not be read to its end in time."""


def read_life(servers: str, topic: str, created_at: float, path: Path, limit: float) -> None:
    """Write down where each record of a topic lies: ``partition offset id``, below a heading.

    Raises:
        UnreadableError: it could not be read to its end in `limit` seconds; there is no file then.
    """
    asked_at, part = time.time(), path.with_suffix(".part")
    with part.open("w") as file:
        file.write(json.dumps([topic, created_at, asked_at]) + "\n")
        for message in messages(servers, topic, limit):
            file.write(f"{message.partition()} {message.offset()} {named(message.value())}\n")
    part.rename(path)


def read_in_order(servers: str, topic: str, path: Path, limit: float) -> None:
    """Write down which records an `OrderedConsumer` hands out, a line each.

    Raises:
        UnreadableError: as `messages`.
    """
    with path.open("w") as file:
        for message in messages(servers, topic, limit, OrderedConsumer):
            file.write(json.dumps([named(message.value())]) + "\n")


def messages(
    servers: str, topic: str, limit: float, reader: Callable[..., Consumer] = Consumer
) -> Iterator[Message]:
    """Yield all that a topic has.

    Raises:
        UnreadableError: its end was not reached in `limit` seconds.
    """
    deadline = time.monotonic() + limit
    consumer = reader(
        {
            "bootstrap.servers": servers,
            "group.id": "chaos-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    try:
        found = consumer.list_topics(topic, timeout=limit).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in found])
        left = set(found)
        while left:
            if time.monotonic() > deadline:  # writers that go on may keep an end from ever being told
                raise UnreadableError(f"{topic}: no end of partitions {sorted(left)} within {limit:.0f} s")
            message = consumer.poll(0.5)
            error = None if message is None else message.error()
            if message is not None and error is None:
                yield message
            elif message is not None and error is not None and error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
    finally:
        consumer.close()


def dump_metadata(log_directory: Path, out: Path) -> None:
    """Write down what the controllers have decided, with Kafka's own tool."""
    files = ",".join(str(file) for file in sorted(log_directory.glob("*.log")))
    tool = [str(java()), "-Xmx512m", "-cp", kafka_classpath(), "kafka.tools.DumpLogSegments"]
    with out.open("w") as file:
        subprocess.run(
            [*tool, "--cluster-metadata-decoder", "--files", files],
            stdout=file,
            check=True,
            timeout=_DUMP_LIMIT_S,
        )
