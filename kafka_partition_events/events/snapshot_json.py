"""JSON of snapshots: a versioned format for files. Pure.

A later version may add fields under the same ``version``; a reader passes over what it does not know. What is
wrong with a file of others is said with its place.
"""

import reprlib
from collections.abc import Mapping
from datetime import UTC, datetime
from types import NoneType
from typing import Any, Final

import attrs

from kafka_partition_events.errors import KafkaPartitionEventsError
from kafka_partition_events.events.event_json import encode
from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo

FORMAT = "kpe.snapshot"
VERSION = 1


class CodecError(KafkaPartitionEventsError, ValueError):
    """A document is none that this version can read; the message names the place and the cause."""


@attrs.frozen
class Snapshot:
    """A cluster as a file holds it.

    Attributes:
        cluster: What was seen.
        taken_at: When, as an aware UTC time; None where the file does not say.
    """

    cluster: Cluster
    taken_at: datetime | None = None


def encode_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as a JSON document. Topics are sorted by name, so equal clusters give equal text."""
    head = {"format": FORMAT, "version": VERSION, "taken_at": encode(snapshot.taken_at)}
    return {**head, **encode(snapshot.cluster)}


def decode_snapshot(document: object) -> Snapshot:
    """Return the snapshot that a JSON document describes.

    Raises:
        CodecError: the document is something else, or of a version that this library does not know.
    """
    top = _object(document, "the document")
    if top.get("format") != FORMAT:
        raise CodecError(f'not a snapshot: "format" is not "{FORMAT}"')
    version = _field(top, "", "version", int)
    if version != VERSION:
        raise CodecError(
            f"snapshot version {reprlib.repr(version)} is not known here, only {VERSION}; update this library"
        )
    nodes = [_node(item, place) for place, item in _items(top, "", "brokers")]
    topics = [_topic(item, place) for place, item in _items(top, "", "topics")]
    cluster = Cluster(
        nodes=nodes,
        by_topic=topics,
        cluster_id=_field(top, "", "cluster_id", str | None),
        generation=_field(top, "", "generation", int),
    )
    if len(cluster.nodes) != len(nodes) or len(cluster.by_topic) != len(topics):
        raise CodecError("a broker id or a topic name occurs twice")
    return Snapshot(cluster, _moment(_field(top, "", "taken_at", str | None)))


def _node(item: Mapping[str, Any], path: str) -> Node:
    kinds = {"id": int, "host": str, "port": int, "rack": str | None}
    return Node(**{name: _field(item, path, name, kind) for name, kind in kinds.items()})


def _topic(item: Mapping[str, Any], path: str) -> TopicInfo:
    name = _field(item, path, "name", str)
    found = _items(item, path, "partitions")
    partitions = tuple(_partition(name, each, place) for place, each in found)
    if [p.partition for p in partitions] != list(range(len(partitions))):
        raise CodecError(f"{path}.partitions: ids are not 0 to {len(partitions) - 1} in order")
    return TopicInfo(name, partitions, _field(item, path, "topic_id", str | None))


def _partition(topic: str, item: Mapping[str, Any], path: str) -> PartitionInfo:
    return PartitionInfo(
        topic=topic,
        partition=_field(item, path, "partition", int),
        leader=_field(item, path, "leader", int | None),
        replicas=_ints(item, path, "replicas"),
        isr=_ints(item, path, "isr"),
        leader_epoch=_field(item, path, "leader_epoch", int | None),
    )


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter in the years 1 and 9999
        pass
    raise CodecError(f"taken_at: {reprlib.repr(text)} is not an ISO-8601 time with a zone")


_WORDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    int | None: "a whole number or null",
    float: "a number",
    str: "text",
    str | None: "text or null",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}


def _field(item: Mapping[str, Any], path: str, name: str, kind: Any) -> Any:
    """Return a field of an object, of a kind; one that is missing is null, where it may be."""
    place = f"{path}.{name}" if path else name
    value = item.get(name)
    if isinstance(value, kind) and not isinstance(value, bool):  # to Python that is a number
        return value
    if name not in item:
        raise CodecError(f"{place} is missing")
    raise CodecError(f"{place} must be {_WORDS[kind]}, not {_kind_of(value)}")


def _items(item: Mapping[str, Any], path: str, name: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the objects of a list, each with its place."""
    found = _field(item, path, name, list)
    places = (f"{path}.{name}[{n}]" if path else f"{name}[{n}]" for n in range(len(found)))
    return [(place, _object(each, place)) for place, each in zip(places, found, strict=True)]


def _ints(item: Mapping[str, Any], path: str, name: str) -> tuple[int, ...]:
    values = _field(item, path, name, list)
    if not all(type(value) is int for value in values):
        raise CodecError(f"{path}.{name} must be a list of whole numbers")
    return tuple(values)


def _object(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise CodecError(f"{place} must be an object, not {_kind_of(value)}")
    return value


def _kind_of(value: object) -> str:
    return _WORDS.get(type(value), type(value).__name__)
