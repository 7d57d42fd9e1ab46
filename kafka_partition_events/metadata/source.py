"""Where metadata comes from: one raw answer, what can be asked for it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from attrs import field, frozen

from kafka_partition_events.metadata.cluster import Node, TopicInfo


@frozen(kw_only=True)
class Observation:
    """One raw answer of a source, before the staleness gate. What a source can't prove is None.

    Attributes:
        nodes: The brokers that the answer lists.
        topics: The topics that came without an error. A partition's leader is the broker *named* by the
            answer, listed or not; the gate applies the node look-up.
        errors: Topics that came with an error: name -> Kafka's name of it (``"UNKNOWN_TOPIC_OR_PARTITION"``).
        requested: The topics that were asked for; None means all. Only an answer to "all" can prove by
            omission that a topic is gone.
        answered_by: Id of the broker that answered, where the client says so.
    """

    nodes: tuple[Node, ...]
    topics: Mapping[str, TopicInfo]
    errors: Mapping[str, str] = field(default=MappingProxyType({}))
    requested: frozenset[str] | None = None
    cluster_id: str | None = None
    answered_by: int | None = None


class MetadataSource(Protocol):
    """Something that can be asked for metadata. One thread at a time calls `fetch`."""

    def fetch(self, topics: frozenset[str] | None, /, *, timeout: float) -> Observation:
        """Ask the cluster once, without ever creating a topic.

        Args:
            topics: The topics to ask for; None asks for all.
            timeout: Seconds after which to give up. A source must keep to it: as long as a fetch lasts beyond
                that, it is not noticed that the snapshot turns stale (`MetadataStale`).

        Raises:
            MetadataFetchError: the cluster could not be asked; the message says why.
        """

    def close(self) -> None:
        """Release what the source opened itself. Called once, after the last `fetch`."""
