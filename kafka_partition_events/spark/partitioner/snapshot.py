"""The metadata of the topic that is written, read once for a batch of rows."""

import contextlib
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.cluster import EMPTY, Cluster, Node
from kafka_partition_events.metadata.reconcile import Memory, reconcile
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.routing.table import Avoidance, compile_route
from kafka_partition_events.spark.errors import SparkJobError, UnknownPartitionError

ClusterSource = Cluster | str | Mapping[str, Any]
"""Where metadata comes from: a snapshot; addresses of brokers, or librdkafka settings, to ask a cluster."""

_FETCH_S: Final = 10.0
_REACH_S: Final = 1.0
"""Within which a leader must accept a connection: metadata names a dead one while its session lasts."""
_AT_ONCE: Final = 32


@frozen(kw_only=True)
class TopicTarget:
    """What choosing needs to know of a topic.

    Attributes:
        topic: Its name.
        count: How many partitions it has.
        usable: Where rows without a key go, ascending.
        offline: Partitions without a leader, ascending.
        avoided: Partitions that rows without a key would go to if their broker could be reached.
        cluster: The snapshot that says so.
    """

    topic: str
    count: int
    usable: tuple[int, ...]
    offline: tuple[int, ...]
    avoided: tuple[int, ...]
    cluster: Cluster


def settings_of(source: ClusterSource) -> Mapping[str, Any] | None:
    """Return how to connect to the cluster; None: the source is a snapshot.

    Raises:
        ConfigurationError: this is no source.
    """
    if isinstance(source, Cluster):
        return None
    if isinstance(source, str):
        return {"bootstrap.servers": source}
    if isinstance(source, Mapping):
        return source
    raise ConfigurationError(
        "cluster must be a Cluster, host:port addresses or librdkafka settings, not a "
        f"{type(source).__name__}"
    )


def examine(source: ClusterSource, topic: str) -> TopicTarget:
    """Examine a topic once. Never creates it. Takes some milliseconds, and at most 11 s.

    Raises:
        MetadataFetchError: no broker answers.
        ConfigurationError: librdkafka refuses a setting, or this is no source.
        UnknownPartitionError: there is no such topic.
        SparkJobError: confluent-kafka is not installed.
    """
    config = settings_of(source)
    cluster = source if isinstance(source, Cluster) else _fetch(config or {}, topic)
    info = cluster.by_topic.get(topic)
    if info is None or not info.partitions:
        raise UnknownPartitionError(f"the metadata snapshot has no topic {topic!r}")
    silent = frozenset[int]() if config is None else _unreachable(cluster)
    route = compile_route(info).avoiding(Avoidance(leaders=silent, down=silent))
    return TopicTarget(
        topic=topic,
        count=route.count,
        usable=route.usable,
        offline=tuple(p.partition for p in info.partitions if not p.online),
        avoided=route.avoided,
        cluster=cluster,
    )


def _fetch(config: Mapping[str, Any], topic: str) -> Cluster:
    try:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra

        from kafka_partition_events.clients.confluent.answers import listed_topic, nodes_of  # noqa: PLC0415
        from kafka_partition_events.clients.confluent.connection import Connection  # noqa: PLC0415
    except ImportError as error:
        raise SparkJobError(
            "asking the cluster needs confluent-kafka on the driver: pip install "
            "'kafka-partition-events[confluent]', or give a Cluster"
        ) from error
    # Listing is enough here, and any broker answers it; ids and racks, which describing adds, are not used.
    connection = Connection(config)
    with contextlib.closing(connection):
        try:
            answer = connection.admin().list_topics(topic, timeout=_FETCH_S)
        except KafkaException as error:
            raise connection.failure("the cluster does not answer", error) from error
    listed = answer.topics[topic]
    if listed.error is not None:
        raise UnknownPartitionError(f"the cluster shows no topic {topic!r}: {listed.error.str()}")
    observation = Observation(
        nodes=nodes_of(answer.brokers.values()),
        topics={topic: listed_topic(listed)},
        requested=frozenset({topic}),
        cluster_id=answer.cluster_id,
    )
    return reconcile(EMPTY, observation, Memory(), time.monotonic()).cluster


def _unreachable(cluster: Cluster) -> frozenset[int]:
    """Return the leaders that do not accept a connection; none if none does, for then it is the driver."""
    leaders = {p.leader for info in cluster.by_topic.values() for p in info.partitions}
    nodes = [node for node in cluster.nodes.values() if node.id in leaders]
    if not nodes:
        return frozenset()
    with ThreadPoolExecutor(min(_AT_ONCE, len(nodes)), thread_name_prefix="kpe-reach") as pool:
        answers = pool.map(_accepts, nodes)
        silent = frozenset(node.id for node, good in zip(nodes, answers, strict=True) if not good)
    return silent if len(silent) < len(nodes) else frozenset()


def _accepts(node: Node) -> bool:
    try:
        socket.create_connection((node.host, node.port), _REACH_S).close()
    except OSError:
        return False
    return True
