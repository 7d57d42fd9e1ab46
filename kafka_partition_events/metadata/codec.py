"""JSON of snapshots and events: a versioned format for files, one flat object for each event. Pure.

The field names are a promise: scripts and stored snapshots depend on them. A later version may add fields
under the same ``version``; whoever reads passes over what it does not know.
"""

import reprlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from types import UnionType
from typing import Any, Final, TypeVar

import attrs

from kafka_partition_events.errors import KafkaPartitionEventsError
from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo, TopicPartition
from kafka_partition_events.metadata.events import (
    EVENT_TYPES,
    BrokerLoad,
    Clearance,
    Event,
    Rejection,
    Role,
    Suspicion,
    TopicCounts,
    TopicRecreated,
)

FORMAT = "kpe.snapshot"
VERSION = 1

EVENT_KINDS: Final = {cls.kind: cls for cls in EVENT_TYPES}
"""The events that `decode_event` knows, by kind."""

Value = TypeVar("Value")
_OPTIONAL_INT = int | None
_OPTIONAL_TEXT = str | None


class CodecError(KafkaPartitionEventsError, ValueError):
    """A document is not a snapshot that this version can read; the message names the place and the cause."""


@attrs.frozen
class Snapshot:
    """A cluster as a file holds it.

    Attributes:
        cluster: What was seen.
        taken_at: When, as an aware UTC time; None where the file does not say.
    """

    cluster: Cluster
    taken_at: datetime | None = None


# -- out ---------------------------------------------------------------------------------------------------


def encode_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as a JSON document. Topics are sorted by name, so equal clusters give equal text."""
    cluster = snapshot.cluster
    return {
        "format": FORMAT,
        "version": VERSION,
        "taken_at": None if snapshot.taken_at is None else encode_time(snapshot.taken_at),
        **encode_cluster(cluster),
    }


def encode_cluster(cluster: Cluster) -> dict[str, Any]:
    """Return a cluster as a JSON object."""
    return {
        "cluster_id": cluster.cluster_id,
        "generation": cluster.generation,
        "brokers": [encode_node(node) for node in cluster.nodes.values()],
        "topics": [encode_topic(cluster.by_topic[name]) for name in sorted(cluster.by_topic)],
    }


def encode_node(node: Node) -> dict[str, Any]:
    """Return a broker as a JSON object."""
    return {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack}


def encode_topic(info: TopicInfo) -> dict[str, Any]:
    """Return a topic with its partitions as a JSON object."""
    return {
        "name": info.name,
        "topic_id": info.topic_id,
        "partitions": [encode_partition(p) for p in info.partitions],
    }


def encode_partition(info: PartitionInfo) -> dict[str, Any]:
    """Return a partition as a JSON object; the topic's name stands around it."""
    return {
        "partition": info.partition,
        "leader": info.leader,
        "leader_epoch": info.leader_epoch,
        "replicas": list(info.replicas),
        "isr": list(info.isr),
    }


