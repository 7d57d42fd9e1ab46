"""Values of snapshots and events as JSON, and back, by their types. Pure.

The field names are a promise: stored snapshots and recordings depend on them. What is wrong with JSON of
others is said with its place.
"""

import reprlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import attrs

from kafka_partition_events.errors import KafkaPartitionEventsError
from kafka_partition_events.events.moments import encode_time
from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo, TopicPartition
from kafka_partition_events.metadata.events import BrokerLoad, Clearance, Rejection, Role, Suspicion


class CodecError(KafkaPartitionEventsError, ValueError):
    """A document is none that this version can read; the message names the place and the cause."""


# -- out ---------------------------------------------------------------------------------------------------


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


# -- in ----------------------------------------------------------------------------------------------------

_WORDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}

_OPTIONAL_INT, _INTS = int | None, tuple[int, ...]


def object_in(value: object, path: str) -> Mapping[str, Any]:
    """Return a value that has to be a JSON object.

    Args:
        value: What was read.
        path: Where it stands; empty for the whole document.

    Raises:
        CodecError: it is none.
    """
    if not isinstance(value, Mapping):
        raise CodecError(f"{path or 'the document'} must be an object, not {_kind(value)}")
    return value


def field_of(item: Mapping[str, Any], path: str, name: str, kind: Any) -> Any:
    """Return a field of an object, of a kind; one that is missing is null.

    Raises:
        CodecError: it is of another kind, or missing where it may not be null.
    """
    place = f"{path}.{name}" if path else name
    if name not in item and not _optional(kind)[1]:
        raise CodecError(f"{place} is missing")
    return _decoded(kind, item.get(name), place, item)


def fields_of(cls: type, item: Mapping[str, Any], path: str) -> Any:
    """Return an attrs object whose fields are the item's, by their own names; others are passed over.

    Raises:
        CodecError: it is none.
    """
    fields: Any = attrs.fields(cls)
    given = [f for f in fields if f.name in item or f.default is attrs.NOTHING]
    return cls(**{f.name: field_of(item, path, f.name, f.type) for f in given})


def cluster_of(item: Mapping[str, Any], path: str = "") -> Cluster:
    """Return the cluster that a JSON object describes.

    Raises:
        CodecError: it describes none.
    """
    nodes = field_of(item, path, "brokers", tuple[Node, ...])
    topics = field_of(item, path, "topics", tuple[TopicInfo, ...])
    cluster = Cluster(
        nodes=nodes,
        by_topic=topics,
        cluster_id=field_of(item, path, "cluster_id", str | None),
        generation=field_of(item, path, "generation", int),
    )
    if len(cluster.nodes) != len(nodes) or len(cluster.by_topic) != len(topics):
        raise CodecError("a broker id or a topic name occurs twice")
    return cluster


@cache
def _optional(kind: Any) -> tuple[Any, bool]:
    """Return a kind without null, and whether it may be null."""
    if not isinstance(kind, UnionType):
        return kind, False
    (plain,) = set(get_args(kind)) - {NoneType}
    return plain, True


def _decoded(kind: Any, value: Any, path: str, around: Mapping[str, Any]) -> Any:
    plain, may_be_null = _optional(kind)
    if value is None and may_be_null:
        return None
    if plain in _WORDS:
        return _plain(plain, value, path, " or null" if may_be_null else "")
    if get_origin(plain) is tuple:
        return _items(get_args(plain)[0], _plain(list, value, path), path)
    if plain is datetime or issubclass(plain, StrEnum):
        text = _plain(str, value, path, " or null" if may_be_null else "")
        return _moment(text, path) if plain is datetime else _choice(plain, text, path)
    item, read = object_in(value, path), _OBJECTS.get(plain)
    return fields_of(plain, item, path) if read is None else read(item, path, around)


_OBJECTS: dict[type, Callable[[Mapping[str, Any], str, Mapping[str, Any]], Any]] = {
    Cluster: lambda item, path, _: cluster_of(item, path),
    TopicInfo: lambda item, path, _: _topic(item, path),
    PartitionInfo: lambda item, path, around: _partition(field_of(around, "", "topic", str), item, path),
    TopicPartition: lambda item, path, _: TopicPartition(
        field_of(item, path, "topic", str), field_of(item, path, "partition", int)
    ),
}
"""How objects are read that are more than their fields, given the object around them."""


def _plain(kind: type, value: Any, path: str, null: str = "") -> Any:
    numbers = int | float if kind is float else kind  # JSON does not tell 2 from 2.0
    # JSON's true is no number, whatever Python thinks.
    if not isinstance(value, numbers) or (isinstance(value, bool) and kind is not bool):
        raise CodecError(f"{path} must be {_WORDS[kind]}{null}, not {_kind(value)}")
    return value


def _items(kind: Any, values: list[Any], path: str) -> tuple[Any, ...]:
    if kind is not int:
        return tuple(_decoded(kind, value, f"{path}[{place}]", {}) for place, value in enumerate(values))
    if not all(type(value) is int for value in values):
        raise CodecError(f"{path} must be a list of whole numbers")
    return tuple(values)


def _topic(item: Mapping[str, Any], path: str) -> TopicInfo:
    name, found = field_of(item, path, "name", str), field_of(item, path, "partitions", list)
    places = ((f"{path}.partitions[{place}]", value) for place, value in enumerate(found))
    partitions = tuple(_partition(name, object_in(value, place), place) for place, value in places)
    if [p.partition for p in partitions] != list(range(len(partitions))):
        raise CodecError(f"{path}.partitions: ids are not 0 to {len(partitions) - 1} in order")
    return TopicInfo(name, partitions, field_of(item, path, "topic_id", str | None))


def _partition(topic: str, item: Mapping[str, Any], path: str) -> PartitionInfo:
    return PartitionInfo(
        topic=topic,
        partition=field_of(item, path, "partition", int),
        leader=field_of(item, path, "leader", _OPTIONAL_INT),
        replicas=field_of(item, path, "replicas", _INTS),
        isr=field_of(item, path, "isr", _INTS),
        leader_epoch=field_of(item, path, "leader_epoch", _OPTIONAL_INT),
    )


def _moment(text: str, path: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter in the years 1 and 9999
        pass
    raise CodecError(f"{path}: {reprlib.repr(text)} is not an ISO-8601 time with a zone")


def _choice(choices: type[StrEnum], text: str, path: str) -> StrEnum:
    if text not in set(choices):
        raise CodecError(f"{path} must be one of {', '.join(choices)}, not {reprlib.repr(text)}")
    return choices(text)


def _kind(value: object) -> str:
    return _WORDS.get(type(value), type(value).__name__) if type(value) is not bool else "bool"
