"""confluent-kafka's metadata answers, translated. Pure."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.rights import lacking
from kafka_partition_events.metadata.cluster import Node, PartitionInfo, TopicInfo

_ZERO_ID = uuid.UUID(int=0)
_HALF = (1 << 64) - 1

_KAFKA_NAMES = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "UNKNOWN_TOPIC_OR_PARTITION",
    KafkaError.TOPIC_EXCEPTION: "INVALID_TOPIC_EXCEPTION",
    KafkaError._UNKNOWN_TOPIC: "UNKNOWN_TOPIC_OR_PARTITION",  # noqa: SLF001 - librdkafka's public name
}
"""Where librdkafka's name of an error differs from the one in Kafka's protocol."""

ELECTING = frozenset({
    "NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE", "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
})  # fmt: skip
"""Errors, by Kafka's names, that pass as soon as a partition's new leader is known."""


def error_name(error: KafkaError) -> str:
    """Return Kafka's name of an error."""
    return _KAFKA_NAMES.get(error.code(), error.name())


def error_text(error: KafkaError, config: Mapping[str, Any], *needed: Right) -> str:
    """Return what an error says; where brokers refuse, who lacks which of the rights that it takes."""
    return lacking(error_name(error), needed, config) or error.str()


def described_topic(description: Any) -> TopicInfo:
    """Translate an ``AdminClient.describe_topics`` answer."""

    def ids(nodes: Iterable[Any]) -> tuple[int, ...]:
        return tuple(node.id for node in nodes)

    name = description.name
    partitions = tuple(
        PartitionInfo(name, p.id, None if p.leader is None else p.leader.id, ids(p.replicas), ids(p.isr))
        for p in sorted(description.partitions, key=lambda p: p.id)
    )
    return TopicInfo(name, partitions, _topic_id(description.topic_id))


def listed_topic(metadata: Any) -> TopicInfo:
    """Translate a topic of a ``list_topics`` answer."""
    name = metadata.topic
    partitions = tuple(
        PartitionInfo(name, p.id, None if p.leader < 0 else p.leader, tuple(p.replicas), tuple(p.isrs))
        for p in sorted(metadata.partitions.values(), key=lambda p: p.id)
    )
    return TopicInfo(name, partitions)


def nodes_of(brokers: Iterable[Any]) -> tuple[Node, ...]:
    """Translate brokers; a ``list_topics`` answer has no racks."""
    return tuple(Node(it.id, it.host, it.port, getattr(it, "rack", None) or None) for it in brokers)


def _topic_id(described: Any) -> str | None:
    if described is None:
        return None
    high, low = described.get_most_significant_bits(), described.get_least_significant_bits()
    found = uuid.UUID(int=(high & _HALF) << 64 | (low & _HALF))
    return None if found == _ZERO_ID else str(found)
