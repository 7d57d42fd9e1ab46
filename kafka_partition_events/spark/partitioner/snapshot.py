"""One look at the cluster for one batch of rows."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.metadata.cluster import EMPTY, Cluster, Node, TopicInfo
from kafka_partition_events.metadata.reconcile import Memory, reconcile
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.spark.errors import SparkJobError, UnknownPartitionError

ClusterSource = Cluster | str | Mapping[str, Any] | Callable[[], Cluster]
"""Where metadata comes from: a snapshot; the brokers' addresses, or librdkafka settings, to ask a cluster; or
a function that returns a snapshot, ``lambda: poller.cluster`` for instance."""

_FETCH_S: Final = 10.0
_FEW: Final = 8  # up to so many topics are asked for one by one
_AT_ONCE: Final = 32


@frozen(kw_only=True)
class Snapshot:
    """What was found.

    Attributes:
        cluster: Brokers, topics, leaders.
        unreachable: Leading brokers that did not accept a connection.
    """

    cluster: Cluster
    unreachable: frozenset[int] = frozenset()


def take_snapshot(
    source: ClusterSource, topics: Iterable[str] | None = None, *, reach: float | None = None
) -> Snapshot:
    """Look at the cluster once. Never creates a topic. Takes at most 10 s, and ``reach``.

    Args:
        source: Where metadata comes from.
        topics: The topics of interest; None: all.
        reach: Seconds within which a leader must accept a connection, where the cluster is asked; None: no
            matter.

    Raises:
        MetadataFetchError: no broker answers, or there is no snapshot yet.
        ConfigurationError: librdkafka refuses a setting, or this is no source.
        UnknownPartitionError: the cluster does not show one of the topics.
        SparkJobError: confluent-kafka is not installed.
    """
    if isinstance(source, Cluster):
        return Snapshot(cluster=source)
    if callable(source):
        cluster = source()
        if cluster.generation == 0 and not cluster.by_topic:
            raise MetadataFetchError("there is no metadata snapshot yet; let the poller poll first")
        return Snapshot(cluster=cluster)
    if isinstance(source, str):
        source = {"bootstrap.servers": source}
    if not isinstance(source, Mapping):
        raise ConfigurationError(
            "cluster must be a Cluster, host:port addresses, librdkafka settings or a function that returns "
            f"a Cluster, not a {type(source).__name__}"
        )
    cluster = _fetch(source, None if topics is None else frozenset(topics))
    return Snapshot(cluster=cluster, unreachable=_unreachable(cluster, reach))


def _fetch(config: Mapping[str, Any], topics: frozenset[str] | None) -> Cluster:
    try:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra

        from kafka_partition_events.clients.confluent.answers import (  # noqa: PLC0415
            listed_nodes,
            listed_topic,
        )
        from kafka_partition_events.clients.confluent.connection import Connection  # noqa: PLC0415
    except ImportError as error:
        raise SparkJobError(
            "asking the cluster needs confluent-kafka on the driver: pip install "
            "'kafka-partition-events[confluent]', or give a Cluster"
        ) from error
    # Listing is enough here, and any broker answers it; ids and racks, which describing tells, are not used.
    connection = Connection(config)
    began = time.monotonic()
    listed: dict[str, Any] = {}
    names: list[str | None] = [None]
    if topics is not None and 0 < len(topics) <= _FEW:
        names = [*sorted(topics)]
    with contextlib.closing(connection):
        try:
            for name in names:
                left = max(0.05, began + _FETCH_S - time.monotonic())
                answer = connection.admin().list_topics(name, timeout=left)
                listed.update(answer.topics)
        except KafkaException as error:
            raise connection.failure("the cluster does not answer", error) from error
    for name in sorted(topics or ()):
        if name not in listed or listed[name].error is not None:
            reason = listed[name].error.str() if name in listed else "it does not list it"
            raise UnknownPartitionError(f"the cluster shows no topic {name!r}: {reason}")
    found: dict[str, TopicInfo] = {
        name: listed_topic(metadata)
        for name, metadata in listed.items()
        if metadata.error is None and (topics is None or name in topics)
    }
    observation = Observation(
        started_at=began,
        nodes=listed_nodes(answer.brokers),
        topics=found,
        requested=topics,
        cluster_id=answer.cluster_id,
    )
    return reconcile(EMPTY, observation, Memory(), time.monotonic()).cluster


def _unreachable(cluster: Cluster, reach: float | None) -> frozenset[int]:
    """Return the leaders that do not accept a connection; none if nobody does, for then it is the driver."""
    leaders = {p.leader for info in cluster.by_topic.values() for p in info.partitions}
    nodes = [node for node in cluster.nodes.values() if node.id in leaders]
    if reach is None or not nodes:
        return frozenset()
    limit = reach
    with ThreadPoolExecutor(min(_AT_ONCE, len(nodes)), thread_name_prefix="kpe-reach") as pool:
        answers = pool.map(lambda node: _accepts(node, limit), nodes)
        silent = frozenset(node.id for node, good in zip(nodes, answers, strict=True) if not good)
    return silent if len(silent) < len(nodes) else frozenset()


def _accepts(node: Node, limit: float) -> bool:
    try:
        socket.create_connection((node.host, node.port), limit).close()
    except OSError:
        return False
    return True
