"""What an observer derives of a topic's replicas, snapshot by snapshot. To be had from ``events.py``."""

from typing import TYPE_CHECKING, ClassVar

from attrs import frozen

from kafka_partition_events.metadata.event_base import TopicEvent

if TYPE_CHECKING:
    from kafka_partition_events.metadata.listener import PartitionChangeListener


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

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_alternatives_changed(self)
