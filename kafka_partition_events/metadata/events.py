"""The typed events: what changed in the cluster, and how well we know it.

Changes carry ``old`` and ``new`` in full, so a listener that missed earlier events can still act on the one
it has. There is no "partitions removed": Kafka cannot shrink a topic, so fewer partitions are either a stale
answer (`MetadataRejected`) or a topic that was deleted and created again (`TopicRecreated`).
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import ClassVar

from attrs import frozen

from kafka_partition_events.metadata.cluster import (
    EMPTY,
    Cluster,
    Node,
    PartitionInfo,
    TopicInfo,
    TopicPartition,
)

_UNSTAMPED = datetime.fromtimestamp(0, UTC)


@frozen(kw_only=True)
class Event:
    """What every event has. The poller stamps these fields; nobody else needs to set them.

    Attributes:
        cluster_id: Kafka's cluster id, None where the source cannot tell.
        sequence: Contiguous per poller, from 1: a gap proves a loss. Events that replay the current state
            to a late listener all carry the sequence of the last event before its registration.
        generation: The snapshot that the event led to; the listener's view is at least that new.
        observed_at: When the poller learned of it, in seconds of its monotonic clock.
        wall_time: The same moment as an aware UTC time.
        previous_at: When the last good look before this one began (UTC); what is told happened between then
            and ``wall_time``. None when there was none, as with the very first answer and with replays.
        initial: The event tells what *is*, on first sight or on registration, not what changed.
    """

    kind: ClassVar[str] = "event"

    cluster_id: str | None = None
    sequence: int = 0
    generation: int = 0
    observed_at: float = 0.0
    wall_time: datetime = _UNSTAMPED
    previous_at: datetime | None = None
    initial: bool = False

    def deliver(self, listener: object) -> None:
        """Call the listener's method for this kind of event; `on_event` for one that it does not know."""
        hook = getattr(listener, f"on_{self.kind}", None) or getattr(listener, "on_event", None)
        if hook is not None:
            hook(self)


@frozen(kw_only=True)
class TopicEvent(Event):
    """An event about one topic; ``topic_id`` is the one that it has now, None where nobody can tell."""

    topic: str
    topic_id: str | None = None


@frozen(kw_only=True)
class PartitionEvent(TopicEvent):
    """A change of one partition; a partition that changed in two ways yields two of these."""

    partition: int
    old: PartitionInfo
    new: PartitionInfo


# -- what changed in the cluster ---------------------------------------------------------------------


@frozen(kw_only=True)
class TopicAdded(TopicEvent):
    """A topic is seen for the first time."""

    kind: ClassVar[str] = "topic_added"
    new: TopicInfo


@frozen(kw_only=True)
class TopicRemoved(TopicEvent):
    """A topic is gone: several complete answers over a grace period no longer had it."""

    kind: ClassVar[str] = "topic_removed"
    old: TopicInfo


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


@frozen(kw_only=True)
class TopicIdLearned(TopicEvent):
    """A known topic's id became known, for instance after the brokers were upgraded."""

    kind: ClassVar[str] = "topic_id_learned"
    old: TopicInfo
    new: TopicInfo


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


@frozen(kw_only=True)
class PartitionOffline(PartitionEvent):
    """A partition lost its leader, or had none when it was first seen (then ``old`` is ``new``)."""

    kind: ClassVar[str] = "partition_offline"


@frozen(kw_only=True)
class PartitionOnline(PartitionEvent):
    """A partition has a leader again."""

    kind: ClassVar[str] = "partition_online"


@frozen(kw_only=True)
class LeaderChanged(PartitionEvent):
    """A leader was elected: another broker, or the same one in a new leader epoch."""

    kind: ClassVar[str] = "leader_changed"

    @property
    def moved(self) -> bool:
        """Whether another broker leads now; False for a re-election of the same one."""
        return self.old.leader != self.new.leader


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


@frozen(kw_only=True)
class ReplicasChanged(PartitionEvent):
    """The partition was reassigned: other replicas, or another order of preference."""

    kind: ClassVar[str] = "replicas_changed"


