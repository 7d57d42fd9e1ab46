"""Both clients on a cluster that is damaged, and that creates every topic it is asked for."""

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from kafka import KafkaProducer

from kafka_partition_events import (
    DefaultPartitioner,
    MetadataPoller,
    MetadataSource,
    PartitionOffline,
    PartitionOnline,
)
from kafka_partition_events.clients.confluent import ConfluentMetadataSource, PartitioningProducer
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource, attach
from kafka_partition_events.routing.hashing import murmur2_partition
from kafka_partition_events.testing import KafkaCluster, RecordingListener

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
TOPIC = "orders"
ON_BROKER_3 = frozenset({2, 5})


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    cluster = own_kafka_cluster(brokers=3, broker_config={"auto.create.topics.enable": "true"})
    cluster.create_topic(TOPIC, assignment={partition: [partition % 3 + 1] for partition in range(6)})
    return cluster


class Client(NamedTuple):
    """One client's producer: what it sends, it sends to the end, and tells the partition."""

    name: str
    poller: MetadataPoller
    send: Callable[[bytes | None, int], Counter[int]]


def confluent_client(cluster: KafkaCluster, closing: contextlib.ExitStack) -> Client:
    producer = PartitioningProducer(
        {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "partitioner": "murmur2_random"},
        poller_options={"interval": 0.2},
    )
    closing.callback(producer.close)

    def send(key: bytes | None, count: int) -> Counter[int]:
        got: Counter[int] = Counter()

        def note(error: object, message: Any) -> None:
            assert error is None
            got[message.partition()] += 1

        for _ in range(count):
            producer.produce(TOPIC, b"v", key, on_delivery=note)
            producer.poll(0.001)
        assert producer.flush(LIMIT_S) == 0
        return got

    return Client("confluent", producer.poller, send)


def kafka_python_client(cluster: KafkaCluster, closing: contextlib.ExitStack) -> Client:
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers.split(","), partitioner=DefaultPartitioner()
    )
    closing.callback(lambda: producer.close(timeout=LIMIT_S))  # as it is then: `attach` adds to it

    def send(key: bytes | None, count: int) -> Counter[int]:
        got: Counter[int] = Counter()
        for _ in range(count):
            got[producer.send(TOPIC, b"v", key).get(LIMIT_S).partition] += 1
        return got

    return Client("kafka-python", attach(producer, interval=0.2), send)


@pytest.fixture
def clients(cluster: KafkaCluster) -> Iterator[list[Client]]:
    with contextlib.ExitStack() as closing:
        yield [make(cluster, closing) for make in (confluent_client, kafka_python_client)]


def test_a_killed_broker_is_seen_avoided_and_welcomed_back(
    cluster: KafkaCluster, clients: list[Client]
) -> None:
    listeners = {client.name: RecordingListener() for client in clients}
    key = next(b"key-%d" % i for i in range(100) if murmur2_partition(b"key-%d" % i, 6) not in ON_BROKER_3)
    home = murmur2_partition(key, 6)
    for client in clients:
        client.send(None, 1)
        client.poller.register(listeners[client.name])
        wait_for(listeners[client.name], lambda events: any(e.kind == "topic_added" for e in events))

    cluster.kill(3)
    for client in clients:
        wait_for(listeners[client.name], lambda events: offline(events) == ON_BROKER_3)
        assert not ON_BROKER_3 & set(client.send(None, 200))
        assert client.send(key, 5) == {home: 5}

    cluster.restart(3)
    for client in clients:
        wait_for(listeners[client.name], lambda events: offline(events) == frozenset())
        seen: set[int] = set()
        deadline = time.monotonic() + LIMIT_S
        while not seen >= ON_BROKER_3:  # turns are drawn at random
            seen |= set(client.send(None, 50))
            assert time.monotonic() < deadline
        assert client.send(key, 5) == {home: 5}


def offline(events: Any) -> frozenset[int]:
    """Return the partitions of our topic that are offline after these events."""
    down: set[int] = set()
    for event in events:
        if isinstance(event, PartitionOffline):
            down.add(event.partition)
        elif isinstance(event, PartitionOnline):
            down.discard(event.partition)
    return frozenset(down)


def wait_for(listener: RecordingListener, test: Callable[[Any], bool]) -> None:
    listener.wait_for(test, LIMIT_S)


def test_asking_never_creates_a_topic(cluster: KafkaCluster, clients: list[Client]) -> None:
    ghost = f"ghost-{uuid.uuid4().hex}"
    servers = cluster.bootstrap_servers
    own: list[MetadataSource] = [
        ConfluentMetadataSource({"bootstrap.servers": servers}),
        KafkaPythonMetadataSource({"bootstrap_servers": servers}),
    ]
    pollers = [MetadataPoller(source, [ghost]) for source in own]
    for client in clients:
        client.send(None, 1)
        client.poller.track(ghost)
    for _ in range(5):
        for poller in pollers:
            poller.poll_once()
        for client in clients:
            assert client.poller.refresh("test", wait=LIMIT_S)
    everything = own[0].fetch(None, started_at=0.0, timeout=LIMIT_S)
    assert ghost not in everything.topics
    assert TOPIC in everything.topics
    for poller in pollers:
        poller.close()
