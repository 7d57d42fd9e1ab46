"""Asks a cluster what `kpe doctor` wants to know. Nothing is written."""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from kafka_partition_events.cli.common.errors import one_line
from kafka_partition_events.cli.doctor.findings import Asker, Finding, of_broker, of_event_topic, of_visible
from kafka_partition_events.cli.services.services import FIRST_ANSWER_S, connected, list_topics
from kafka_partition_events.clients.confluent.answers import described_topic, nodes_of
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.flight.detour import address_of
from kafka_partition_events.clients.rights import principal
from kafka_partition_events.metadata.cluster import Node

_BROKER_S = 5.0
_AT_ONCE = 16


def ask_cluster(config: Mapping[str, str], event_topics: Sequence[str], observed: str) -> Iterator[Finding]:
    """Ask everything, and yield what it means, check by check.

    Args:
        config: How to connect.
        event_topics: The topics that `kpe observe` would write events to.
        observed: A regular expression of the topics that it would observe.

    Raises:
        CliError: no broker answers at all.
    """
    asker = Asker(where=config["bootstrap.servers"], who=principal(config) or "User:...")
    with connected(config) as connection:
        listed = list_topics(connection)
        connection.succeeded()
        nodes = nodes_of(listed.brokers.values())
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            yield from pool.map(partial(_ask_broker, config), nodes)
        visible = [name for name, topic in listed.topics.items() if topic.error is None]
        yield of_visible(
            len(visible), sum(re.fullmatch(observed, name) is not None for name in visible), asker
        )
        for name in event_topics:
            found = _describe(connection, name)
            held = None if found is None else found.authorized_operations
            operations = None if held is None else frozenset(operation.name for operation in held)
            info = None if found is None else described_topic(found)
            yield from of_event_topic(name, info, operations, len(nodes), asker)


def _ask_broker(config: Mapping[str, str], node: Node) -> Finding:
    """Ask one broker at the address that it advertises, with a client that is given no other address.

    A client asks any broker it knows, and it soon knows all; but for the configuration of a broker it must
    ask that one, and another one refuses. Whether it may be seen does not matter.
    """
    connection = Connection({**config, "bootstrap.servers": address_of(node)})
    resource = ConfigResource(ResourceType.BROKER, str(node.id))
    began, another = time.monotonic(), False
    with contextlib.closing(connection):
        asked = connection.admin().describe_configs([resource], request_timeout=_BROKER_S)
        try:
            asked[resource].result(_BROKER_S + 1.0)
        except KafkaException as error:
            code = error.args[0].code()
            if code < 0:  # librdkafka's own: there was no answer
                return of_broker(node, error=one_line(connection.failure("no answer", error)))
            another = code == KafkaError.INVALID_REQUEST
    return of_broker(node, seconds=time.monotonic() - began, another=another)


def _describe(connection: Connection, name: str) -> Any:
    """Describe a topic; None where there is no such one, no right to see it, or too old a broker."""
    asked = connection.admin().describe_topics(
        TopicCollection([name]), include_authorized_operations=True, request_timeout=FIRST_ANSWER_S
    )
    try:
        return asked[name].result(FIRST_ANSWER_S + 1.0)
    except (KafkaException, TimeoutError):
        return None