def encode_time(moment: datetime) -> str:
    """Return an aware time as ISO-8601 UTC with microseconds: ``2024-01-31T12:00:00.000000Z``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def encode_event(event: Event) -> dict[str, Any]:
    """Return an event as a flat JSON object: its ``kind``, then its fields by their own names.

    ``observed_at`` is left out: a monotonic clock means nothing outside its process.
    """
    encoded: dict[str, Any] = {"kind": event.kind}
    for field in attrs.fields(type(event)):
        if field.name != "observed_at":
            encoded[field.name] = _plain(getattr(event, field.name))
    if isinstance(event, TopicRecreated):
        encoded["inferred"] = event.inferred
    return encoded


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    PartitionInfo: encode_partition,
    TopicInfo: encode_topic,
    Node: encode_node,
    Cluster: encode_cluster,
    datetime: encode_time,
    Rejection: str,
    Suspicion: str,
    Clearance: str,
    Role: str,
    BrokerLoad: attrs.asdict,
    TopicCounts: attrs.asdict,
    TopicPartition: TopicPartition._asdict,
    tuple: lambda values: [_plain(value) for value in values],
}


def _plain(value: object) -> Any:
    encode = _ENCODERS.get(type(value))
    return value if encode is None else encode(value)


# -- in ----------------------------------------------------------------------------------------------------


def decode_snapshot(document: object) -> Snapshot:
    """Return the snapshot that a JSON document describes.

    Raises:
        CodecError: the document is something else, or of a version that this library does not know.
    """
    top = _Reader(document, "")
    if top.get("format", _OPTIONAL_TEXT) != FORMAT:
        raise CodecError(f'not a snapshot: "format" is not "{FORMAT}"')
    version = top.need("version", int)
    if version != VERSION:
        raise CodecError(
            f"snapshot version {reprlib.repr(version)} is not known here, only {VERSION}; update this library"
        )
    return Snapshot(_decode_cluster(top), top.time("taken_at"))


def decode_event(document: object) -> Event:
    """Return the event that `encode_event` made this JSON object of; its ``observed_at`` is 0.

    Raises:
        CodecError: the object is something else, or its ``kind`` is not one of `EVENT_KINDS`.
    """
    item = _Reader(document, "")
    cls = EVENT_KINDS.get(kind := item.need("kind", str))
    if cls is None:
        raise CodecError(f"events of the kind {reprlib.repr(kind)} are not known here; update this library")
    return _decode_fields(cls, item)


def _decode_fields(cls: type[Value], item: "_Reader") -> Value:
    """Return an attrs object whose fields are the item's, by their own names."""
    fields: Any = attrs.fields(cls)  # type: ignore[arg-type]  # all that come here are attrs classes
    given = [f for f in fields if f.name in item or f.default is attrs.NOTHING]
    return cls(**{f.name: _FIELDS[f.type](item, f.name) for f in given})


def _decode_each(cls: type[Value], item: "_Reader", name: str) -> tuple[Value, ...]:
    return tuple(_decode_fields(cls, each) for each in item.items(name))


def _decode_cluster(item: "_Reader") -> Cluster:
    nodes = [_decode_node(each) for each in item.items("brokers")]
    topics = [_decode_topic(each) for each in item.items("topics")]
    cluster = Cluster(
        nodes=nodes,
        by_topic=topics,
        cluster_id=item.get("cluster_id", _OPTIONAL_TEXT),
        generation=item.need("generation", int),
    )
    if len(cluster.nodes) != len(nodes) or len(cluster.by_topic) != len(topics):
        raise CodecError("a broker id or a topic name occurs twice")
    return cluster


def _decode_node(item: "_Reader") -> Node:
    return Node(
        item.need("id", int), item.need("host", str), item.need("port", int), item.get("rack", _OPTIONAL_TEXT)
    )


def _decode_topic(item: "_Reader") -> TopicInfo:
    name = item.need("name", str)
    partitions = tuple(_decode_partition(name, p) for p in item.items("partitions"))
    if [p.partition for p in partitions] != list(range(len(partitions))):
        raise CodecError(f"{item.path}.partitions: ids are not 0 to {len(partitions) - 1} in order")
    return TopicInfo(name, partitions, item.get("topic_id", _OPTIONAL_TEXT))


def _decode_partition(topic: str, item: "_Reader") -> PartitionInfo:
    return PartitionInfo(
        topic=topic,
        partition=item.need("partition", int),
        leader=item.get("leader", _OPTIONAL_INT),
        replicas=item.ids("replicas"),
        isr=item.ids("isr"),
        leader_epoch=item.get("leader_epoch", _OPTIONAL_INT),
    )


def _decode_places(items: "list[_Reader]") -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(item.need("topic", str), item.need("partition", int)) for item in items)


