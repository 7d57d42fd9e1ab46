"""A Metadata request of our own: version 12, which has leader epochs and topic ids, and creates no topic.

aiokafka asks with version 5 at most, drops what it does not need of the answer, and lets brokers create what
it asks for. But its protocol classes know flexible versions. Names are those of Kafka's protocol.
"""

import uuid
from collections import namedtuple
from collections.abc import Collection
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataResponse_v5
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

_NO_ID = uuid.UUID(int=0)
_TEXT = CompactString("utf-8")
_IDS = CompactArray(Int32)


class _Uuid(AbstractType[uuid.UUID]):  # type: ignore[misc]
    @classmethod
    def encode(cls, value: uuid.UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: Any) -> uuid.UUID:
        return uuid.UUID(bytes=data.read(16))


def _schema(**types: Any) -> Any:
    return Schema(*types.items(), ("tags", TaggedFields))


class _Rows(CompactArray):  # type: ignore[misc]
    """An array of structures, which are read by their fields' names."""

    def __init__(self, **types: Any) -> None:
        super().__init__(_schema(**types))
        self._row = namedtuple("_Row", [*types, "tags"])  # type: ignore[misc] # noqa: PYI024

    def decode(self, data: Any) -> list[Any]:
        return [self._row(*row) for row in super().decode(data) or ()]


class _ResponseV12(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = _schema(
        throttle_time_ms=Int32,
        brokers=_Rows(node_id=Int32, host=_TEXT, port=Int32, rack=_TEXT),
        cluster_id=_TEXT,
        controller_id=Int32,
        topics=_Rows(
            error_code=Int16,
            name=_TEXT,
            topic_id=_Uuid,
            is_internal=Boolean,
            partitions=_Rows(
                error_code=Int16, partition_index=Int32, leader_id=Int32, leader_epoch=Int32,
                replica_nodes=_IDS, isr_nodes=_IDS, offline_replicas=_IDS,
            ),
            authorized_operations=Int32,
        ),
    )  # fmt: skip


class _RequestV12(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 12
    RESPONSE_TYPE = _ResponseV12
    SCHEMA = _schema(
        topics=_Rows(topic_id=_Uuid, name=_TEXT),
        allow_auto_topic_creation=Boolean,
        include_topic_authorized_operations=Boolean,
    )


class AskMetadata(Request[_RequestV12]):  # type: ignore[misc]
    """Asks for topics, or all of them (None)."""

    API_KEY = 3

    def __init__(self, topics: Collection[str] | None) -> None:
        self._topics = topics

    def build(self, request_struct_class: Any) -> Any:
        """Return the request; aiokafka gives the class of the version that the broker knows."""
        topics: Any = self._topics
        if topics is not None:
            topics = [(_NO_ID, name, {}) for name in sorted(topics)]
        return request_struct_class(topics, False, False, {})


def in_their_words(answer: Any, topics: Collection[str]) -> Any:
    """Return those topics of an answer that have no error, as ``ClusterMetadata`` reads them."""
    theirs = [
        (t.error_code, t.name, t.is_internal, [
            (p[0], p[1], p.leader_id, p.replica_nodes, p.isr_nodes, p.offline_replicas) for p in t.partitions
        ])
        for t in answer.topics
        if not t.error_code and t.name in topics
    ]  # fmt: skip
    brokers = [(b.node_id, b.host, b.port, b.rack) for b in answer.brokers]
    return MetadataResponse_v5(0, brokers, answer.cluster_id, answer.controller_id, theirs)
