"""What a confluent producer leaves as it is, though it listens. What it hears is in test_feedback.py."""

import gc
import time
import weakref
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kafka_partition_events import BrokerSuspected
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.testing import KafkaCluster
from tests.sick_broker_kit import LIMIT_S, read_back, writing

pytestmark = pytest.mark.kafka
VICTIM = 2


def made(cluster: KafkaCluster, topic: str, rescue: Any = None, **config: Any) -> PartitioningProducer:
    """Make a producer that knows the topic."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": 3000, "log_level": 0}
    producer = PartitioningProducer({**servers, **config}, rescue=rescue)
    producer.wait_for_topic(topic, LIMIT_S)
    return producer


def test_an_application_that_does_not_poll_suspects_nobody(cluster: KafkaCluster, topic: str) -> None:
    with writing("confluent", cluster, topic, rate=1000.0) as application:
        application.warm_up()
        producer = application.driver.producer
        began = time.monotonic()  # before, where the machine is busy, a broker may really have been silent
        for _ in range(3):
            for _ in range(300):
                producer.produce(topic, b"v")
                time.sleep(0.001)
            time.sleep(0.3)
            producer.poll(0)
            producer.poll(0)
        ended = time.monotonic()
        producer.flush(LIMIT_S)
        told = application.heard.of(BrokerSuspected)
        assert not [event for event in told if began <= event.observed_at <= ended]


def test_the_callbacks_of_the_application_are_called_as_without_us(cluster: KafkaCluster, topic: str) -> None:
    by_default: list[Any] = []
    errors: list[KafkaError] = []
    own: list[Any] = []
    config = {"on_delivery": lambda *report: by_default.append(report), "error_cb": errors.append}
    with made(cluster, topic, **config) as producer:
        for number in range(50):
            producer.produce(topic, b"%d" % number)
            producer.produce(topic, b"%d" % number, callback=lambda *report: own.append(report))
            producer.produce(topic, b"%d" % number, b"key")
            producer.poll(0.002)
        messages = [{"value": b"batch"} for _ in range(10)]
        assert producer.produce_batch(topic, messages) == 10
        assert messages == [{"value": b"batch"} for _ in range(10)]
        assert producer.flush(LIMIT_S) == 0
        assert {message.value() for error, message in own if error is None} == {b"%d" % n for n in range(50)}
        assert len(own) == 50
        assert Counter(message.value() for _error, message in by_default) == {
            **{b"%d" % n: 2 for n in range(50)},
            b"batch": 10,
        }

        def refuse(_error: object, _message: object) -> None:
            raise RuntimeError("the application's own")

        producer.produce(topic, b"raises", on_delivery=refuse)
        with pytest.raises(RuntimeError, match="the application's own"):
            producer.flush(LIMIT_S)
        cluster.kill(VICTIM)
        try:
            deadline = time.monotonic() + LIMIT_S
            while not errors and time.monotonic() < deadline:
                producer.produce(topic, b"v")
                producer.poll(0.01)
            assert errors[0].code() == KafkaError._TRANSPORT
        finally:
            cluster.restart(VICTIM)


def test_a_producer_with_records_on_the_way_can_be_collected(cluster: KafkaCluster, topic: str) -> None:
    producer = made(cluster, topic)
    for _ in range(10):
        producer.produce(topic, b"v", on_delivery=print)
    gone = weakref.ref(producer)
    del producer
    gc.collect()
    assert gone() is None


def test_a_batch_is_rescued_too(cluster: KafkaCluster, topic: str) -> None:
    with made(cluster, topic, "hedge") as producer:
        messages: list[dict[str, Any]] = [{"value": b"v"}, {"value": b"v", "key": b"k"}]
        assert producer.produce_batch(topic, messages) == 2
        assert producer.flush(LIMIT_S) == 0
    records = sorted(read_back(cluster, topic), key=lambda record: record.key() or b"")
    assert [bool(record.headers()) for record in records] == [True, False]
