"""What a listener may implement, and the handle that registration returns.

The delivery contract
---------------------
- One listener gets its events in ``sequence`` order, one at a time, on a thread of its own; nothing is
  promised about the order *between* listeners.
- At most once. A listener that raises loses that event only; it is counted and logged, and the listener is
  paused for a growing time after repeated failures. Other listeners, the poller and producers never notice.
- State first, news second: when a listener handles an event, ``poller.cluster`` and every partitioner's
  table are at least as new as the event's ``generation``. They may be newer.
- A listener that falls behind by more than its mailbox holds gets one `Resync` with the current snapshot
  and the number of events that it missed, in place of the backlog.
- A forked child starts every listener with one `Resync`, except those that do not survive a fork.
- Registering replays the current state as events with ``initial=True``, without a gap and without a
  double to the live events that follow. Before its first answer a poller has no state, not even if it resumes
  from a stored snapshot: who is registered by then hears what differs from the stored one, and no more.
- What happens and is undone between two polls is not seen.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Protocol, Self

from attrs import frozen

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicPartition
from kafka_partition_events.metadata.durations import NO_WORK, Durations


class PartitionChangeListener:
    """KIP-34's listener: override what you need, everything else does nothing.

    Each event has a typed method; all of them call `on_event` by default, so one method can watch
    everything, and an event that a later version adds still arrives there. Methods run on the listener's
    own worker thread, one at a time, and may block, raise, register or close what they like.
    """

    name: str | None = None
    """How logs and health name the listener; the class name when None."""

    survives_fork: bool = True
    """Whether the listener stays registered in a forked child; if not, it hears events in the parent only."""

    def on_partitions_change(
        self, cluster: Cluster, partitions_changed: Mapping[TopicPartition, PartitionInfo]
    ) -> None:
        """Hear of one accepted change as a whole (KIP-34's ``onPartitionsChange``).

        Called once per accepted change that touches partitions, before the typed events of that change. A
        replay is one call with all partitions; in place of a backlog that was dropped comes one call with
        what changed in it.

        Args:
            cluster: The snapshot that the change led to.
            partitions_changed: Only the partitions that are new or differ, with what they are now.
                Partitions of a removed topic are not among them: `on_topic_removed` tells.
        """

    def on_settled(self, cluster: Cluster, looked_at: datetime | None) -> None:
        """Hear that everything up to this snapshot has been told, so that it can be written down in one go.

        Called after the last event of each batch (of a change, a replay or a `Resync`, or of an event emitted
        from elsewhere), and after a look that had nothing to tell. Several such looks in a row may be one
        call when the listener is behind.

        Args:
            cluster: What all events so far lead to; `EMPTY` before the first good answer.
            looked_at: When the last good look began, an aware UTC time: changes that are still to be told
                happened later. None before the first good answer.
        """

    def on_event(self, event: ev.Event) -> None:
        """Hear of any event whose typed method is not overridden."""

    def on_topic_added(self, event: ev.TopicAdded) -> None:
        """Hear of a topic seen for the first time."""
        self.on_event(event)

    def on_topic_removed(self, event: ev.TopicRemoved) -> None:
        """Hear of a topic that is gone."""
        self.on_event(event)

    def on_topic_recreated(self, event: ev.TopicRecreated) -> None:
        """Hear of a topic that was deleted and created again under its name."""
        self.on_event(event)

    def on_topic_id_learned(self, event: ev.TopicIdLearned) -> None:
        """Hear of a known topic whose id became known."""
        self.on_event(event)

    def on_partitions_added(self, event: ev.PartitionsAdded) -> None:
        """Hear of a topic that has grown."""
        self.on_event(event)

    def on_partition_offline(self, event: ev.PartitionOffline) -> None:
        """Hear of a partition that lost its leader."""
        self.on_event(event)

    def on_partition_online(self, event: ev.PartitionOnline) -> None:
        """Hear of a partition that has a leader again."""
        self.on_event(event)

    def on_leader_changed(self, event: ev.LeaderChanged) -> None:
        """Hear of an election: another leader, or the same one in a new epoch."""
        self.on_event(event)

    def on_isr_changed(self, event: ev.IsrChanged) -> None:
        """Hear of a change of the in-sync replicas."""
        self.on_event(event)

    def on_replicas_changed(self, event: ev.ReplicasChanged) -> None:
        """Hear of a reassignment."""
        self.on_event(event)

    def on_broker_added(self, event: ev.BrokerAdded) -> None:
        """Hear of a broker that joined."""
        self.on_event(event)

    def on_broker_removed(self, event: ev.BrokerRemoved) -> None:
        """Hear of a broker that left."""
        self.on_event(event)

    def on_broker_changed(self, event: ev.BrokerChanged) -> None:
        """Hear of a broker with another address or rack."""
        self.on_event(event)

    def on_cap_reached(self, event: ev.CapReached) -> None:
        """Hear of a budget that leaves partitions out."""
        self.on_event(event)

    def on_cap_lifted(self, event: ev.CapLifted) -> None:
        """Hear of a budget that affords all partitions again."""
        self.on_event(event)

    def on_broker_suspected(self, event: ev.BrokerSuspected) -> None:
        """Hear of a broker that a producer stopped trusting, before metadata knows."""
        self.on_event(event)

    def on_broker_cleared(self, event: ev.BrokerCleared) -> None:
        """Hear of a broker that a producer trusts again."""
        self.on_event(event)

    def on_records_rescued(self, event: ev.RecordsRescued) -> None:
        """Hear of copies of records that had failed or were stuck."""
        self.on_event(event)

    def on_metadata_unavailable(self, event: ev.MetadataUnavailable) -> None:
        """Hear of a cluster that cannot be asked."""
        self.on_event(event)

    def on_metadata_recovered(self, event: ev.MetadataRecovered) -> None:
        """Hear of a cluster that answers again."""
        self.on_event(event)

    def on_metadata_stale(self, event: ev.MetadataStale) -> None:
        """Hear of a snapshot that is too old to be trusted."""
        self.on_event(event)

    def on_metadata_rejected(self, event: ev.MetadataRejected) -> None:
        """Hear of an answer that the staleness gate refused."""
        self.on_event(event)

    def on_resync(self, event: ev.Resync) -> None:
        """Hear of a backlog that was dropped; rebuild from the event's snapshot."""
        self.on_event(event)

    def on_cluster_summary(self, event: ev.ClusterSummary) -> None:
        """Hear of the cluster in numbers, once in each period."""
        self.on_event(event)

    def on_producer_counters(self, event: ev.ProducerCounters) -> None:
        """Hear of what a producer has counted in a period."""
        self.on_event(event)

    def on_alternatives_changed(self, event: ev.AlternativesChanged) -> None:
        """Hear of a topic of which more or fewer partitions are without a safe alternative."""
        self.on_event(event)

    def close(self) -> None:
        """Release what the listener holds. Called once, after its last event."""
        _close_next(self, PartitionChangeListener)


class ClusterAdopter(ABC):
    """Something that must know a snapshot before anybody is told: a partitioner, with its routes.

    It may define any method of `PartitionChangeListener`, and is then told like one. Adoption is this
    library's own code and runs on the polling thread under the poller's lock, so it must be quick and must
    not call back into the poller.
    """

    name: str | None = None
    """How logs, health and events name it; the class name when None."""

    survives_fork: bool = True
    """Whether it stays registered in a forked child."""

    no_hooks: ClassVar[frozenset[str]] = frozenset()
    """Its methods that are named ``on_...`` and are not for events."""

    @abstractmethod
    def adopt(self, cluster: Cluster | None) -> tuple[ev.Event, ...]:
        """Take the snapshot over; None means that there is no snapshot to be trusted any more.

        Returns:
            Events that follow from it, unstamped (`CapReached`, `CapLifted`).
        """

    def close(self) -> None:
        """Release what it holds. Called when the poller that it follows is closed, or followed no more."""
        _close_next(self, ClusterAdopter)


Registrable = PartitionChangeListener | ClusterAdopter
"""Who may be registered with a poller."""

_DEFAULTS = (PartitionChangeListener, ClusterAdopter)
_HOOKS = frozenset(name for name in vars(PartitionChangeListener) if name.startswith("on_"))


def name_of(listener: Registrable) -> str:
    """Return how logs, health and events name a listener."""
    return listener.name or type(listener).__name__


def overrides(listener: Registrable, name: str) -> bool:
    """Tell whether a listener has a method of its own, from its class or set on the object."""
    if name in getattr(listener, "__dict__", ()):
        return True
    by = next((kind for kind in type(listener).__mro__ if name in vars(kind)), None)
    if by in _DEFAULTS:
        return name == "close" and _next_close(listener, by) is not None
    return by is not None


def _close_next(listener: Registrable, after: type) -> None:
    """Close what is next in the order of classes, where somebody is both a partitioner and a listener."""
    if (kind := _next_close(listener, after)) is not None:
        kind.close(listener)


def _next_close(listener: Registrable, after: type) -> Any:
    """Return the next class of either family that releases something; what else is mixed in is not ours."""
    kinds = type(listener).__mro__
    rest = kinds[kinds.index(after) + 1 :]
    ours = (kind for kind in rest if issubclass(kind, _DEFAULTS) and kind not in _DEFAULTS)
    return next((kind for kind in ours if "close" in vars(kind)), None)


def hears_events(listener: Registrable) -> bool:
    """Tell whether a listener overrides any hook; one that does not needs no worker."""
    no_hooks = listener.no_hooks if isinstance(listener, ClusterAdopter) else frozenset()
    hooks = {name for name in dir(type(listener)) if name.startswith("on_")} | _HOOKS
    return any(overrides(listener, hook) for hook in hooks - no_hooks)


@frozen(kw_only=True)
class RegistrationStats:
    """What one registered listener has been through.

    Attributes:
        delivered: Events that a listener method returned from.
        failures: Calls of listener methods that raised.
        dropped: Events lost to a full mailbox.
        lag: Events waiting now, behind the batch in hand.
        last_error: The last exception, as text.
        paused: Whether delivery is paused after repeated failures.
        durations: How long the listener took for all that one change, one replay, or one event from elsewhere
            told; without the pauses after failures.
        ended: Whether the thread that delivers has ended, although the listener is registered: a bug.
    """

    delivered: int = 0
    failures: int = 0
    dropped: int = 0
    lag: int = 0
    last_error: str | None = None
    paused: bool = False
    durations: Durations = NO_WORK
    ended: bool = False


class Registration(Protocol):
    """The handle of one registered listener. Thread-safe; also a context manager."""

    @property
    def listener(self) -> Registrable:
        """Who is registered."""

    @property
    def stats(self) -> RegistrationStats:
        """What the listener has been through so far."""

    def wait_synced(self, timeout: float) -> bool:
        """Wait until everything that was queued at the time of this call has been handled.

        Inside a callback of the same listener that cannot come true before the timeout.

        Args:
            timeout: Seconds to wait at most. Returns False when they passed first.
        """

    def close(self, *, wait: float = 0.0) -> None:
        """Unregister: no event is handed over any more, and `PartitionChangeListener.close` is called.

        Idempotent, and allowed inside the listener's own callbacks.

        Args:
            wait: Seconds to wait for a callback that is running now; ignored inside a callback.
        """

    def __enter__(self) -> Self:
        """Return the handle."""

    def __exit__(self, *exc: object) -> None:
        """Unregister."""
