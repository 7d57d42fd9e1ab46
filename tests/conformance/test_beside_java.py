"""Apache Kafka's real Java producer beside ours: 100,000 keys, one by one, and 100,000 records without."""

import random
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_partition_events import (
    AdaptivePartitioner,
    DefaultPartitioner,
    Partitioner,
    StickyPartitioner,
)
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.testing import KafkaCluster, cluster_of
from kafka_partition_events.testing.plugin import MakeTopic
from tests.conformance.java_kafka import JavaKafka

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0

RECORDS = 100_000
PARTITIONS = 12
VALUE = b"v" * 100
LINGER_MS = 5
SLICE, GAP_S = 40, 0.002
"""Unkeyed records come as steadily as Python can send them, because our turns go by time."""


@pytest.fixture(scope="module")
def java() -> Iterator[JavaKafka]:
    with JavaKafka() as kafka:
        yield kafka


@pytest.fixture(scope="module")
def keys() -> list[bytes]:
    """Random bytes, 0 to 64 of them: some 1,500 are empty, which to Java is a key like any other."""
    rng = random.Random(20261121)
    return [rng.randbytes(rng.randint(0, 64)) for _ in range(RECORDS)]


def by(partitioner: Partitioner, keys: list[bytes], partitions: int) -> list[int]:
    partitioner.apply_snapshot(cluster_of({"t": [1] * partitions}))
    return [partitioner.partition("t", key, key, None, b"", None) for key in keys]


# -- keys --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [DefaultPartitioner, StickyPartitioner, AdaptivePartitioner])
def test_100_000_keys_have_the_partitions_that_javas_class_computes(
    make: Callable[[], Partitioner], java: JavaKafka, keys: list[bytes]
) -> None:
    for partitions in (1, 2, 7, 12, 1000):
        assert by(make(), keys, partitions) == java.partitions_for(keys, partitions)


# -- evenness ----------------------------------------------------------------------------------------


def test_100_000_unkeyed_records_are_spread_as_evenly_as_javas_or_better(
    java: JavaKafka, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    """Max/mean of 12 partitions, while neither producer looks at which partitions answer well.

    Java draws a partition for each 16 to 32 KB; these 11 MB are 340 to 650 draws, so a partition's share has
    a standard deviation of 14% to 19%. Ours goes round a wheel: what differs is only how much a turn of 5 ms
    holds. These are some 600 turns, and if they differ by half of a turn, a share does by 7%. The bounds are
    5 standard deviations; that one of 12 shares exceeds them has a probability below 1e-5. Measured on a
    machine with ten times too much to do: Java 1.16 to 1.25, ours 1.08 to 1.15.
    """
    servers = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    theirs, ours = kafka_topic(partitions=PARTITIONS), kafka_topic(partitions=PARTITIONS)

    adaptive = {"partitioner.adaptive.partitioning.enable": "false"}
    java_producer = java.producer({**servers, **adaptive, "linger.ms": str(LINGER_MS)})
    paced(java_producer.unkeyed(theirs, VALUE))
    java_producer.close()

    untold = {"delivery.report.only.error": True}
    with PartitioningProducer({**servers, **untold, "linger.ms": LINGER_MS}) as producer:

        def send(count: int) -> None:
            for _ in range(count):
                producer.produce(ours, VALUE)
            producer.poll(0)

        await_table(producer, ours)
        paced(send)
        assert producer.flush(LIMIT_S) == 0

    assert unevenness(kafka_cluster, theirs) < 2.0
    assert unevenness(kafka_cluster, ours) < 1.35


def paced(send: Callable[[int], object]) -> None:
    for _ in range(RECORDS // SLICE):
        send(SLICE)
        time.sleep(GAP_S)


def await_table(producer: PartitioningProducer, topic: str) -> None:
    producer.poller.track(topic)
    assert producer.poller.refresh("test", wait=LIMIT_S)
    assert producer.partitioner.route(topic) is not None


def unevenness(cluster: KafkaCluster, topic: str) -> float:
    """Return the greatest share of a topic's records on a partition, divided by the mean."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": uuid.uuid4().hex})
    counts = []
    for partition in range(PARTITIONS):
        _low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), LIMIT_S)
        counts.append(high)
    consumer.close()
    assert sum(counts) == RECORDS
    return max(counts) / (RECORDS / PARTITIONS)
