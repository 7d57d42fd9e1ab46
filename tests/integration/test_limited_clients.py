"""A limit on real clients: the topic grows, and nothing reaches its new partitions until the limit is lifted.

librdkafka is told to look for new partitions all the time, so that it knows them before anybody else does.
"""

import gc
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaProducer

from kafka_partition_events import DefaultPartitioner, MetadataPoller
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.clients.kafka_python import attach
from kafka_partition_events.routing.limits import NO_LIMITS
from kafka_partition_events.testing import KafkaCluster

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
OLD, NEW = range(3), range(3, 6)


class Client(Protocol):
    """Sends records, with a key and without."""

    poller: MetadataPoller

    def send(self, topic: str, key: bytes | None) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class Confluent:
    def __init__(self, cluster: KafkaCluster, partitioner: DefaultPartitioner) -> None:
        config = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "linger.ms": 5,
            "topic.metadata.refresh.interval.ms": 100,
        }
        self._producer = PartitioningProducer(config, partitioner, poller_options={"interval": 0.5})
        self.poller = self._producer.poller

    def send(self, topic: str, key: bytes | None) -> None:
        self._producer.produce(topic, b"v", key)
        self._producer.produce_batch(topic, [{"value": b"v", "key": key}])
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(LIMIT_S) == 0

    def close(self) -> None:
        self._producer.close()


class KafkaPython:
    def __init__(self, cluster: KafkaCluster, partitioner: DefaultPartitioner) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers.split(","),
            partitioner=partitioner,
            metadata_max_age_ms=300,
            linger_ms=5,
        )
        self.poller = attach(self._producer, interval=0.5)

    def send(self, topic: str, key: bytes | None) -> None:
        self._producer.send(topic, b"v", key)

    def flush(self) -> None:
        self._producer.flush(LIMIT_S)

    def close(self) -> None:
        self._producer.close(timeout=LIMIT_S)


Make = Callable[[DefaultPartitioner], Client]


@pytest.fixture(params=[Confluent, KafkaPython], ids=["confluent-kafka", "kafka-python"])
def make(kafka_cluster: KafkaCluster, request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[Client] = []

    def make(partitioner: DefaultPartitioner) -> Client:
        made.append(request.param(kafka_cluster, partitioner))
        return made[-1]

    yield make
    for client in made:
        client.close()
    gc.collect()  # of kafka-python's sockets, while their warning is filtered


def reached(cluster: KafkaCluster, topic: str) -> set[int]:
    """Return the partitions that hold records."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "nobody"})
    try:
        ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), LIMIT_S)[1] for p in (*OLD, *NEW)}
    finally:
        consumer.close()
    return {partition for partition, end in ends.items() if end > 0}


def send_for(client: Client, topic: str, seconds: float) -> None:
    over, n = time.monotonic() + seconds, 0
    while time.monotonic() < over:
        client.send(topic, b"key-%d" % n if n % 2 else None)
        n += 1
        time.sleep(0.002)
    client.flush()


def test_growth_reaches_records_when_the_limit_is_lifted_and_not_before(
    kafka_cluster: KafkaCluster, make: Make
) -> None:
    topic = f"limited-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, len(OLD))
    partitioner = DefaultPartitioner()
    client = make(partitioner)
    send_for(client, topic, 1.0)
    partitioner.routing.limit({topic: len(OLD)})
    kafka_cluster.grow_topic(topic, len(OLD) + len(NEW))

    send_for(client, topic, 2.0)
    seen = client.poller.cluster
    assert seen is not None
    assert len(seen.by_topic[topic].partitions) == len(OLD) + len(NEW), "the poller knows of the growth"
    late_partitioner = DefaultPartitioner()
    late_partitioner.routing.limit({topic: len(OLD)})
    late = make(late_partitioner)
    send_for(late, topic, 0.5)
    assert reached(kafka_cluster, topic) == set(OLD)

    partitioner.routing.limit(NO_LIMITS)
    send_for(client, topic, 1.0)
    assert reached(kafka_cluster, topic) == {*OLD, *NEW}
