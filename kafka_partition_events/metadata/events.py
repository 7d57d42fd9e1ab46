"""The typed events: what changed in the cluster, and how well we know it.

Changes carry ``old`` and ``new`` in full, so a listener that missed earlier events can still act on the one
it has. There is no "partitions removed": Kafka cannot shrink a topic, so fewer partitions are either a stale
answer (`MetadataRejected`) or a topic that was deleted and created again (`TopicRecreated`).
"""

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from attrs import frozen

from kafka_partition_events.metadata.cluster import EMPTY, Cluster, Node, PartitionInfo, TopicInfo

# The aliases re-export: all events, their base classes too, are to be had from here.
from kafka_partition_events.metadata.delivery_events import BrokerCleared as BrokerCleared  # noqa: PLC0414
from kafka_partition_events.metadata.delivery_events import BrokerSuspected as BrokerSuspected  # noqa: PLC0414
from kafka_partition_events.metadata.delivery_events import Clearance as Clearance  # noqa: PLC0414
from kafka_partition_events.metadata.delivery_events import RecordsRescued as RecordsRescued  # noqa: PLC0414
from kafka_partition_events.metadata.delivery_events import Role as Role  # noqa: PLC0414
from kafka_partition_events.metadata.delivery_events import Suspicion as Suspicion  # noqa: PLC0414
from kafka_partition_events.metadata.event_base import Event as Event  # noqa: PLC0414
from kafka_partition_events.metadata.event_base import PartitionEvent as PartitionEvent  # noqa: PLC0414
from kafka_partition_events.metadata.event_base import TopicEvent as TopicEvent  # noqa: PLC0414
from kafka_partition_events.metadata.periodic_events import BrokerLoad as BrokerLoad  # noqa: PLC0414
from kafka_partition_events.metadata.periodic_events import ClusterSummary as ClusterSummary  # noqa: PLC0414
from kafka_partition_events.metadata.periodic_events import ProducerCounters as ProducerCounters  # noqa: PLC0414
from kafka_partition_events.metadata.periodic_events import TopicCounts as TopicCounts  # noqa: PLC0414
from kafka_partition_events.metadata.replica_events import AlternativesChanged as AlternativesChanged  # noqa: PLC0414

if TYPE_CHECKING:
    from kafka_partition_events.metadata.listener import PartitionChangeListener


class Rejection(StrEnum):
    """Why the staleness gate refused an answer, or a part of it."""

    NO_BROKERS = "no_brokers"
    FOREIGN_CLUSTER = "foreign_cluster"
    OUT_OF_ORDER = "out_of_order"
    TOPIC_ERROR = "topic_error"
    INCOMPLETE = "incomplete"
    RETIRED_TOPIC_ID = "retired_topic_id"
    SHRINK = "shrink"
    EPOCH_REWIND = "epoch_rewind"
    MISSING_TOPIC = "missing_topic"


@frozen(kw_only=True)
class TopicAdded(TopicEvent):
    """A topic is seen for the first time."""

    kind: ClassVar[str] = "topic_added"
    new: TopicInfo

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_topic_added(self)


@frozen(kw_only=True)
class TopicRemoved(TopicEvent):
    """A topic is gone: several complete answers over a grace period no longer had it."""

    kind: ClassVar[str] = "topic_removed"
    old: TopicInfo

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_topic_removed(self)


@frozen(kw_only=True)
class TopicRecreated(TopicEvent):
    """A topic was deleted and created again under its name.

    ``inferred`` is True when no topic id proves it and only a lasting smaller partition count tells.
    """

    kind: ClassVar[str] = "topic_recreated"
    old: TopicInfo
    new: TopicInfo

    @property
    def inferred(self) -> bool:
        """Whether the re-creation was concluded from a shrink, not proved by topic ids."""
        return self.old.topic_id is None or self.new.topic_id is None

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_topic_recreated(self)


@frozen(kw_only=True)
class TopicIdLearned(TopicEvent):
    """A known topic's id became known, for instance after the brokers were upgraded."""

    kind: ClassVar[str] = "topic_id_learned"
    old: TopicInfo
    new: TopicInfo

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_topic_id_learned(self)


@frozen(kw_only=True)
class PartitionsAdded(TopicEvent):
    """A topic has grown."""

    kind: ClassVar[str] = "partitions_added"
    old: TopicInfo
    new: TopicInfo

    @property
    def added(self) -> tuple[PartitionInfo, ...]:
        """The new partitions, ascending by id."""
        return self.new.partitions[len(self.old.partitions) :]

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_partitions_added(self)


@frozen(kw_only=True)
class PartitionOffline(PartitionEvent):
    """A partition lost its leader, or had none when it was first seen (then ``old`` is ``new``)."""

    kind: ClassVar[str] = "partition_offline"

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_partition_offline(self)


@frozen(kw_only=True)
class PartitionOnline(PartitionEvent):
    """A partition has a leader again."""

    kind: ClassVar[str] = "partition_online"

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_partition_online(self)


@frozen(kw_only=True)
class LeaderChanged(PartitionEvent):
    """A leader was elected: another broker, or the same one in a new leader epoch."""

    kind: ClassVar[str] = "leader_changed"

    @property
    def moved(self) -> bool:
        """Whether another broker leads now; False for a re-election of the same one."""
        return self.old.leader != self.new.leader

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_leader_changed(self)


