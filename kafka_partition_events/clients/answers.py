"""A metadata answer by either client in Python: which broker gives it, and what it says."""

import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final, TypeVar

from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import Node, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.source import Observation

_LEAST_TRY_S: Final = 0.2
_ZERO_ID: Final = uuid.UUID(int=0)
_KAFKA_NAMES: Final = {"INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION"}  # the Python clients' names, and Kafka's

N = TypeVar("N", bound=int | str)
ErrorOf = Callable[[int], Any]
"""``errors.for_code`` of kafka-python, and of aiokafka, which began as a copy."""


class NoAnswerError(Exception):
    """A broker did not answer, and why."""


async def first_answer(
    nodes: Iterable[N],
    ask: Callable[[N, float], Awaitable[Any]],
    deadline: float,
    complaints: MutableMapping[N, str],
) -> tuple[N, Any]:
    """Ask ``nodes`` one after the other, each with half of the time that is left: one may be frozen.

    ``ask`` raises `NoAnswerError` where there is none within so many seconds, before the monotonic
    ``deadline``. Why each did not answer is kept in ``complaints``, which an answer empties.

    Raises:
        MetadataFetchError: none has answered, and why.
    """
    asked = []
    for node in nodes:
        if (left := deadline - time.monotonic()) <= 0:
            break
        asked.append(node)
        try:
            response = await ask(node, min(left, max(left / 2, _LEAST_TRY_S)))
        except NoAnswerError as error:
            complaints[node] = str(error)
        else:
            complaints.clear()
            return node, response
    reasons = "; ".join(f"{node}: {complaints[node]}" for node in asked)
    raise MetadataFetchError(f"no broker answers ({reasons or 'none is known'})")


def grown(cluster: Any, response: Any) -> list[str]:
    """Return the topics that a client knows with fewer partitions than an answer has."""
    counts = {t.name: len(t.partitions) for t in response.topics if not t.error_code}
    known = {name: cluster.partitions_for_topic(name) for name in counts}
    return [name for name, ids in known.items() if ids is not None and len(ids) < counts[name]]


def observation(
    response: Any, node_id: int | str, requested: frozenset[str] | None, error_of: ErrorOf
) -> Observation:
    """Return what a node has answered, to a question for those topics (None: all)."""
    return Observation(
        nodes=tuple(Node(b.node_id, b.host, b.port, b.rack or None) for b in response.brokers),
        topics={t.name: _topic(t) for t in response.topics if not t.error_code},
        errors={t.name: error_name(error_of, t.error_code) for t in response.topics if t.error_code},
        requested=requested,
        cluster_id=response.cluster_id or None,
        answered_by=node_id if isinstance(node_id, int) else None,
    )


def error_name(error_of: ErrorOf, code: int) -> str:
    """Return Kafka's name of an error code."""
    name = str(error_of(code).message or code)
    return _KAFKA_NAMES.get(name, name)


def _topic(topic: Any) -> TopicInfo:
    partitions = sorted(topic.partitions, key=lambda p: int(p.partition_index))
    return TopicInfo(
        topic.name,
        tuple(_partition(topic.name, partition) for partition in partitions),
        None if topic.topic_id == _ZERO_ID else str(topic.topic_id),
    )


def _partition(topic: str, partition: Any) -> PartitionInfo:
    leader, epoch = partition.leader_id, partition.leader_epoch
    return PartitionInfo(
        topic,
        partition.partition_index,
        None if leader < 0 else leader,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        epoch if epoch >= 0 else None,
    )