class _Reader:
    """One JSON object and its place in the document, which every complaint names."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, Mapping):
            raise CodecError(f"{path or 'the document'} must be an object, not {_kind(value)}")
        self.path = path
        self._value: Mapping[str, object] = value

    def _path(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def get(self, name: str, kind: "type[Value] | UnionType") -> Any:
        """Return a field that may be absent."""
        value = self._value.get(name)
        # JSON's true is no number, whatever Python thinks.
        if isinstance(value, bool) or not isinstance(value, kind):
            raise CodecError(f"{self._path(name)} must be {_name(kind)}, not {_kind(value)}")
        return value

    def need(self, name: str, kind: type[Value]) -> Value:
        """Return a field that must be there."""
        if name not in self._value:
            raise CodecError(f"{self._path(name)} is missing")
        value: Value = self.get(name, kind)
        return value

    def __contains__(self, name: str) -> bool:
        return name in self._value

    def child(self, name: str) -> "_Reader":
        """Return an object."""
        return _Reader(self._value.get(name), self._path(name))

    def flag(self, name: str) -> bool:
        """Return true or false."""
        if not isinstance(value := self._value.get(name), bool):
            raise CodecError(f"{self._path(name)} must be true or false, not {_kind(value)}")
        return value

    def time(self, name: str, kind: "type[str] | UnionType" = _OPTIONAL_TEXT) -> datetime | None:
        """Return an aware time in UTC."""
        if (text := self.get(name, kind)) is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is not None:
                return moment.astimezone(UTC)
        except (ValueError, OverflowError):  # the latter in the years 1 and 9999
            pass
        raise CodecError(f"{self._path(name)}: {reprlib.repr(text)} is not an ISO-8601 time with a zone")

    def choice(self, name: str, choices: type[StrEnum]) -> StrEnum:
        """Return one of a set of words."""
        text = self.need(name, str)
        if text not in set(choices):
            raise CodecError(
                f"{self._path(name)} must be one of {', '.join(choices)}, not {reprlib.repr(text)}"
            )
        return choices(text)

    def items(self, name: str) -> "list[_Reader]":
        """Return the objects of a list."""
        found = self.need(name, list)
        return [_Reader(item, f"{self._path(name)}[{place}]") for place, item in enumerate(found)]

    def ids(self, name: str) -> tuple[int, ...]:
        """Return a list of broker ids."""
        found = self.need(name, list)
        if any(isinstance(item, bool) or not isinstance(item, int) for item in found):
            raise CodecError(f"{self._path(name)} must be a list of whole numbers")
        return tuple(found)


_JSON_NAMES = {
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _name(kind: "type[Any] | UnionType") -> str:
    if isinstance(kind, UnionType):
        return " or ".join(_name(choice) for choice in kind.__args__)
    return _JSON_NAMES[kind]


def _kind(value: object) -> str:
    return _JSON_NAMES.get(type(value), type(value).__name__)


def _scalar(kind: "type[Any] | UnionType") -> Callable[[_Reader, str], Any]:
    return lambda item, name: item.get(name, kind)


_FIELDS: dict[Any, Callable[[_Reader, str], Any]] = {
    **{kind: _scalar(kind) for kind in (int, str, _OPTIONAL_INT, _OPTIONAL_TEXT)},
    float: _scalar(int | float),  # JSON does not tell 2 from 2.0
    float | None: _scalar(int | float | None),
    bool: _Reader.flag,
    datetime: lambda item, name: item.time(name, str),
    datetime | None: _Reader.time,
    tuple[int, ...]: _Reader.ids,
    Rejection: lambda item, name: item.choice(name, Rejection),
    Suspicion: lambda item, name: item.choice(name, Suspicion),
    Clearance: lambda item, name: item.choice(name, Clearance),
    Role: lambda item, name: item.choice(name, Role),
    tuple[TopicPartition, ...]: lambda item, name: _decode_places(item.items(name)),
    Node: lambda item, name: _decode_node(item.child(name)),
    TopicInfo: lambda item, name: _decode_topic(item.child(name)),
    Cluster: lambda item, name: _decode_cluster(item.child(name)),
    PartitionInfo: lambda item, name: _decode_partition(item.need("topic", str), item.child(name)),
    tuple[BrokerLoad, ...]: lambda item, name: _decode_each(BrokerLoad, item, name),
    tuple[TopicCounts, ...]: lambda item, name: _decode_each(TopicCounts, item, name),
}
"""How the fields of events are read, by their types."""
