"""JSON of events, one flat object for each, and of their values: what commands print for programs. Pure."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import attrs

from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo, TopicPartition
from kafka_partition_events.metadata.events import (
    BrokerLoad,
    Clearance,
    Event,
    Rejection,
    Role,
    Suspicion,
    TopicRecreated,
)


def encode_event(event: Event) -> dict[str, Any]:
    """Return an event as a flat JSON object: its ``kind``, then its fields by their own names.

    ``observed_at`` is left out: a monotonic clock means nothing outside its process.
    """
    encoded: dict[str, Any] = {"kind": event.kind}
    for field in attrs.fields(type(event)):
        if field.name != "observed_at":
            encoded[field.name] = encode(getattr(event, field.name))
    if isinstance(event, TopicRecreated):
        encoded["inferred"] = event.inferred
    return encoded


def encode_time(moment: datetime) -> str:
    """Return an aware time as ISO-8601 UTC with microseconds: ``2024-01-31T12:00:00.000000Z``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def encode(value: object) -> Any:
    """Return a value as JSON has it. Topics are sorted by name, so equal clusters give equal text."""
    encoder = _ENCODERS.get(type(value))
    return value if encoder is None else encoder(value)


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    Cluster: lambda cluster: {
        "cluster_id": cluster.cluster_id,
        "generation": cluster.generation,
        "brokers": [attrs.asdict(node) for node in cluster.nodes.values()],
        "topics": [encode(cluster.by_topic[name]) for name in sorted(cluster.by_topic)],
    },
    TopicInfo: lambda topic: {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "partitions": encode(topic.partitions),
    },
    PartitionInfo: lambda info: {  # the topic's name stands around it
        "partition": info.partition,
        "leader": info.leader,
        "leader_epoch": info.leader_epoch,
        "replicas": list(info.replicas),
        "isr": list(info.isr),
    },
    **dict.fromkeys((Node, BrokerLoad), attrs.asdict),
    **dict.fromkeys((Rejection, Suspicion, Clearance, Role), str),
    TopicPartition: TopicPartition._asdict,
    datetime: encode_time,
    tuple: lambda values: [encode(value) for value in values],
}
