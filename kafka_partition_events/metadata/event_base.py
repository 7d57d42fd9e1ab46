"""What all events have in common; the events themselves are in ``events.py``."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from attrs import frozen

from kafka_partition_events.metadata.cluster import PartitionInfo

if TYPE_CHECKING:
    from kafka_partition_events.metadata.listener import PartitionChangeListener

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

    def deliver(self, listener: "PartitionChangeListener") -> None:
        """Call the listener's method for this kind of event."""
        listener.on_event(self)


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
