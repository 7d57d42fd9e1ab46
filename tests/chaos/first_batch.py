"""Does an idempotent librdkafka producer report as delivered what is nowhere? Plain clients, a real Kafka.

::

    python -m tests.chaos.first_batch                  # 5 requests in flight: some of 54,000 are lost
    python -m tests.chaos.first_batch --in-flight 1    # none is

Producers that the partitions do not know yet have several requests in flight while too few replicas are in
sync; then fewer are asked for. Where that happens between a partition's first request and its second, the
broker refuses the first and takes the second, and the answer to that one passes for both
(docs/decisions/2026-11-24-first-batch.md). Exit code 1: records are lost.
"""

import argparse
import sys
import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from kafka_partition_events.testing import KafkaCluster

TOPIC, PARTITIONS, PRODUCERS, RECORDS = "refusing", 40, 15, 6
LIMIT_S = 60.0


def start_refusing(kafka: KafkaCluster) -> None:
    """Make a topic that takes nothing: of two replicas one is gone, and two have to be in sync."""
    kafka.create_topic(TOPIC, PARTITIONS, 2, {"min.insync.replicas": "2"})
    stays, goes = kafka.brokers
    kafka.kill(goes)
    deadline = time.monotonic() + LIMIT_S
    while set(kafka.leaders(TOPIC).values()) != {stays}:
        if time.monotonic() > deadline:
            raise TimeoutError(f"broker {stays} does not lead all partitions")
        time.sleep(0.5)


def write(kafka: KafkaCluster, attempt: int, in_flight: int, delivered: dict[bytes, int]) -> None:
    """Let new producers wait for replicas, ask for fewer, and note what they then report, with offsets."""

    def report(error: KafkaError | None, message: Message) -> None:
        if error is None:
            offset = message.offset()
            delivered[message.value() or b""] = -1 if offset is None else offset

    kafka.set_config({"min.insync.replicas": "2"}, topic=TOPIC)
    time.sleep(1)
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "enable.idempotence": True,
        "linger.ms": 0,
        "batch.num.messages": 1,
        "max.in.flight.requests.per.connection": in_flight,
        "retry.backoff.ms": 10,
        "retry.backoff.max.ms": 20,
        "log_level": 0,
    }
    producers = [Producer(settings) for _ in range(PRODUCERS)]
    for record in range(RECORDS):
        for number, producer in enumerate(producers):
            for partition in range(PARTITIONS):
                value = f"{attempt}/{number}/{partition}/{record}".encode()
                producer.produce(TOPIC, value, partition=partition, on_delivery=report)
    time.sleep(1.5)
    kafka.set_config({"min.insync.replicas": "1"}, topic=TOPIC)
    for producer in producers:
        producer.flush(LIMIT_S)


def written(kafka: KafkaCluster) -> Iterator[bytes]:
    """Yield what the topic has."""
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "first-batch", "log_level": 0}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        for partition in range(PARTITIONS):
            place = TopicPartition(TOPIC, partition, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=LIMIT_S)
            consumer.assign([place])
            at, deadline = 0, time.monotonic() + LIMIT_S
            while at < end and time.monotonic() < deadline:
                for message in consumer.consume(500, 1):
                    yield message.value() or b""
                    at = (message.offset() or 0) + 1
    finally:
        consumer.close()


def main() -> int:
    """Try it so many times; tell what was lost, and return the exit code."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("tests.chaos.first_batch", description=__doc__, formatter_class=raw)
    parser.add_argument("--in-flight", type=int, default=5, help="requests in flight on a connection")
    parser.add_argument("--attempts", type=int, default=15, help="5 s each")
    chosen = parser.parse_args()
    delivered: dict[bytes, int] = {}
    with KafkaCluster(brokers=2) as kafka:
        start_refusing(kafka)
        for attempt in range(chosen.attempts):
            write(kafka, attempt, chosen.in_flight, delivered)
            unknown = sum(offset < 0 for offset in delivered.values())
            print(f"{attempt}: {len(delivered):,} reported, {unknown} without an offset", flush=True)  # noqa: T201
        there = set(written(kafka))
    lost = sorted(delivered.keys() - there)
    print(f"{len(delivered):,} reported as delivered, {len(lost)} of them are nowhere: {lost[:9]}")  # noqa: T201
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
