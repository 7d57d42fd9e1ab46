"""The listener that writes events to Kafka, with a real producer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from kafka_partition_events.listeners import KafkaSink, SinkListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.outbox import RetryPolicy
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


def watch(listener: SinkListener, *steps: Any) -> None:
    """Play the steps to a poller and close it, which delivers what is queued."""
    poller = MetadataPoller(ScriptedSource(*steps))
    poller.register(listener)
    for _ in steps:
        poller.poll_once()
    poller.close(timeout=20)


def test_an_outage_reaches_the_topic_with_its_interval(bootstrap: str) -> None:
    listener = SinkListener(KafkaSink({"bootstrap.servers": bootstrap}, TOPIC), observer="a")
    watch(listener, UP, DOWN, UP)
    events = consume(bootstrap, listener.stats.delivered)
    assert listener.stats.lost == 0
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
    listener = SinkListener(KafkaSink({"bootstrap.servers": bootstrap}, TOPIC))
    watch(listener, UP, OSError("no route"), DOWN, UP)
    gaps = {
        event["type"].split("events.")[1]: event["data"]["snapshot"]["gap"] for event in consume(bootstrap, 9)
    }
    assert gaps["partition.offline.v1"]
    assert not gaps["partition.online.v1"]


def test_events_that_cannot_be_delivered_in_time_are_counted() -> None:
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 200, "log_level": 0}
    listener = SinkListener(KafkaSink(nowhere, TOPIC), retry=RetryPolicy(max_delay=1.0, max_age=1e-3))
    watch(listener, UP)
    assert (listener.stats.delivered, listener.stats.lost) == (0, 3)


def test_more_events_than_the_queue_has_room_for_arrive_one_after_the_other(bootstrap: str) -> None:
    narrow = {"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1}
    listener = SinkListener(KafkaSink(narrow, TOPIC), retry=RetryPolicy(first_delay=1e-6))
    watch(listener, UP)
    assert (listener.stats.delivered, listener.stats.lost) == (3, 0)
