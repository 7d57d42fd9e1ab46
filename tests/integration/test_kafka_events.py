"""The listener that writes events to Kafka, with a real producer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.listeners import KafkaEventListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.testing import MockCluster, ScriptedSource
from kafka_partition_events.testing.scripted import observe

TOPIC = "kpe.events"
UP, DOWN = observe({"orders": [1, 2]}, brokers=[1, 2]), observe({"orders": [1, None]}, brokers=[1])


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, partitions=1)
        yield cluster.bootstrap_servers


def consume(bootstrap: str, count: int) -> list[dict[str, Any]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    try:
        found: list[dict[str, Any]] = []
        while len(found) < count:
            message = consumer.poll(20)
            assert message is not None, f"only {len(found)} of {count} events came"
            assert message.error() is None
            assert message.headers() == [("content-type", b"application/cloudevents+json")]
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            found.append(json.loads(value) | {"key": key.decode()})
        return found
    finally:
        consumer.close()


def watch(listener: KafkaEventListener, *steps: Any) -> None:
    """Play the steps to a poller and close it, which delivers what is queued."""
    poller = MetadataPoller(ScriptedSource(*steps))
    poller.register(listener)
    for _ in steps:
        poller.poll_once()
    poller.close(timeout=20)


def test_an_outage_reaches_the_topic_with_its_interval(bootstrap: str) -> None:
    listener = KafkaEventListener({"bootstrap.servers": bootstrap}, TOPIC, observer="a")
    watch(listener, UP, DOWN, UP)
    events = consume(bootstrap, listener.stats.published)
    assert listener.stats.failed == listener.stats.pending == 0
    names = [event["type"].removeprefix("io.github.kafka-partition-events.") for event in events]
    assert names == [
        "broker.joined.v1", "broker.joined.v1", "topic.created.v1",
        "partition.offline.v1", "broker.left.v1",
        "broker.joined.v1", "partition.online.v1",
    ]  # fmt: skip
    assert [event["sequence"] for event in events] == [f"{n:020d}" for n in range(1, 8)]
    assert [event["data"]["initial"] for event in events] == [True] * 3 + [False] * 4
    assert {event["key"] for event in events} == {"test", "test|orders"}
    offline = events[3]
    assert (
        offline["data"]["snapshot"]["prev_at"] < offline["data"]["snapshot"]["at"] <= offline["recordedtime"]
    )


def test_what_happened_while_the_cluster_did_not_answer_is_marked(bootstrap: str) -> None:
    listener = KafkaEventListener({"bootstrap.servers": bootstrap}, TOPIC)
    watch(listener, UP, OSError("no route"), DOWN, UP)
    gaps = {
        event["type"].split("events.")[1]: event["data"]["snapshot"]["gap"] for event in consume(bootstrap, 9)
    }
    assert gaps["partition.offline.v1"]
    assert not gaps["partition.online.v1"]


def test_a_producer_of_the_applications_own_is_used_and_left_open(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    listener = KafkaEventListener(producer, TOPIC)
    watch(listener, UP)
    assert listener.stats.published == 3
    producer.produce(TOPIC, b"{}")
    assert producer.flush(20) == 0


def test_events_that_cannot_be_delivered_are_counted_and_nobody_waits_long_for_them() -> None:
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 200, "log_level": 0}
    listener = KafkaEventListener(nowhere, TOPIC, flush_timeout=10)
    watch(listener, UP)
    assert listener.stats.failed == 3
    assert listener.stats.published == 0


def test_an_event_that_the_queue_has_no_room_for_is_counted_and_nothing_is_raised() -> None:
    full = {"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 1, "log_level": 0}
    listener = KafkaEventListener(full, TOPIC, flush_timeout=0)
    watch(listener, UP)
    assert listener.stats.failed == 2
    assert listener.stats.pending == 1


def test_wrong_arguments_are_refused_at_construction() -> None:
    with pytest.raises(ConfigurationError, match="flush_timeout"):
        KafkaEventListener({"bootstrap.servers": "127.0.0.1:1"}, flush_timeout=-1)
    with pytest.raises(ConfigurationError, match="topic"):
        KafkaEventListener({"bootstrap.servers": "127.0.0.1:1"}, topic="")
