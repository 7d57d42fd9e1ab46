"""Asks a cluster what `kpe doctor` wants to know. Nothing is written.

Kafka's protocol tells a broker's time in one answer only: DescribeQuorum (KIP-836, Kafka 3.3) gives, for the
leader of the metadata quorum itself, the moment at which it answers. librdkafka does not speak it,
kafka-python does. All else that carries a broker's time takes a record to be written first.
"""

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.cli.doctor.findings import (
    Answers,
    BrokerAnswer,
    GroupAnswer,
    Needs,
    QuorumAnswer,
    TopicAnswer,
)
from kafka_partition_events.cli.services.protocols import FIRST_ANSWER_S
from kafka_partition_events.clients.confluent.answers import described_topic, listed_nodes
from kafka_partition_events.clients.confluent.connection import COORDINATED_S, Connection
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.cluster import Node

_BROKER_S = 5.0
_AT_ONCE = 16
_TOPICS_ASKED = 3  # so many settle whether topics have ids


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
        described = _describe(connection, visible[:_TOPICS_ASKED])
        election, changes = needs.election, needs.changes_topic
        return Answers(
            brokers=brokers,
            topics=len(visible),
            describes=_describes_cluster(connection),
            topic_ids=all(answer.info and answer.info.topic_id for answer in described)
            if described
            else None,
            event_topics=_describe(connection, needs.event_topics),
            election_topic=_describe(connection, [election[0]])[0] if election else None,
            shared_topic=_describe(connection, [needs.shared_topic])[0] if needs.shared_topic else None,
            election_group=_group(connection, election[1]) if election else None,
            changes_topic=_describe(connection, [changes])[0] if changes else None,
            quorum=ask_quorum(config, timeout=FIRST_ANSWER_S),
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


def _describes_cluster(connection: Connection) -> bool:
    future = connection.admin().describe_cluster(request_timeout=FIRST_ANSWER_S)
    return _result(future) is not None


def _describe(connection: Connection, names: Iterable[str]) -> tuple[TopicAnswer, ...]:
    names = sorted(names)
    if not names:
        return ()
    futures = connection.admin().describe_topics(
        TopicCollection(names), include_authorized_operations=True, request_timeout=FIRST_ANSWER_S
    )
    return tuple(_topic_answer(connection, name, _result(futures[name])) for name in names)


def _have_ids(described: Sequence[TopicAnswer]) -> bool | None:
    infos = [answer.info for answer in described if answer.info is not None]
    return all(info.topic_id is not None for info in infos) if infos else None


def _topic_answer(connection: Connection, name: str, description: Any) -> TopicAnswer:
    if description is None:
        return TopicAnswer(name=name)
    resource = ConfigResource(ResourceType.TOPIC, name)
    config = _result(
        connection.admin().describe_configs([resource], request_timeout=FIRST_ANSWER_S)[resource]
    )
    return TopicAnswer(
        name=name,
        info=described_topic(description),
        operations=_operations(description),
        config=config and {entry.name: entry.value for entry in config.values()},
    )


def _group(connection: Connection, name: str) -> GroupAnswer:
    futures = connection.admin().describe_consumer_groups(
        [name], include_authorized_operations=True, request_timeout=COORDINATED_S
    )
    try:
        return GroupAnswer(name=name, operations=_operations(futures[name].result(FIRST_ANSWER_S + 1.0)))
    except (KafkaException, TimeoutError) as error:
        refusal = error.args[0] if error.args else None
        refused = isinstance(refusal, KafkaError) and refusal.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        return GroupAnswer(name=name, operations=frozenset() if refused else None)


def _operations(description: Any) -> frozenset[str] | None:
    held = description.authorized_operations
    return None if held is None else frozenset(operation.name for operation in held)


def _result(future: "Future[Any]") -> Any:
    """Return an answer, None where there is none: no such thing, no right to see it, or too old a broker."""
    try:
        return future.result(FIRST_ANSWER_S + 1.0)
    except (KafkaException, TimeoutError):
        return None


def ask_quorum(config: Mapping[str, str], *, timeout: float) -> QuorumAnswer | str:
    """Return how far the active controller's clock is ahead of this host's; else why that is not known.

    Args:
        config: How confluent-kafka connects.
        timeout: Seconds for one request.
    """
    try:
        from kafka import KafkaAdminClient  # noqa: PLC0415 - an extra
        from kafka.errors import KafkaError  # noqa: PLC0415

        from kafka_partition_events.clients.kafka_python.properties import (  # noqa: PLC0415
            kafka_python_settings,
        )
    except ImportError:
        return (
            "only kafka-python can ask for a broker's time, and it is not installed: "
            'pip install "kafka-partition-events[kafka-python]"'
        )
    limit_ms = int(timeout * 1000)
    try:
        settings = kafka_python_settings(config)
    except ConfigurationError as error:
        return f"only kafka-python can ask for a broker's time, and it can't connect: {error}"
    known = {name: value for name, value in settings.items() if name in KafkaAdminClient.DEFAULT_CONFIG}
    try:
        client = KafkaAdminClient(
            **{**known, "request_timeout_ms": limit_ms, "bootstrap_timeout_ms": limit_ms}
        )
        try:
            began = time.time()
            quorum = client.describe_metadata_quorum()
            ended = time.time()
        finally:
            client.close()
    except (KafkaError, OSError, ValueError) as error:
        return f"no answer about the metadata quorum: {type(error).__name__}"
    stamp = _leader_time(quorum)
    if stamp is None:
        return "the metadata quorum does not report its leader's time (Kafka 3.3 and newer do)"
    return QuorumAnswer(ahead=stamp - (began + ended) / 2, uncertainty=(ended - began) / 2)


def _leader_time(quorum: Mapping[str, Any]) -> float | None:
    """Return the leader's own time stamp in seconds."""
    for topic in quorum["topics"]:
        for partition in topic["partitions"]:
            for voter in partition["current_voters"]:
                stamp: int = voter.get("last_fetch_timestamp", -1)
                if voter["replica_id"] == partition["leader_id"] and stamp > 0:
                    return stamp / 1000
    return None