@frozen(kw_only=True)
class IsrChanged(PartitionEvent):
    """The set of in-sync replicas changed."""

    kind: ClassVar[str] = "isr_changed"

    @property
    def joined(self) -> frozenset[int]:
        """Broker ids that came into sync."""
        return frozenset(self.new.isr) - frozenset(self.old.isr)

    @property
    def left(self) -> frozenset[int]:
        """Broker ids that fell out of sync."""
        return frozenset(self.old.isr) - frozenset(self.new.isr)

    @property
    def under_replicated(self) -> bool:
        """Whether some replica is out of sync now."""
        return len(self.new.isr) < len(self.new.replicas)

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_isr_changed(self)


@frozen(kw_only=True)
class ReplicasChanged(PartitionEvent):
    """The partition was reassigned: other replicas, or another order of preference."""

    kind: ClassVar[str] = "replicas_changed"

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_replicas_changed(self)


@frozen(kw_only=True)
class BrokerAdded(Event):
    """A broker joined, or came back."""

    kind: ClassVar[str] = "broker_added"
    new: Node

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_broker_added(self)


@frozen(kw_only=True)
class BrokerRemoved(Event):
    """A broker is no longer listed."""

    kind: ClassVar[str] = "broker_removed"
    old: Node

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_broker_removed(self)


@frozen(kw_only=True)
class BrokerChanged(Event):
    """A broker has another address or rack."""

    kind: ClassVar[str] = "broker_changed"
    old: Node
    new: Node

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_broker_changed(self)


@frozen(kw_only=True)
class CapReached(TopicEvent):
    """A partitioner's buffer budget leaves partitions of a topic out (KIP-34).

    Attributes:
        partitions: How many partitions the topic has.
        admitted: The ids that the partitioner may use for unkeyed records.
        limit: How many partitions the budget affords for this topic.
        partitioner: The partitioner's name.
    """

    kind: ClassVar[str] = "cap_reached"
    partitions: int
    admitted: tuple[int, ...]
    limit: int
    partitioner: str

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_cap_reached(self)


@frozen(kw_only=True)
class CapLifted(TopicEvent):
    """A partitioner's buffer budget affords all partitions of a topic again."""

    kind: ClassVar[str] = "cap_lifted"
    partitions: int
    partitioner: str

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_cap_lifted(self)


@frozen(kw_only=True)
class MetadataUnavailable(Event):
    """The cluster could not be asked. The last snapshot stays in force. Once per outage."""

    kind: ClassVar[str] = "metadata_unavailable"
    error: str

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_metadata_unavailable(self)


@frozen(kw_only=True)
class MetadataRecovered(Event):
    """The cluster answers again.

    Attributes:
        attempts: How many fetches in a row had failed; 0 if there were answers, but none that was believed,
            or if nobody asked: a poller that resumes from a stored snapshot tells its first good answer so.
        blind_s: Seconds since the last good answer: what happened in between is known by its result only.
    """

    kind: ClassVar[str] = "metadata_recovered"
    attempts: int
    blind_s: float

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_metadata_recovered(self)


@frozen(kw_only=True)
class MetadataStale(Event):
    """No good answer for longer than the limit: partitioners stop trusting the snapshot and fail open."""

    kind: ClassVar[str] = "metadata_stale"
    age_s: float
    limit_s: float

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_metadata_stale(self)


@frozen(kw_only=True)
class MetadataRejected(Event):
    """The staleness gate refused an answer or a part of it; nothing of that part is visible anywhere.

    A refusal that repeats is counted in ``strike`` and told again at strikes 1, 2, 4, 8, ...

    Attributes:
        reason: The rule that refused.
        topic: The topic concerned, None when the whole answer was refused.
        partition: The partition concerned, None when it is the whole topic.
        kept: What stays in force, in words.
        offered: What the answer said, in words.
        strike: How many answers in a row were refused for this.
    """

    kind: ClassVar[str] = "metadata_rejected"
    reason: Rejection
    topic: str | None = None
    partition: int | None = None
    kept: str = ""
    offered: str = ""
    strike: int = 1

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_metadata_rejected(self)


@frozen(kw_only=True)
class Resync(Event):
    """The listener was too slow and its backlog was dropped, or the process forked. Rebuild from ``cluster``.

    Attributes:
        cluster: The snapshot at the moment of the drop; later events follow on from it.
        dropped: How many events this listener never saw; 0 in a forked child, where nobody counted.
    """

    kind: ClassVar[str] = "resync"
    cluster: Cluster = EMPTY
    dropped: int = 0

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_resync(self)


EVENT_TYPES: tuple[type[Event], ...] = (
    TopicAdded, TopicRemoved, TopicRecreated, TopicIdLearned, PartitionsAdded, PartitionOffline,
    PartitionOnline, LeaderChanged, IsrChanged, ReplicasChanged, BrokerAdded, BrokerRemoved, BrokerChanged,
    CapReached, CapLifted, BrokerSuspected, BrokerCleared, RecordsRescued, MetadataUnavailable,
    MetadataRecovered, MetadataStale, MetadataRejected, Resync, ClusterSummary, ProducerCounters,
    AlternativesChanged,
)  # fmt: skip
"""Every concrete event, in the order of the documentation."""
