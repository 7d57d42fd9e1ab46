"""The typed events.

In this order: what changed in the cluster; what producers find out by their own deliveries, before metadata
knows; what an observer derives, period by period; how well all this is known.

Changes carry ``old`` and ``new`` in full: a listener can act on one without having the earlier ones. There is
no "partitions removed": Kafka cannot shrink a topic, so fewer partitions are either a stale answer
(`MetadataRejected`) or a topic that was deleted and created again (`TopicRecreated`).
"""

import re
from datetime import UTC, datetime
from typing import Any, ClassVar

from attrs import field, frozen

from kafka_partition_events.metadata import reasons
from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo, TopicPartition

Role = reasons.Role
Suspicion = reasons.Suspicion
Clearance = reasons.Clearance
Rejection = reasons.Rejection


@frozen(kw_only=True)
class Event:
    """What every event has. The poller stamps these fields; no one else needs to set them.

    Attributes:
        cluster_id: Kafka's cluster id, None where the source has none.
        sequence: Contiguous per poller, from 1: a gap proves a loss. A replay's events all carry the sequence
            of the last event before the listener's registration.
        generation: The snapshot that the event led to; the listener's view is at least that new.
        observed_at: When the poller learned of it, in seconds of its monotonic clock.
        wall_time: The same moment as an aware UTC time.
        previous_at: When the last good poll before this one began (UTC); the change happened between then
            and ``wall_time``. None when there was none, as with the very first answer and with replays.
        initial: The event says what *is*, on first sight or on registration, not what changed.
    """

    kind: ClassVar[str] = "event"
    cluster_id: str | None = None
    sequence: int = 0
    generation: int = 0
    observed_at: float = 0.0
    wall_time: datetime = field(default=datetime.fromtimestamp(0, UTC))
    previous_at: datetime | None = None
    initial: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Name what is defined here by its class: `TopicAdded` is of the kind ``topic_added``."""
        super().__init_subclass__(**kwargs)
        if cls.__module__ == __name__:
            cls.kind = re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def deliver(self, listener: object) -> object:
        """Call the listener's method for this kind of event, `on_event` for one that it does not know.

        Returns:
            What it returned: of an ``async def`` one the coroutine.
        """
        hook = getattr(listener, f"on_{self.kind}", None) or getattr(listener, "on_event", None)
        return None if hook is None else hook(self)


@frozen(kw_only=True)
class TopicEvent(Event):
    """An event about one topic; ``topic_id`` is the one that it has now, None where it is not known."""

    topic: str
    topic_id: str | None = None


@frozen(kw_only=True)
class PartitionEvent(TopicEvent):
    """A change of one partition; a partition that changed in two ways yields two of these."""

    partition: int
    old: PartitionInfo
    new: PartitionInfo


@frozen(kw_only=True)
class TopicAdded(TopicEvent):
    """A topic is seen for the first time."""

    new: TopicInfo


@frozen(kw_only=True)
class TopicRemoved(TopicEvent):
    """A topic is gone: several complete answers over a grace period no longer had it."""

    old: TopicInfo


@frozen(kw_only=True)
class TopicRecreated(TopicEvent):
    """A topic was deleted and created again under its name."""

    old: TopicInfo
    new: TopicInfo

    @property
    def inferred(self) -> bool:
        """Whether no topic id proves it, and only a lasting smaller partition count says so."""
        return self.old.topic_id is None or self.new.topic_id is None


@frozen(kw_only=True)
class TopicIdLearned(TopicEvent):
    """A known topic's id became known, for instance after the brokers were upgraded."""

    old: TopicInfo
    new: TopicInfo


@frozen(kw_only=True)
class PartitionsAdded(TopicEvent):
    """A topic has grown."""

    old: TopicInfo
    new: TopicInfo

    @property
    def added(self) -> tuple[PartitionInfo, ...]:
        """The new partitions, ascending by id."""
        return self.new.partitions[len(self.old.partitions) :]


@frozen(kw_only=True)
class PartitionOffline(PartitionEvent):
    """A partition lost its leader, or had none when it was first seen (then ``old`` is ``new``)."""


@frozen(kw_only=True)
class PartitionOnline(PartitionEvent):
    """A partition has a leader again."""


@frozen(kw_only=True)
class LeaderChanged(PartitionEvent):
    """A leader was elected: another broker, or the same one in a new leader epoch."""

    @property
    def moved(self) -> bool:
        """Whether another broker leads now; False for a re-election of the same one."""
        return self.old.leader != self.new.leader


@frozen(kw_only=True)
class IsrChanged(PartitionEvent):
    """The set of in-sync replicas changed."""


@frozen(kw_only=True)
class ReplicasChanged(PartitionEvent):
    """The partition was reassigned: other replicas, or another order of preference."""


@frozen(kw_only=True)
class BrokerAdded(Event):
    """A broker joined, or came back."""

    new: Node


@frozen(kw_only=True)
class BrokerRemoved(Event):
    """A broker is no longer listed."""

    old: Node


@frozen(kw_only=True)
class BrokerChanged(Event):
    """A broker has another address or rack."""

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

    partitions: int
    admitted: tuple[int, ...]
    limit: int
    partitioner: str


