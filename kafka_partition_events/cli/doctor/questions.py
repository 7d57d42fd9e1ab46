"""Asks a cluster what `kpe doctor` wants to know. Nothing is written."""

import contextlib
import re
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.cli.doctor.findings import (
    Answers,
    BrokerAnswer,
    Needs,
    TopicAnswer,
)
from kafka_partition_events.cli.services.services import FIRST_ANSWER_S
from kafka_partition_events.clients.confluent.answers import described_topic, listed_nodes
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.rights import principal
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.cluster import Node

_BROKER_S = 5.0
_AT_ONCE = 16


def ask_cluster(config: Mapping[str, str], needs: Needs) -> Answers:
    """Ask everything.

    Raises:
        CliError: no broker answers at all.
    """
    try:
        connection = Connection(config)
    except ConfigurationError as error:
        raise CliError(one_line(error)) from error
    with contextlib.closing(connection):
        try:
            listed = connection.admin().list_topics(timeout=FIRST_ANSWER_S)
        except KafkaException as error:
            raise CliError(one_line(connection.failure("no answer from the brokers", error))) from error
        connection.succeeded()
        nodes = listed_nodes(listed.brokers)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            brokers = tuple(pool.map(lambda node: _ask_broker(config, node), nodes))
        visible = [name for name, topic in listed.topics.items() if topic.error is None]
        return Answers(
            where=str(config["bootstrap.servers"]),
            who=principal(config) or "User:...",
            brokers=brokers,
            topics=len(visible),
            observed=sum(re.fullmatch(needs.observed, name) is not None for name in visible),
            event_topics=_describe(connection, needs.event_topics),
        )


def _ask_broker(config: Mapping[str, str], node: Node) -> BrokerAnswer:
    """Ask one broker at the address that it advertises, with a client that is told of no other one.

    A client asks any broker it knows, and it soon knows all; but for the configuration of a broker it must
    ask that one, and another one refuses. Whether it may be seen does not matter.
    """
    connection = Connection({**config, "bootstrap.servers": f"{node.host}:{node.port}"})
    resource = ConfigResource(ResourceType.BROKER, str(node.id))
    began = time.monotonic()
    with contextlib.closing(connection):
        asked = connection.admin().describe_configs([resource], request_timeout=_BROKER_S)
        try:
            asked[resource].result(_BROKER_S + 1.0)
        except KafkaException as error:
            code = error.args[0].code()
            if code < 0:  # librdkafka's own: there was no answer
                return BrokerAnswer(node=node, error=one_line(connection.failure("no answer", error)))
            return BrokerAnswer(
                node=node, seconds=time.monotonic() - began, another=code == KafkaError.INVALID_REQUEST
            )
    return BrokerAnswer(node=node, seconds=time.monotonic() - began)


def _describe(connection: Connection, names: Iterable[str]) -> tuple[TopicAnswer, ...]:
    names = sorted(names)
    if not names:
        return ()
    futures = connection.admin().describe_topics(
        TopicCollection(names), include_authorized_operations=True, request_timeout=FIRST_ANSWER_S
    )
    return tuple(_topic_answer(name, _result(futures[name])) for name in names)


def _topic_answer(name: str, description: Any) -> TopicAnswer:
    if description is None:
        return TopicAnswer(name=name)
    return TopicAnswer(name=name, info=described_topic(description), operations=_operations(description))


def _operations(description: Any) -> frozenset[str] | None:
    held = description.authorized_operations
    return None if held is None else frozenset(operation.name for operation in held)


def _result(future: "Future[Any]") -> Any:
    """Return an answer, None where there is none: no such thing, no right to see it, or too old a broker."""
    try:
        return future.result(FIRST_ANSWER_S + 1.0)
    except (KafkaException, TimeoutError):
        return None
