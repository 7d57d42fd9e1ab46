"""Translates a ``MetadataResponse`` of any version, read by the protocol's names."""

import uuid
from collections.abc import Callable
from typing import Any, Final

from kafka_partition_events.metadata.cluster import Node, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.source import Observation

# Versions of the Metadata request from which leader epochs are reliable (KAFKA-9212), and topics have an id
# (KIP-516).
_EPOCHS_SINCE: Final = 9
_IDS_SINCE: Final = 10
_ZERO_ID: Final = uuid.UUID(int=0)
_KAFKA_NAMES: Final = {"INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION"}  # the Python clients' names, and Kafka's

ErrorOf = Callable[[int], Any]
"""``errors.for_code`` of kafka-python, and of aiokafka, which began as a copy."""


def observation(
    response: Any,
    node_id: int | str,
    requested: frozenset[str] | None,
    started_at: float,
    error_of: ErrorOf,
) -> Observation:
    """Return what a node has answered, to a question for those topics (None: all)."""
    version: int = response.API_VERSION
    return Observation(
        started_at=started_at,
        nodes=tuple(Node(b.node_id, b.host, b.port, b.rack or None) for b in response.brokers),
        topics={t.name: _topic(t, version) for t in response.topics if not t.error_code},
        errors={t.name: error_name(error_of, t.error_code) for t in response.topics if t.error_code},
        requested=requested,
        cluster_id=response.cluster_id or None,
        answered_by=node_id if isinstance(node_id, int) else None,
        leader_epochs=version >= _EPOCHS_SINCE,
    )


def error_name(error_of: ErrorOf, code: int) -> str:
    """Return Kafka's name of an error code."""
    name = str(error_of(code).message or code)
    return _KAFKA_NAMES.get(name, name)


def _topic(topic: Any, version: int) -> TopicInfo:
    partitions = sorted(topic.partitions, key=lambda p: int(p.partition_index))
    topic_id = topic.topic_id if version >= _IDS_SINCE else None
    return TopicInfo(
        topic.name,
        tuple(_partition(topic.name, partition, version) for partition in partitions),
        None if topic_id in {None, _ZERO_ID} else str(topic_id),
    )


def _partition(topic: str, partition: Any, version: int) -> PartitionInfo:
    leader, epoch = partition.leader_id, partition.leader_epoch
    return PartitionInfo(
        topic,
        partition.partition_index,
        None if leader < 0 else leader,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        epoch if version >= _EPOCHS_SINCE and epoch is not None and epoch >= 0 else None,
    )
