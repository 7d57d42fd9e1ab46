"""What producers find out by their own deliveries, before metadata knows. To be had from ``events.py``."""

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from attrs import frozen

from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.metadata.event_base import Event

if TYPE_CHECKING:
    from kafka_partition_events.metadata.listener import PartitionChangeListener


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

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_broker_suspected(self)


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

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_broker_cleared(self)


@frozen(kw_only=True)
class RecordsRescued(Event):
    """A producer sent copies of records that had failed or were stuck (``rescue=``).

    Attributes:
        broker: Where the records were stuck; None if they had failed.
        copies: How many copies are being sent.
        withheld: How many records got none, because a limit of the rescue was reached.
    """

    kind: ClassVar[str] = "records_rescued"
    broker: int | None
    copies: int
    withheld: int

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_records_rescued(self)
