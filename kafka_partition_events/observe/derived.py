"""What follows from snapshots and is an event: the cluster in numbers.

Derived here, so no producer pays for it.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import chain

from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import BrokerLoad, ClusterSummary, Event
from kafka_partition_events.metadata.listener import PartitionChangeListener

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SummaryListener(PartitionChangeListener):
    """Emits a `ClusterSummary` of each period on the clock, at the first good poll in it.

    So a period has one if there was a good poll, also after a restart (which repeats it, under the same id),
    and else none.
    """

    name = "summaries"

    def __init__(self, emit: Callable[[Event], None], interval: float) -> None:
        """Make a listener.

        Args:
            emit: Emits an event to all listeners: `MetadataPoller.emit`.
            interval: Seconds of a period; periods of five minutes begin at 10:00, 10:05 and so on, UTC.
        """
        self._emit = emit
        self._interval = timedelta(seconds=interval)
        self._emitted: datetime | None = None

    def on_settled(self, cluster: Cluster, polled_at: datetime | None) -> None:
        """Emit the summary of the period of the last good poll, if that has not been emitted yet."""
        if polled_at is None or cluster.generation == 0:
            return
        begin = polled_at - (polled_at - _EPOCH) % self._interval
        if begin != self._emitted:
            self._emitted = begin
            self._emit(summary_of(cluster, begin, begin + self._interval))


def summary_of(cluster: Cluster, begin: datetime, end: datetime) -> ClusterSummary:
    """Return a snapshot in numbers, unstamped."""
    partitions = [p for info in cluster.by_topic.values() for p in info.partitions]
    leaders = Counter(p.leader for p in partitions)
    replicas = Counter(chain.from_iterable(p.replicas for p in partitions))
    loads = []
    for broker in sorted(cluster.nodes.keys() | replicas.keys()):
        node = cluster.nodes.get(broker)
        loads.append(
            BrokerLoad(
                broker=broker,
                rack=None if node is None else node.rack,
                leaders=leaders[broker],
                replicas=replicas[broker],
                offline_replicas=replicas[broker] if node is None else 0,
            )
        )
    return ClusterSummary(
        begin=begin,
        end=end,
        brokers=tuple(loads),
        topics=len(cluster.by_topic),
        partitions=len(partitions),
        offline=leaders[None],
    )
