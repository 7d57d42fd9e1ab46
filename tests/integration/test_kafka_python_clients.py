"""kafka-python's real producer with our partitioners, and the metadata sources of both clients."""

import gc
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.producer.future import FutureRecordMetadata

from kafka_partition_events import (
    AdaptivePartitioner,
    DefaultPartitioner,
    ForkedError,
    MetadataFetchError,
    MetadataPoller,
    MetadataSource,
    RoundRobinPartitioner,
)
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource, attach
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.fork_kit import in_child

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0

Make = Callable[..., Any]


@pytest.fixture
def make(kafka_cluster: KafkaCluster) -> Iterator[Make]:
    """Make producers and close them."""
    made: list[Any] = []

    def make(partitioner: object, **config: Any) -> Any:
        config = {"bootstrap_servers": kafka_cluster.bootstrap_servers.split(","), **config}
        made.append(KafkaProducer(partitioner=partitioner, **config))
        return made[-1]

    yield make
    while made:
        made.pop().close(timeout=LIMIT_S)
    gc.collect()  # of the sockets, while their warning is filtered


# -- attach ------------------------------------------------------------------------------------------


def test_growth_loses_nothing_with_a_shared_poller(
    make: Make, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    """It asks over connections of its own, so the partitioner may be ahead of the producer."""
    topic, producer = kafka_topic(partitions=2), make(RoundRobinPartitioner())
    source = KafkaPythonMetadataSource({"bootstrap_servers": kafka_cluster.bootstrap_servers})
    with MetadataPoller(source, [topic], interval=0.2) as poller:
        attach(producer, poller=poller)
        producer.send(topic, b"v").get(LIMIT_S)
        kafka_cluster.grow_topic(topic, 4)
        deadline = time.monotonic() + LIMIT_S
        while (route := producer.config["partitioner"].route(topic)) is None or route.count < 4:
            assert time.monotonic() < deadline
            assert poller.refresh(wait=LIMIT_S)
        placed = Counter(
            future.get(LIMIT_S).partition for future in [producer.send(topic, b"v") for _ in range(40)]
        )
        assert placed == dict.fromkeys(range(4), 10)


# -- what stays the application's --------------------------------------------------------------------


def test_futures_callbacks_threads_and_errors_are_the_applications_own(
    make: Make, kafka_topic: MakeTopic
) -> None:
    topic, producer, heard = kafka_topic(partitions=6), make(AdaptivePartitioner()), Counter[int]()
    threads: set[str] = set()

    def note(number: int) -> Callable[[object], None]:
        def done(_metadata: object) -> None:
            heard[number] += 1
            threads.add(threading.current_thread().name)

        return done

    with attach(producer) as poller:
        producer.partitions_for(topic)
        poller.refresh(wait=LIMIT_S)
        futures = [producer.send(topic, b"v", key) for key in (None, b"k") for _ in range(100)]
        futures += [producer.send(topic, b"v", partition=3) for _ in range(100)]
        for number, future in enumerate(futures):
            assert type(future) is FutureRecordMetadata
            future.add_callback(note(number))
            future.add_callback(lambda _metadata: 1 / 0)  # kafka-python logs it, and goes on
        assert all(future.get(LIMIT_S).topic == topic for future in futures)
        assert heard == dict.fromkeys(range(300), 1)
        assert threads <= {producer._sender.name, threading.current_thread().name}
        with pytest.raises(TypeError, match="Unsupported type for serialized value"):
            producer.send(topic, "text")
        with pytest.raises(ValueError, match="Unrecognized partition"):
            producer.send(topic, b"v", partition=77)
        assert not any(producer.config["partitioner"].deliveries.stats.outstanding.values())


def test_a_producer_goes_on_by_its_own_metadata_after_its_poller_was_closed(
    make: Make, kafka_topic: MakeTopic
) -> None:
    topic, producer = kafka_topic(partitions=2), make(AdaptivePartitioner())
    attach(producer).close()
    producer.send(topic, b"v").get(LIMIT_S)


@pytest.mark.parametrize("rescue", [None, "failed", "hedge"])
def test_a_producer_that_is_dropped_sends_what_it_has_and_ends(
    rescue: Any, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic, servers = kafka_topic(partitions=6), kafka_cluster.bootstrap_servers.split(",")
    producer = KafkaProducer(bootstrap_servers=servers, partitioner=AdaptivePartitioner(), linger_ms=200)
    attach(producer, rescue)
    futures = [producer.send(topic, b"v") for _ in range(10)]
    gone = weakref.ref(producer)
    gc.disable()
    try:
        del producer
        deadline = time.monotonic() + LIMIT_S
        while gone() is not None and time.monotonic() < deadline:  # our thread may be looking at it just now
            time.sleep(0.01)
        assert gone() is None
    finally:
        gc.enable()
    assert all(future.succeeded() for future in futures)


# -- sources -----------------------------------------------------------------------------------------


def by_confluent(servers: str) -> MetadataSource:
    return ConfluentMetadataSource({"bootstrap.servers": servers, "sasl.password": "hunter2"})


def by_kafka_python(servers: str) -> MetadataSource:
    return KafkaPythonMetadataSource({"bootstrap_servers": servers, "sasl_plain_password": "hunter2"})


Open = Callable[[str], MetadataSource]


@pytest.mark.parametrize("opened", [by_confluent, by_kafka_python, None])
def test_an_answer_has_ids_racks_replicas_and_what_was_asked(
    opened: Open | None, make: Make, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=3, replication_factor=3)
    source: MetadataSource
    if opened is None:  # by a producer
        source = KafkaPythonMetadataSource(make(DefaultPartitioner()))
    else:
        source = opened(kafka_cluster.bootstrap_servers)
    asked = frozenset({topic, "no-such-topic", "no such name"})
    seen = source.fetch(asked, timeout=LIMIT_S)
    assert seen.cluster_id == kafka_cluster.cluster_id
    assert seen.requested == asked
    assert {(node.id, node.rack) for node in seen.nodes} == {(1, "r1"), (2, "r2"), (3, "r3")}
    assert set(seen.topics) == {topic}
    info = seen.topics[topic]
    assert info.topic_id == str(uuid.UUID(info.topic_id))
    assert [p.partition for p in info.partitions] == [0, 1, 2]
    assert {p.partition: p.leader for p in info.partitions} == kafka_cluster.leaders(topic)
    if opened is not by_confluent:
        assert [p.leader_epoch for p in info.partitions] == [0, 0, 0]
    assert all(sorted(p.replicas) == sorted(p.isr) == [1, 2, 3] for p in info.partitions)
    assert seen.errors == {
        "no-such-topic": "UNKNOWN_TOPIC_OR_PARTITION",
        "no such name": "INVALID_TOPIC_EXCEPTION",
    }
    everything = source.fetch(None, timeout=LIMIT_S)
    assert everything.requested is None
    assert topic in everything.topics
    source.close()


@pytest.mark.parametrize(
    ("opened", "servers", "cause"),
    [
        (by_confluent, "127.0.0.1:1", "Connection refused"),
        (by_confluent, "no-such-host.invalid:9092", "Failed to resolve"),
        (by_kafka_python, "127.0.0.1:1", "ECONNREFUSED"),
        (by_kafka_python, "no-such-host.invalid:9092", "DNS"),
    ],
)
def test_an_unreachable_cluster_is_told_with_its_cause_in_time(
    opened: Open, servers: str, cause: str
) -> None:
    source, began = opened(servers), time.monotonic()
    for _ in range(2):  # the second time kafka-python only says that it waits
        with pytest.raises(MetadataFetchError, match=cause) as failure:
            source.fetch(None, timeout=1.0)
        assert "hunter2" not in str(failure.value)
    assert time.monotonic() - began < 3.0
    source.close()
    gc.collect()


@pytest.mark.parametrize("opened", [by_confluent, by_kafka_python])
def test_a_forked_child_makes_a_source_of_its_own(opened: Open, kafka_cluster: KafkaCluster) -> None:
    def brokers(source: MetadataSource) -> int:
        return len(source.fetch(frozenset(), timeout=LIMIT_S).nodes)

    source = opened(kafka_cluster.bootstrap_servers)
    assert brokers(source) == 3

    def check() -> None:
        with pytest.raises(ForkedError, match="made before a fork"):
            brokers(source)
        own = opened(kafka_cluster.bootstrap_servers)
        assert brokers(own) == 3
        own.close()

    in_child(check)
    source.close()


def test_a_producer_is_taught_only_what_it_knows_already(
    make: Make, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    written, other = kafka_topic(partitions=2), kafka_topic(partitions=2)
    producer = make(DefaultPartitioner())
    producer.partitions_for(written)
    poller = MetadataPoller(KafkaPythonMetadataSource(producer), [other])
    kafka_cluster.grow_topic(written, 4)
    poller.poll_once()
    assert producer._metadata.partitions_for_topic(written) == {0, 1, 2, 3}
    assert producer._metadata.topics() == {written}
    poller.close()
