"""Keyed records whose partition is offline, on a real cluster: rerouted, or refused."""

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaProducer

from kafka_partition_events import (
    AdaptivePartitioner,
    MetadataPoller,
    PartitionOffline,
    PartitionOfflineError,
)
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.clients.kafka_python import attach
from kafka_partition_events.routing.hashing import murmur2_partition
from kafka_partition_events.testing import KafkaCluster, RecordingListener

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0
KEYS = [b"key-%d" % number for number in range(60)]
Found = dict[bytes, tuple[int, dict[str, bytes]]]
"""What arrived: by key, the partition and the headers."""


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    """Broker 2 is dead, and soon everybody knows: partition 1 of each topic is offline."""
    cluster = own_kafka_cluster(brokers=3)
    for topic in ("one-by-one", "batch", "kafka-python", "refusing"):
        cluster.create_topic(topic, assignment={partition: [partition + 1] for partition in range(3)})
    cluster.kill(2)
    return cluster


@pytest.fixture
def read(cluster: KafkaCluster) -> Iterator[Callable[[str], Found]]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"})

    def everything(topic: str) -> Found:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 2)])
        found: Found = {}
        while len(found) < len(KEYS) and (message := consumer.poll(LIMIT_S)) is not None:
            assert message.error() is None
            headers: Any = message.headers() or ()
            key: Any = message.key()
            found[key] = cast("int", message.partition()), dict(headers)
        return found

    yield everything
    consumer.close()


def await_offline(poller: MetadataPoller) -> None:
    heard = RecordingListener()
    poller.register(heard)
    heard.wait_for(lambda events: any(isinstance(event, PartitionOffline) for event in events), LIMIT_S)


def check(found: Found, headers: dict[str, bytes]) -> None:
    """What belongs to partition 1 is elsewhere, the rest is at home."""
    assert set(found) == set(KEYS)
    for key, (partition, sent) in found.items():
        home = murmur2_partition(key, 3)
        rerouted = home == 1
        assert (partition != home) == rerouted
        assert sent == headers


@pytest.fixture
def producer(cluster: KafkaCluster) -> Iterator[PartitioningProducer]:
    config = {"bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": 10_000}
    partitioner = AdaptivePartitioner(keyed="reroute", hash_name="murmur2")
    with PartitioningProducer(config, partitioner, poller_options={"interval": 0.2}) as producer:
        producer.poller.track("one-by-one", "batch")
        await_offline(producer.poller)
        yield producer


def test_confluent_kafka(producer: PartitioningProducer, read: Callable[[str], Found]) -> None:
    errors: list[object] = []

    def note(error: object, _message: object) -> None:
        errors.append(error)

    for key in KEYS:
        producer.produce("one-by-one", b"v", key, headers={"mine": b"yes"}, on_delivery=note)
    assert producer.flush(LIMIT_S) == 0
    assert errors == [None] * len(KEYS)
    check(read("one-by-one"), {"mine": b"yes"})


def test_confluent_kafka_in_a_batch(producer: PartitioningProducer, read: Callable[[str], Found]) -> None:
    messages = [{"key": key, "value": b"v"} for key in KEYS]
    assert producer.produce_batch("batch", messages) == len(KEYS)
    assert producer.flush(LIMIT_S) == 0
    assert not any("_error" in message for message in messages)
    check(read("batch"), {})


def test_kafka_python(cluster: KafkaCluster, read: Callable[[str], Found]) -> None:
    partitioner = AdaptivePartitioner(keyed="reroute", hash_name="murmur2")
    servers = cluster.bootstrap_servers.split(",")
    producer = KafkaProducer(bootstrap_servers=servers, partitioner=partitioner)
    poller = attach(producer, interval=0.2)
    poller.track("kafka-python")
    await_offline(poller)
    mine = [("mine", b"yes")]
    futures = [producer.send("kafka-python", b"v", key, headers=mine) for key in KEYS]
    for future in futures:
        future.get(timeout=LIMIT_S)
    assert mine == [("mine", b"yes")], "the application's own list stays as it was"
    producer.close()
    gc.collect()  # of the sockets, while their warning is filtered
    check(read("kafka-python"), {"mine": b"yes"})


# -- keyed="raise" -----------------------------------------------------------------------------------


def send_each(send: Callable[[bytes], object]) -> None:
    """Of all keys, those of partition 1 are refused at once, with the cause and the cure."""
    for key in KEYS:
        if murmur2_partition(key, 3) != 1:
            send(key)
            continue
        began = time.monotonic()
        with pytest.raises(PartitionOfflineError, match=r'partition 1 of topic refusing .*"reroute"'):
            send(key)
        assert time.monotonic() - began < 1


def test_confluent_kafka_refuses(cluster: KafkaCluster) -> None:
    config = {"bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": 10_000}
    partitioner = AdaptivePartitioner(keyed="raise", hash_name="murmur2")
    with PartitioningProducer(config, partitioner, poller_options={"interval": 0.2}) as producer:
        producer.poller.track("refusing")
        await_offline(producer.poller)
        send_each(lambda key: producer.produce("refusing", b"v", key))
        assert producer.flush(LIMIT_S) == 0
        with pytest.raises(PartitionOfflineError):
            producer.produce_batch("refusing", [{"key": key} for key in KEYS])
        assert len(producer) == 0, "of a batch nothing is sent"


def test_kafka_python_refuses(cluster: KafkaCluster) -> None:
    servers = cluster.bootstrap_servers.split(",")
    producer = KafkaProducer(
        bootstrap_servers=servers, partitioner=AdaptivePartitioner(keyed="raise", hash_name="murmur2")
    )
    poller = attach(producer, interval=0.2)
    poller.track("refusing")
    await_offline(poller)
    send_each(partial(producer.send, "refusing", b"v"))
    producer.flush(LIMIT_S)
    producer.close()
    gc.collect()  # of the sockets, while their warning is filtered
