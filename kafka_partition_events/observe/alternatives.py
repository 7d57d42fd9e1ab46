"""Tells when partitions lose their safe alternative, or get one. Derived here: no producer pays for it."""

from collections.abc import Callable
from datetime import datetime

from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.events import AlternativesChanged, Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.replicas import blockers, exposure_of


class AlternativesListener(PartitionChangeListener):
    """Emits `AlternativesChanged` after looks that found another number for a topic.

    What the first snapshot has is told as ``initial``; a topic that has gone is told by its own event.
    """

    name = "alternatives"
    survives_fork = False

    def __init__(self, emit: Callable[[Event], None], known: Cluster | None = None) -> None:
        """Make a listener.

        Args:
            emit: Tells an event to everybody: `MetadataPoller.emit`.
            known: The snapshot that the poller resumes from: what it has was told before.
        """
        self._emit = emit
        self._told = exposure_of(known or EMPTY)

    def on_settled(self, cluster: Cluster, looked_at: datetime | None) -> None:
        """Tell what is otherwise than in the last snapshot."""
        if cluster is self._told.cluster or cluster.generation == 0:
            return
        before, now = self._told, exposure_of(cluster, self._told)
        self._told = now
        for name in sorted({name for name, _ in before.by_topic.items() ^ now.by_topic.items()}):
            info = cluster.topic(name)
            if info is not None:
                self._emit(
                    AlternativesChanged(
                        topic=name,
                        topic_id=info.topic_id,
                        initial=before.cluster.generation == 0,
                        partitions=len(info.partitions),
                        old=before.by_topic.get(name, 0),
                        new=now.by_topic.get(name, 0),
                        brokers=tuple(sorted(blockers(info))),
                    )
                )
