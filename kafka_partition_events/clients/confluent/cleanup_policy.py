"""Asks for topics' ``cleanup.policy`` by a client of its own, as long as there is something to ask."""

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from kafka_partition_events.clients.confluent.answers import error_name
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.flight.cleanup_policy import TIMEOUT_S, Answer, CleanupPolicies


def policies_by(config: Mapping[str, Any]) -> CleanupPolicies:
    """Return what asks with a producer's settings; connecting waits until a topic is asked for."""
    connections: list[Connection] = []

    def describe(topic: str, answer: Answer) -> None:
        if not connections:
            connections.append(Connection(config))
        resource = ConfigResource(ResourceType.TOPIC, topic)
        admin = connections[0].admin()
        (future,) = admin.describe_configs([resource], request_timeout=TIMEOUT_S).values()
        future.add_done_callback(partial(_answered, answer))

    def close() -> None:
        while connections:
            connections.pop().close()

    return CleanupPolicies(describe, close)


def _answered(answer: Answer, future: "Future[Mapping[str, Any]]") -> None:
    """Note an answer, in a thread of librdkafka's."""
    try:
        answer(future.result()["cleanup.policy"].value or "", "")
    except KafkaException as error:
        answer(None, error_name(error.args[0]))
    except BaseException as error:  # noqa: BLE001 - librdkafka would swallow it
        answer(None, repr(error))