@frozen(kw_only=True)
class CapLifted(TopicEvent):
    """A partitioner's buffer budget affords all partitions of a topic again."""

    partitions: int
    partitioner: str


@frozen(kw_only=True)
class BrokerSuspected(Event):
    """A producer no longer sends records without a key to a broker: deliveries say more than metadata does.

    Published when its silence has lasted (250 ms), when a record was given up for it, or the connection was
    lost: it is avoided sooner, but a hiccup is no news. Once per episode: from the first role in which it is
    suspected to the end of the last, however many probes fail.

    Attributes:
        broker: The broker's id.
        role: As what it was suspected first; as a leader if as both at once.
        reason: Why.
        waiting: The partition of each silent connection's oldest record. Empty if the connection was lost.
        outstanding: Tracked records that need it in that role and were not answered; at high rates a sample.
        silence_ms: How long it had been silent when this was published.
        usual_ms: How long answers that need it take (the median), None if there was none yet.
        partitioner: The partitioner's name.
    """

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
    """A producer sends records without a key to a broker again: it is trusted in every role. Once an episode.

    Attributes:
        broker: The broker's id.
        reason: Why.
        suspected_ms: How long the episode lasted.
        probes: How many single records were sent to find out.
        usual_ms: How long its answers take (the median), None if it has not answered yet.
        partitioner: The partitioner's name.
    """

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
        withheld: How many got none, for a limit of the rescue; if it is the budget, stuck ones get it later.
    """

    broker: int | None
    copies: int
    withheld: int


@frozen(kw_only=True)
class KeysMoved(TopicEvent):
    """A producer's keys have left partitions of a topic that need a sick broker (``keys="move"``).

    Published once an episode, a second after the first key has left.

    Attributes:
        brokers: Who is suspect, ascending; empty where partitions have no leader.
        keys: How many keys have left until now.
    """

    brokers: tuple[int, ...]
    keys: int


@frozen(kw_only=True)
class KeysReturned(TopicEvent):
    """The keys of a topic are home again, or no broker has been suspect for 30 s.

    Attributes:
        keys: How often a key has left its home in this episode.
        away: How many are not home yet: nothing was written of them since.
    """

    keys: int
    away: int


@frozen(kw_only=True)
class BrokerLoad:
    """What one broker has to do.

    Attributes:
        broker: Its id.
        rack: Its rack; None where it is not known, and for a broker that is not listed.
        leaders: Partitions that it leads.
        replicas: Replicas that are placed on it.
        offline_replicas: Those of them that no broker serves: all, if the broker is not listed.
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
        offline: How many of these have no leader.
    """

    begin: datetime
    end: datetime
    brokers: tuple[BrokerLoad, ...]
    topics: int
    partitions: int
    offline: int


@frozen(kw_only=True)
class MetadataUnavailable(Event):
    """The cluster could not be asked. The last snapshot stays in force. Once per outage."""

    error: str


@frozen(kw_only=True)
class MetadataRecovered(Event):
    """The cluster answers again.

    Attributes:
        attempts: Fetches in a row that had failed; 0 if answers were refused, or a stored snapshot resumed.
        blind_s: Seconds since the last good answer: what happened in between is known by its result only.
    """

    attempts: int
    blind_s: float


@frozen(kw_only=True)
class MetadataStale(Event):
    """No good answer for longer than the limit: partitioners stop trusting the snapshot and fail open."""

    age_s: float
    limit_s: float


@frozen(kw_only=True)
class MetadataRejected(Event):
    """The staleness gate refused an answer or a part of it; nothing of that part is visible anywhere.

    Attributes:
        reason: The rule that refused.
        topic: The topic concerned, None when the whole answer was refused.
        partition: The partition concerned, None when it is the whole topic.
        kept: What stays in force, in words.
        offered: What the answer said, in words.
        strike: How many answers in a row were refused for this; published at 1, 2, 4, 8, ...
    """

    reason: Rejection
    topic: str | None = None
    partition: int | None = None
    kept: str = ""
    offered: str = ""
    strike: int = 1


@frozen(kw_only=True)
class Resync(Event):
    """The listener was too slow and its backlog was dropped. Rebuild from ``cluster``.

    Attributes:
        cluster: The snapshot at the moment of the drop; later events follow on from it.
        dropped: How many events this listener never saw; 0 where topics are not followed any more.
    """

    cluster: Cluster = field(factory=Cluster)
    dropped: int = 0


EVENT_TYPES: tuple[type[Event], ...] = (
    TopicAdded, TopicRemoved, TopicRecreated, TopicIdLearned, PartitionsAdded, PartitionOffline,
    PartitionOnline, LeaderChanged, IsrChanged, ReplicasChanged, BrokerAdded, BrokerRemoved, BrokerChanged,
    CapReached, CapLifted, BrokerSuspected, BrokerCleared, RecordsRescued, KeysMoved,
    KeysReturned, MetadataUnavailable, MetadataRecovered, MetadataStale, MetadataRejected, Resync,
    ClusterSummary,
)  # fmt: skip
"""Every concrete event, in the order of the documentation."""
