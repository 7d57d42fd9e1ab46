"""What is told each period, whether anything has changed or not. To be had from ``events.py``."""

from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from attrs import frozen

from kafka_partition_events.metadata.event_base import Event

if TYPE_CHECKING:
    from kafka_partition_events.metadata.listener import PartitionChangeListener


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

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_cluster_summary(self)


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

    def deliver(self, listener: "PartitionChangeListener") -> None:
        listener.on_producer_counters(self)
