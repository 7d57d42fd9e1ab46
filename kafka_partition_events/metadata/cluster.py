"""One immutable snapshot of a Kafka cluster.

Every value here is frozen and safe to share between threads. A snapshot answers what a partitioner reads of
kafka-python's ``ClusterMetadata``, so that one partitioner works with either client.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import NamedTuple

from attrs import field, frozen

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that Kafka calls internal (``Topic.isInternal`` in Apache Kafka): known by name alone."""

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


def is_topic_name(name: object) -> bool:
    """Return whether Kafka allows a topic of this name (``Topic.validate`` in Apache Kafka)."""
    return isinstance(name, str) and _TOPIC_NAME.fullmatch(name) is not None and name not in {".", ".."}


class TopicPartition(NamedTuple):
    """A topic name and a partition id; equal to (and hashes as) kafka-python's named tuple."""

    topic: str
    partition: int


@frozen
class Node:
    """A broker that the cluster lists as alive."""

    id: int
    host: str
    port: int
    rack: str | None = None


@frozen
class PartitionInfo:
    """What a snapshot knows about one partition.

    ``leader`` is None when the partition is *offline*: Kafka names no leader, or a broker that the same
    answer does not list (as in Java: ``leader != null`` after the node look-up). ``leader_epoch`` is None
    when the source cannot prove it.
    """

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    leader_epoch: int | None = None

    @property
    def online(self) -> bool:
        """Whether some listed broker leads the partition. An empty ISR is something else."""
        return self.leader is not None

    @cached_property
    def followers(self) -> frozenset[int]:
        """The in-sync replicas besides the leader: with ``acks=all`` a write waits for each of them."""
        return frozenset(self.isr) - {self.leader}

    @property
    def tp(self) -> TopicPartition:
        """The partition's name."""
        return TopicPartition(self.topic, self.partition)


@frozen
class TopicInfo:
    """A topic and its partitions, ``partitions[i].partition == i``.

    ``topic_id`` (KIP-516) is the canonical UUID text, None where the source or the brokers (before 2.8) have
    none; it distinguishes a re-created topic from a grown one.
    """

    name: str
    partitions: tuple[PartitionInfo, ...]
    topic_id: str | None = None

    @property
    def internal(self) -> bool:
        """Whether Kafka itself owns the topic (``__consumer_offsets`` and its like)."""
        return self.name in INTERNAL_TOPICS


def _nodes_by_id(nodes: Mapping[int, Node] | Iterable[Node]) -> Mapping[int, Node]:
    values = nodes.values() if isinstance(nodes, Mapping) else nodes
    return MappingProxyType({node.id: node for node in sorted(values, key=lambda node: node.id)})


def _topics_by_name(topics: Mapping[str, TopicInfo] | Iterable[TopicInfo]) -> Mapping[str, TopicInfo]:
    values = topics.values() if isinstance(topics, Mapping) else topics
    return MappingProxyType({info.name: info for info in values})


@frozen(kw_only=True)
class Cluster:
    """One accepted snapshot.

    Two snapshots are equal when they say the same about brokers and topics, whichever cluster it is, and
    whichever *generation* (a count of accepted changes, from 1; 0 is `EMPTY`). Topics that did not change
    from one generation to the next keep their `TopicInfo` object, so an identity test finds the changed ones.
    """

    nodes: Mapping[int, Node] = field(default=MappingProxyType({}), converter=_nodes_by_id)
    by_topic: Mapping[str, TopicInfo] = field(default=MappingProxyType({}), converter=_topics_by_name)
    cluster_id: str | None = field(default=None, eq=False)
    generation: int = field(default=0, eq=False)

    __hash__ = None  # type: ignore[assignment]  # the mappings are not hashable, so neither is a snapshot

    def __reduce__(self) -> tuple[object, ...]:  # read-only mappings can be neither copied nor pickled
        nodes, topics = tuple(self.nodes.values()), tuple(self.by_topic.values())
        make = partial(Cluster, nodes=nodes, by_topic=topics, cluster_id=self.cluster_id)
        return partial(make, generation=self.generation), ()

    def partition(self, tp: tuple[str, int]) -> PartitionInfo | None:
        """Return the partition, or None when the snapshot has no such topic or partition."""
        info = self.by_topic.get(tp[0])
        if info is None or not 0 <= tp[1] < len(info.partitions):
            return None
        return info.partitions[tp[1]]

    # What follows has kafka-python's ClusterMetadata, too.

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the ids of all partitions, online or not; None when the topic is unknown."""
        info = self.by_topic.get(topic)
        return None if info is None else set(range(len(info.partitions)))

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the ids of the online partitions; None when the topic is unknown."""
        info = self.by_topic.get(topic)
        return None if info is None else {p.partition for p in info.partitions if p.online}


EMPTY = Cluster()
"""The snapshot before the first answer: no brokers, no topics, generation 0."""
