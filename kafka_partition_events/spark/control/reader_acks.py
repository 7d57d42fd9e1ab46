"""Spark as a reader that a change can wait for: a query's progress tells which partitions it has.

Spark's Kafka source is in no consumer group and commits nothing to Kafka; its positions are in the query's
checkpoint. It begins a partition that comes with growth at its beginning, whatever ``startingOffsets`` says,
so nothing is to be pinned.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from kafka_partition_events.control.agents.agent_thread import Link
from kafka_partition_events.control.agents.consumer_agent import ConsumerAgent
from kafka_partition_events.control.agents.consumer_duties import Reading
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.spark.kafka import Offsets, offsets_in

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
    )


class ReaderAcks(StreamingQueryListener):
    """Tells the tracker which partitions streaming queries read, as their progress shows.

    ::

        spark.streams.addListener(ReaderAcks(lambda: ControlLink(config)))

    Each query is an instance of its own, ``spark:QUERY_ID``, which outlives restarts from a checkpoint. A
    change waits for it under the name ``spark:NAME`` where the query has a name, else under its instance id:
    in ``required_groups``, or, as it has a lease, with all others that read the topic.

    A partition in a progress's end offset has a position that a restart keeps. One whose end offset is beyond
    where the query began flows. Spark calls listeners one after the other, on a thread of its own.
    """

    def __init__(self, link: Callable[[], Link], *, cluster_id: str | None = None) -> None:
        """Make a listener.

        Args:
            link: Makes a link to the control topics, one for each query.
            cluster_id: Kafka's id of the cluster that the queries read; None: changes of topics that are
                called the same on any cluster are answered.
        """
        self._link = link
        self._cluster_id = cluster_id
        self._queries: dict[str, tuple[ConsumerAgent, Reading]] = {}

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802 - Spark's name
        """Begin to follow a query."""
        id_ = f"spark:{event.id}"
        group = f"spark:{event.name}" if event.name else id_
        agent = ConsumerAgent(self._link(), id_, group)
        self._queries[str(event.id)] = (agent, Reading(cluster_id=self._cluster_id))
        agent.start(limit=0.0)  # a query waits for its listeners to hear that it starts

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:  # noqa: N802
        """Tell what it has read."""
        id_ = str(event.progress.id)
        if id_ not in self._queries:  # it ran before the listener was added
            return
        agent, reading = self._queries[id_]
        after = advanced(reading, _offsets_of(event.progress.sources))
        self._queries[id_] = (agent, after)
        if after != reading:
            agent.tell(after)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: what it has read is as before."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: N802
        """Say that it is gone; one that runs again from its checkpoint has the same name."""
        if (known := self._queries.pop(str(event.id), None)) is not None:
            known[0].close()


def advanced(reading: Reading, end: Offsets) -> Reading:
    """Return what a query reads after a progress, as far as known. Pure.

    ``end`` is empty if the progress has no offsets.
    """
    if not end:
        return reading
    counts: dict[str, int] = {}
    for tp in end:
        counts[tp.topic] = max(counts.get(tp.topic, 0), tp.partition + 1)
    has = frozenset(end)
    return Reading(cluster_id=reading.cluster_id, counts=counts, assigned=has, positioned=has)


def _offsets_of(sources: "Iterable[SourceProgress]") -> Offsets:
    end: dict[TopicPartition, int] = {}
    for source in sources:
        if source.description.startswith("KafkaV"):
            end |= offsets_in(source.endOffset)
    return end
