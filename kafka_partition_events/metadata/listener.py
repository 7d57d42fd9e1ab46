"""What a listener may implement.

The delivery contract
---------------------
- One listener gets its events in ``sequence`` order, one at a time, on a thread of its own, or if it has
  ``async def`` methods on its loop; nothing is promised about the order *between* listeners.
- At most once. A listener that raises loses that event only, which is counted and logged. Other listeners,
  the poller and producers never notice.
- State first, news second: when a listener handles an event, ``poller.cluster`` and every partitioner's
  table are at least as new as the event's ``generation``. They may be newer.
- A listener that falls behind by more than its mailbox holds gets one `Resync` with the current snapshot
  and the number of events that it missed, in place of the backlog.
- In a forked child nothing is delivered: the poller is the parent's.
- Registering replays the current state as events with ``initial=True``, without a gap and without a double to
  the live events that follow. Before its first good answer a poller has no state to replay: who is registered
  by then hears what differs from a stored snapshot, if there is one, and no more.
- What happens and is undone between two polls is not seen.
"""

from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicPartition

Handled = Awaitable[None] | None
"""What a hook returns: None, or if it is ``async def`` what the loop waits for."""


class PartitionChangeListener:
    """KIP-34's listener: override what you need, everything else does nothing. A partitioner is one, too.

    Each event has a method of its kind, ``on_topic_added`` for `TopicAdded`; all of them call `on_event` by
    default, so one method can watch everything, and an event that a later version adds still arrives there.
    Methods run on the listener's own worker thread, one at a time, and may block, raise, register or close
    what they like. Those of a listener that has ``async def`` ones run on the loop of the coroutine that
    registers it, all of them, under the same contract, until that loop has ended.
    """

    name: str | None = None
    """How logs, health and events name it; the class name when None."""

    def close(self) -> None:
        """Release what it holds. Called once, after its last event or snapshot; may be ``async``, too."""

    def apply_snapshot(self, cluster: Cluster | None) -> tuple[ev.Event, ...]:
        """Take a snapshot over, as partitioners do, before anyone hears of it; None: none is to be trusted.

        This runs on the polling thread under the poller's lock: it must be quick, and not call the poller.

        Returns:
            Events that follow from it, unstamped (`CapReached`, `CapLifted`).
        """
        return ()

    def on_partitions_change(
        self, cluster: Cluster, partitions_changed: Mapping[TopicPartition, PartitionInfo]
    ) -> Handled:
        """Hear of one accepted change as a whole (KIP-34's ``onPartitionsChange``), before its typed events.

        Called once per accepted change that touches partitions; for a replay, and in place of a backlog that
        was dropped, with all partitions.

        Args:
            cluster: The snapshot that the change led to.
            partitions_changed: Only the partitions that are new or differ, with what they are now. Those of a
                removed topic are in `on_topic_removed`.
        """

    def on_settled(self, cluster: Cluster, polled_at: datetime | None) -> Handled:
        """Hear that everything up to this snapshot was published, so that it can be written in one go.

        Called after the last event of each batch (of a change, a replay, a `Resync`, or an event emitted from
        elsewhere), and after polls that found nothing: once for several if the listener is behind.

        Args:
            cluster: What all events so far lead to; `EMPTY` before the first good answer.
            polled_at: When the last good poll began, an aware UTC time: what is still to come happened later.
                None before the first good answer.
        """

    def on_event(self, event: ev.Event) -> Handled:
        """Hear of any event whose typed method is not overridden."""

    if TYPE_CHECKING:  # what an editor completes and a type checker compares; see below for what they do

        def on_topic_added(self, event: ev.TopicAdded) -> Handled: ...
        def on_topic_removed(self, event: ev.TopicRemoved) -> Handled: ...
        def on_topic_recreated(self, event: ev.TopicRecreated) -> Handled: ...
        def on_topic_id_learned(self, event: ev.TopicIdLearned) -> Handled: ...
        def on_partitions_added(self, event: ev.PartitionsAdded) -> Handled: ...
        def on_partition_offline(self, event: ev.PartitionOffline) -> Handled: ...
        def on_partition_online(self, event: ev.PartitionOnline) -> Handled: ...
        def on_leader_changed(self, event: ev.LeaderChanged) -> Handled: ...
        def on_isr_changed(self, event: ev.IsrChanged) -> Handled: ...
        def on_replicas_changed(self, event: ev.ReplicasChanged) -> Handled: ...
        def on_broker_added(self, event: ev.BrokerAdded) -> Handled: ...
        def on_broker_removed(self, event: ev.BrokerRemoved) -> Handled: ...
        def on_broker_changed(self, event: ev.BrokerChanged) -> Handled: ...
        def on_cap_reached(self, event: ev.CapReached) -> Handled: ...
        def on_cap_lifted(self, event: ev.CapLifted) -> Handled: ...
        def on_broker_suspected(self, event: ev.BrokerSuspected) -> Handled: ...
        def on_broker_cleared(self, event: ev.BrokerCleared) -> Handled: ...
        def on_records_rescued(self, event: ev.RecordsRescued) -> Handled: ...
        def on_keys_moved(self, event: ev.KeysMoved) -> Handled: ...
        def on_keys_returned(self, event: ev.KeysReturned) -> Handled: ...
        def on_metadata_unavailable(self, event: ev.MetadataUnavailable) -> Handled: ...
        def on_metadata_recovered(self, event: ev.MetadataRecovered) -> Handled: ...
        def on_metadata_stale(self, event: ev.MetadataStale) -> Handled: ...
        def on_metadata_rejected(self, event: ev.MetadataRejected) -> Handled: ...
        def on_resync(self, event: ev.Resync) -> Handled: ...
        def on_cluster_summary(self, event: ev.ClusterSummary) -> Handled: ...


def _pass_on(listener: PartitionChangeListener, event: ev.Event) -> Handled:
    return listener.on_event(event)


for _cls in ev.EVENT_TYPES:
    setattr(PartitionChangeListener, f"on_{_cls.kind}", _pass_on)


HOOKS = tuple(name for name in vars(PartitionChangeListener) if name.startswith("on_"))
"""Who overrides none of these hears of nothing."""


def name_of(listener: PartitionChangeListener) -> str:
    """Return how logs, health and events name a listener."""
    return listener.name or type(listener).__name__


def overrides(listener: PartitionChangeListener, name: str) -> bool:
    """Return whether a listener has a method of its own, from its class or set on the object."""
    by = next((kind for kind in type(listener).__mro__ if name in vars(kind)), None)
    return by not in {None, PartitionChangeListener} or name in getattr(listener, "__dict__", ())
