"""kafka-python's metadata response, translated. Pure."""

import uuid
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from kafka import errors

from kafka_partition_events.metadata.cluster import Node, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.source import Observation, Proof

_ZERO_ID = uuid.UUID(int=0)

_KAFKA_NAMES = {"INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION"}
"""Where kafka-python's name of an error differs from the one in Kafka's protocol."""

EPOCHS_SINCE = 9
"""Version of the Metadata request from which leader epochs are reliable (KAFKA-9212)."""

IDS_SINCE = 10
"""Version of the Metadata request from which topics have an id (KIP-516)."""


@frozen(kw_only=True)
class Answer:
    """One Metadata response, and who gave it."""

    nodes: tuple[Node, ...]
    topics: Mapping[str, TopicInfo]
    errors: Mapping[str, str]
    cluster_id: str | None
    answered_by: int | None
    proof: Proof

    def observation(self, requested: frozenset[str] | None, started_at: float) -> Observation:
        """Return what the poller wants to know."""
        return Observation(
            started_at=started_at,
            nodes=self.nodes,
            topics=self.topics,
            errors=self.errors,
            requested=requested,
            cluster_id=self.cluster_id,
            answered_by=self.answered_by,
            proof=self.proof,
        )


def translated(response: Any, node_id: int | str) -> Answer:
    """Translate a ``MetadataResponse`` of any version."""
    version: int = response.API_VERSION
    topics = {t.name: _topic(t, version) for t in response.topics if not t.error_code}
    return Answer(
        nodes=tuple(Node(b.node_id, b.host, b.port, b.rack or None) for b in response.brokers),
        topics=topics,
        errors={t.name: error_name(t.error_code) for t in response.topics if t.error_code},
        cluster_id=response.cluster_id or None,
        answered_by=node_id if isinstance(node_id, int) else None,
        proof=Proof(topic_ids=version >= IDS_SINCE, leader_epochs=version >= EPOCHS_SINCE, racks=True),
    )


def error_name(code: int) -> str:
    """Return Kafka's name of an error code."""
    name = str(errors.for_code(code).message or code)
    return _KAFKA_NAMES.get(name, name)


def _topic(topic: Any, version: int) -> TopicInfo:
    partitions = tuple(
        _partition(topic.name, p, version)
        for p in sorted(topic.partitions, key=lambda p: int(p.partition_index))
    )
    topic_id = topic.topic_id if version >= IDS_SINCE else None
    return TopicInfo(topic.name, partitions, None if topic_id in {None, _ZERO_ID} else str(topic_id))


def _partition(topic: str, partition: Any, version: int) -> PartitionInfo:
    leader, epoch = partition.leader_id, partition.leader_epoch
    return PartitionInfo(
        topic,
        partition.partition_index,
        None if leader < 0 else leader,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        epoch if version >= EPOCHS_SINCE and epoch is not None and epoch >= 0 else None,
    )
