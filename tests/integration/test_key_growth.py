"""A topic grows on a real cluster under producers whose keys stay, or move no more than must."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from kafka import KafkaProducer

from kafka_partition_events import AdaptivePartitioner, GrowthSafePartitioner, Partitioner
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.clients.kafka_python import attach
from kafka_partition_events.routing.hashing import KeyHash, crc32_partition, key_hash, murmur2_partition
from kafka_partition_events.routing.jump import jump_hash
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
INTERVAL_S = 0.2
KEYS = [b"user-%d" % number for number in range(60)]

Make = Callable[[str], Partitioner]


def staying(hash_name: Any, topic: str) -> Partitioner:
    return AdaptivePartitioner(hash_name=hash_name, key_partitions={topic: 6})


def moving(hash_name: Any, _topic: str) -> Partitioner:
    return GrowthSafePartitioner(mapping="rendezvous", hash_name=hash_name)


def homes(place: KeyHash, count: int) -> list[int]:
    return [place(key, count) for key in KEYS]


class Writer:
    """A confluent-kafka producer that writes keys, one by one or in a batch, and where they went."""

    def __init__(self, cluster: KafkaCluster, partitioner: Partitioner) -> None:
        config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2, "linger.ms": 0}
        self.producer = PartitioningProducer(config, partitioner, poller_options={"interval": INTERVAL_S})

    def where(self, topic: str, *, batch: bool) -> list[int]:
        placed = dict[bytes, int]()

        def note(error: Any, message: Any) -> None:
            assert error is None, error
            placed[message.key()] = message.partition()

        if batch:
            messages = [{"value": b"v", "key": key} for key in KEYS]
            assert self.producer.produce_batch(topic, messages, on_delivery=note) == len(KEYS)
        else:
            for key in KEYS:
                self.producer.produce(topic, b"v", key, on_delivery=note)
        assert self.producer.flush(LIMIT_S) == 0
        return [placed[key] for key in KEYS]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    ("make", "place", "stays"),
    [
        (partial(staying, None), crc32_partition, True),
        (partial(moving, None), jump_hash(key_hash("crc32")), False),
    ],
    ids=["key_partitions", "rendezvous"],
)
def test_on_confluent_kafka(
    make: Make, place: KeyHash, stays: bool, batch: bool, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=6)
    writer = Writer(kafka_cluster, make(topic))
    with writer.producer as producer:
        old, new = homes(place, 6), homes(place, 12)
        assert writer.where(topic, batch=batch) == old, "the first records, too"
        kafka_cluster.grow_topic(topic, 12)
        deadline = time.monotonic() + LIMIT_S
        while (route := producer.partitioner.route(topic)) is None or route.count < 12:
            assert time.monotonic() < deadline
            between = (0, len(KEYS)) if batch else range(len(KEYS) + 1)  # which two of them the growth comes
            assert writer.where(topic, batch=batch) in [old[:count] + new[count:] for count in between]
        assert writer.where(topic, batch=batch) == (old if stays else new)
        assert producer.stats.fallbacks == 0
        unkeyed = set[int]()
        while unkeyed != set(range(12)):
            assert time.monotonic() < deadline
            producer.produce(topic, b"v", on_delivery=lambda _, message: unkeyed.add(message.partition()))
            producer.poll(0.01)
    again = Writer(kafka_cluster, make(topic))
    with again.producer:
        assert again.where(topic, batch=batch) == (old if stays else new), "after a restart"


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize(
    ("make", "place", "stays"),
    [
        (partial(staying, "murmur2"), murmur2_partition, True),
        (partial(moving, "murmur2"), jump_hash(key_hash("murmur2")), False),
    ],
    ids=["key_partitions", "rendezvous"],
)
def test_on_kafka_python(
    make: Make,
    place: KeyHash,
    stays: bool,
    attached: bool,
    kafka_cluster: KafkaCluster,
    kafka_topic: MakeTopic,
) -> None:
    topic = kafka_topic(partitions=6)
    partitioner = make(topic)
    producer = KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, partitioner=partitioner, metadata_max_age_ms=200
    )
    if attached:
        attach(producer, interval=INTERVAL_S)

    def where() -> list[int]:
        futures = [producer.send(topic, b"v", key) for key in KEYS]
        return [future.get(LIMIT_S).partition for future in futures]

    def knows_all() -> bool:
        route = partitioner.route(topic)  # of the poller, which may be later than the producer
        return len(producer.partitions_for(topic)) == 12 and (route is None or route.count == 12)

    try:
        assert where() == homes(place, 6), "send waits for the topic's metadata"
        kafka_cluster.grow_topic(topic, 12)
        deadline = time.monotonic() + LIMIT_S
        while not knows_all():
            assert time.monotonic() < deadline
            where()
        assert where() == homes(place, 6 if stays else 12)
    finally:
        producer.close(timeout=LIMIT_S)
