"""Sends records under a real tracer and prints, as JSON, how many arrived, and with its headers.

It is a process of its own, because tracers replace classes of the clients for good. ``argv``: the tracer;
when it is installed (``before`` or ``after`` our import, or for kafka-python after ``attach``); the client;
brokers; topics, one for each mode.
"""

# ruff: noqa: PLC0415 - what is imported when is the point

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

HEADERS = {"opentelemetry": "traceparent", "datadog": "x-datadog-trace-id"}
LIMIT_S = 10.0
QUIET = {
    "DD_KAFKA_PROPAGATION_ENABLED": "true",
    "DD_DATA_STREAMS_ENABLED": "true",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_TRACE_STARTUP_LOGS": "false",
    "DD_TRACE_AGENT_URL": "http://127.0.0.1:1",
}


def install(tracer: str) -> None:
    if tracer == "datadog":
        from ddtrace import patch

        patch(kafka=True)
        return
    from opentelemetry import trace
    from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
    from opentelemetry.instrumentation.kafka import KafkaInstrumentor
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())
    ConfluentKafkaInstrumentor().instrument()
    KafkaInstrumentor().instrument()


def calls(producer: Any, topic: str) -> Mapping[str, Callable[[], object]]:
    """Return each way to send a record with a confluent-kafka producer."""
    return {
        "value": lambda: producer.produce(topic, b"v"),
        "key": lambda: producer.produce(topic, b"v", b"k"),
        "by name": lambda: producer.produce(topic, value=b"v", key=b"k"),
        "partition": lambda: producer.produce(topic, b"v", partition=1),
        "headers": lambda: producer.produce(topic, b"v", headers={"own": b"1"}),
        "headers as a list": lambda: producer.produce(topic, b"v", headers=[("own", b"1")]),
        "callback": lambda: producer.produce(topic, b"v", on_delivery=lambda *_: None),
        "time stamp": lambda: producer.produce(topic, b"v", timestamp=5),
    }


def by_confluent(topic: str, config: dict[str, Any], rescue: Any) -> tuple[int, list[str]]:
    import confluent_kafka

    from kafka_partition_events.clients.confluent import PartitioningProducer

    if rescue == "plain":
        producer = confluent_kafka.Producer(config)
    else:
        producer = PartitioningProducer(config, rescue=rescue)
    sent, refused = 0, []
    for _ in range(2):  # before and after the topic is known
        for name, call in calls(producer, topic).items():
            try:
                call()
                sent += 1
            except TypeError:
                refused.append(name)
        assert producer.flush(LIMIT_S) == 0
        if isinstance(producer, PartitioningProducer):
            producer.poller.refresh(wait=LIMIT_S)
    return sent, refused


def by_kafka_python(topic: str, servers: str, rescue: Any, then: Callable[[], None]) -> tuple[int, list[str]]:
    from kafka import KafkaProducer

    from kafka_partition_events import AdaptivePartitioner
    from kafka_partition_events.clients.kafka_python import attach

    options = {"bootstrap_servers": servers.split(","), "enable_idempotence": False, "linger_ms": 5}
    if rescue == "plain":
        producer = KafkaProducer(**options)
    else:
        producer = KafkaProducer(**options, partitioner=AdaptivePartitioner())
        attach(producer, rescue=rescue)
    then()
    for key in (None, b"k", None):
        producer.send(topic, b"v", key=key).get(LIMIT_S)
        producer.send(topic, value=b"v", key=key, headers=[("own", b"1")]).get(LIMIT_S)
    producer.close()
    return 6, []


def names_of(record: Any) -> set[str]:
    return {name for name, _ in record.headers() or ()}


def read(topic: str, config: dict[str, Any], records: int) -> list[set[str]]:
    """Return the names of each record's headers."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.cimpl import Consumer

    consumer = Consumer({**config, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    found: list[set[str]] = []
    deadline = time.monotonic() + LIMIT_S
    while len(found) < records and time.monotonic() < deadline:
        found += [names_of(record) for record in consumer.consume(100, 0.2) if record.error() is None]
    return found


def main(tracer: str, when: str, client: str, servers: str, topics: list[str]) -> None:
    os.environ.update(QUIET)
    logging.disable(logging.CRITICAL)
    if when == "before":
        install(tracer)
    import kafka_partition_events.clients.confluent  # noqa: F401 - what "before" is about

    if when == "after":
        install(tracer)
    config = {"bootstrap.servers": servers, "log_level": 0}
    told = {}
    uninstalled = [tracer] if when == "attach" else []

    def install_once() -> None:
        if uninstalled:
            install(uninstalled.pop())

    for topic, rescue in zip(topics, ("plain", None, "failed", "hedge"), strict=True):
        if client == "confluent":
            sent, refused = by_confluent(topic, config, rescue)
        else:
            sent, refused = by_kafka_python(topic, servers, rescue, install_once)
        found = read(topic, config, sent)
        told[str(rescue)] = {
            "sent": sent,
            "refused": refused,
            "arrived": len(found),
            "traced": sum(HEADERS[tracer] in names for names in found),
            "own": sum("own" in names for names in found),
        }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    os._exit(0)  # tracers wait for agents that are not there


if __name__ == "__main__":
    _, tracer, when, client, servers, *topics = sys.argv
    main(tracer, when, client, servers, topics)