@frozen(kw_only=True)
class BrokerAdded(Event):
    """A broker joined, or came back."""

    kind: ClassVar[str] = "broker_added"
    new: Node


@frozen(kw_only=True)
class BrokerRemoved(Event):
    """A broker is no longer listed."""

    kind: ClassVar[str] = "broker_removed"
    old: Node


@frozen(kw_only=True)
class BrokerChanged(Event):
    """A broker has another address or rack."""

    kind: ClassVar[str] = "broker_changed"
    old: Node
    new: Node


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


@frozen(kw_only=True)
class CapLifted(TopicEvent):
    """A partitioner's buffer budget affords all partitions of a topic again."""

    kind: ClassVar[str] = "cap_lifted"
    partitions: int
    partitioner: str


# -- what producers find out by their own deliveries, before metadata knows --------------------------


class Role(StrEnum):
    """As what a broker is suspected."""

    LEADER = "leader"
    """Partitions that it leads do not answer."""
    REPLICA = "replica"
    """Partitions that others lead wait for it: with ``acks=all`` a write needs every in-sync replica."""


class Suspicion(StrEnum):
    """Why a producer stopped trusting a broker."""

    SILENT = "silent"
    """Records are outstanding, and a broker that was asked later has answered."""
    SLOW = "slow"
    """It answers, but nearly all that took long lately needed it."""
    UNREACHABLE = "unreachable"
    """The client lost the connection, or could not make one."""


class Clearance(StrEnum):
    """Why a producer trusts a broker again."""

    ANSWERED = "answered"
    """It answered its probes in time."""
    NEEDED = "needed"
    """No other broker is left to write to, and nothing is stuck on it."""
    LEFT = "left"
    """It is no longer listed, or no record needs it as what it was suspect: metadata now says what deliveries
    had said."""


@frozen(kw_only=True)
class BrokerSuspected(Event):
    """A producer no longer sends unkeyed records to a broker: deliveries say more than metadata does.

    Told when its silence has lasted (250 ms), when a record was given up for it, or the connection was lost:
    it is avoided sooner, but a hiccup is no news.

    Once per episode, whatever the broker's roles in it: an episode begins with the first role in which it is
    suspected and ends with the last. That another role joins it, or that a probe fails, prolongs it and is no
    news.

    Attributes:
        broker: The broker's id.
        role: As what it was suspected first: a leader that does not answer, or a replica that others wait
            for. A broker that is suspected as both at once is told as a leader.
        reason: Why.
        waiting: The partitions by which it was found out: the oldest record of each silent connection. Others
            may lead them. Empty if the connection was lost.
        outstanding: Records that need it in that role and were not answered, as far as they are tracked: at
            high rates that is a sample.
        silence_ms: How long it had been silent when this was told.
        usual_ms: How long answers that need it take (the median), None if there was none yet.
        partitioner: The partitioner's name.
    """

    kind: ClassVar[str] = "broker_suspected"
    broker: int
    role: Role = Role.LEADER
    reason: Suspicion
    waiting: tuple[TopicPartition, ...] = ()
    outstanding: int
    silence_ms: float
    usual_ms: float | None
    partitioner: str


@frozen(kw_only=True)
class BrokerCleared(Event):
    """A producer sends unkeyed records to a broker again.

    Once per episode, when it is trusted again in every role.

    Attributes:
        broker: The broker's id.
        reason: Why.
        suspected_ms: How long the episode lasted.
        probes: How many single records were sent to find out.
        usual_ms: How long its answers take (the median), None if it has not answered yet.
        partitioner: The partitioner's name.
    """

    kind: ClassVar[str] = "broker_cleared"
    broker: int
    reason: Clearance
    suspected_ms: float
    probes: int
    usual_ms: float | None
    partitioner: str


@frozen(kw_only=True)
class RecordsRescued(Event):
    """A producer sent copies of records that had failed or were stuck (``rescue=``).

    Attributes:
        broker: Where the records were stuck; None if they had failed.
        copies: How many copies are being sent.
        withheld: How many records got none, because a limit of the rescue was reached. Stuck ones get theirs
            later if only the budget was used up; that is told once, when it runs out.
    """

    kind: ClassVar[str] = "records_rescued"
    broker: int | None
    copies: int
    withheld: int


