"""Asks for topics' ``cleanup.policy`` by a client of its own, as long as there is something to ask."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from kafka_partition_events.clients.confluent.answers import error_name
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.flight.cleanup_policy import TIMEOUT_S, Answer, Ask, CleanupPolicies


def policies_by(config: Mapping[str, Any]) -> CleanupPolicies:
    """Return what asks with a producer's settings."""

    @contextmanager
    def asking() -> Iterator[Ask]:
        with closing(Connection(config)) as connection:

            def ask(topic: str) -> Answer:
                resource = ConfigResource(ResourceType.TOPIC, topic)
                asked = connection.admin().describe_configs([resource], request_timeout=TIMEOUT_S)
                try:
                    return asked[resource].result()["cleanup.policy"].value or "", ""
                except KafkaException as error:
                    if error.args[0].code() < 0:  # librdkafka's own: no broker has answered
                        raise
                    return None, error_name(error.args[0])

            yield ask

    return CleanupPolicies(asking)