# -- what an observer derives or counts, period by period --------------------------------------------


@frozen(kw_only=True)
class AlternativesChanged(TopicEvent):
    """More or fewer partitions of a topic are without a safe alternative.

    That is: one broker is in sync of all that have a leader, and blocks all of them with ``acks=all`` if it
    hangs. It tells the number only if that has changed; which brokers they are may change more often.

    Attributes:
        partitions: How many partitions the topic has.
        old: How many of them had no safe alternative; 0 if the topic is seen for the first time.
        new: How many of them have none.
        brokers: The brokers each of which can block all of them, ascending.
    """

    kind: ClassVar[str] = "alternatives_changed"
    partitions: int
    old: int
    new: int
    brokers: tuple[int, ...]


@frozen(kw_only=True)
class BrokerLoad:
    """What one broker has to do.

    Attributes:
        broker: Its id.
        rack: Its rack; None where nobody can tell, and for a broker that is not listed.
        leaders: Partitions that it leads.
        replicas: Replicas that are placed on it.
        offline_replicas: Those of them that nobody serves: all, if the broker is not listed.
    """

    broker: int
    rack: str | None
    leaders: int
    replicas: int
    offline_replicas: int


@frozen(kw_only=True)
class ClusterSummary(Event):
    """The cluster in numbers, once in each period on the clock, as it was seen first in it.

    Attributes:
        begin: When the period began, an aware UTC time.
        end: When it ends.
        brokers: Those that are listed, and those that are not and have replicas; ascending by id.
        topics: How many there are.
        partitions: How many there are.
        offline: How many of them have no leader.
    """

    kind: ClassVar[str] = "cluster_summary"
    begin: datetime
    end: datetime
    brokers: tuple[BrokerLoad, ...]
    topics: int
    partitions: int
    offline: int


@frozen(kw_only=True)
class TopicCounts:
    """What a producer has counted of one topic; None for what it does not count.

    Attributes:
        topic: Its name.
        sent: Records that the partitioner placed: unkeyed ones without a partition, copies of a rescue too.
        rerouted: Those that were placed while an admitted partition was offline.
        avoided: Those that were placed while partitions that need a suspect broker were left out.
        capped: Those that were placed while the budget left partitions out.
        rescued: Records that a copy was delivered of first.
    """

    topic: str
    sent: int | None = None
    rerouted: int | None = None
    avoided: int | None = None
    capped: int | None = None
    rescued: int | None = None


@frozen(kw_only=True)
class ProducerCounters(Event):
    """What one producer has counted in a period; topics of which it counted nothing are left out.

    Attributes:
        client: The producer's name.
        begin: When the period began, an aware UTC time.
        end: When it ended.
        topics: The counts.
    """

    kind: ClassVar[str] = "producer_counters"
    client: str
    begin: datetime
    end: datetime
    topics: tuple[TopicCounts, ...]


# -- how well we know it -----------------------------------------------------------------------------


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
class MetadataUnavailable(Event):
    """The cluster could not be asked. The last snapshot stays in force. Once per outage."""

    kind: ClassVar[str] = "metadata_unavailable"
    error: str


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


@frozen(kw_only=True)
class MetadataStale(Event):
    """No good answer for longer than the limit: partitioners stop trusting the snapshot and fail open."""

    kind: ClassVar[str] = "metadata_stale"
    age_s: float
    limit_s: float


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


EVENT_TYPES: tuple[type[Event], ...] = (
    TopicAdded, TopicRemoved, TopicRecreated, TopicIdLearned, PartitionsAdded, PartitionOffline,
    PartitionOnline, LeaderChanged, IsrChanged, ReplicasChanged, BrokerAdded, BrokerRemoved, BrokerChanged,
    CapReached, CapLifted, BrokerSuspected, BrokerCleared, RecordsRescued, MetadataUnavailable,
    MetadataRecovered, MetadataStale, MetadataRejected, Resync, ClusterSummary, ProducerCounters,
    AlternativesChanged,
)  # fmt: skip
"""Every concrete event, in the order of the documentation."""
