"""The agent: beside a poller, it holds and opens gates, and tells the tracker what this process does."""

import uuid
from collections.abc import Callable
from typing import Final

from attrs import evolve

from kafka_partition_events.control.agent_thread import START_LIMIT_S, ControlAgent
from kafka_partition_events.control.duties import Duties
from kafka_partition_events.control.link import ControlLink
from kafka_partition_events.control.records import Lease
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import PartitionsAdded, Resync, TopicAdded, TopicRecreated
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner

_ADOPTING_S: Final = 0.25


class InstanceAgent(ControlAgent, PartitionChangeListener):
    """Follows changes for one poller, and for all partitioners that are registered there.

    It is made after the producer that is to be gated::

        agent = InstanceAgent(producer.poller, link, lease)
        agent.start()  # before the first record

    It looks at ``kpe.changes`` every 30 s or so, every 2 s while a change of its topics is open, and at once
    when its poller sees a topic grow. Each look costs one request if there is nothing new. It never makes
    ``send`` wait or fail, and without the control topics the application runs as if it were not there: with a
    line in the log, again when they are back.

    Thread-safe. A forked child is an instance of its own, with its process id behind the instance id.
    """

    def __init__(
        self,
        poller: MetadataPoller,
        link: ControlLink,
        lease: Lease,
        *,
        duties: Callable[[Lease], Duties] = Duties,
        clock: Clock | None = None,
    ) -> None:
        """Make an agent; nothing is asked before `start`.

        Args:
            poller: Whose partitioners are told what to do.
            link: Reaches the control topics; the agent closes it.
            lease: What to say of this process; what changes with time is filled in.
            duties: Makes what decides, for policies of the application: see `Duties`.
            clock: For tests.
        """
        self._duties = duties(evolve(lease, incarnation=uuid.uuid4().hex))
        self._poller = poller
        self._awaited = 0
        super().__init__(link, self._duties, clock)

    def start(self, limit: float = START_LIMIT_S) -> bool:
        """Start the thread, and wait until what holds now is known and done.

        Args:
            limit: Seconds to wait at most.

        Returns:
            Whether the control topics could be read. If not, nothing is held until they can be.

        Raises:
            PollerClosedError: the poller has been closed.
            ConfigurationError: the agent was started before.
        """
        self._poller.register(self, replay=False)
        return super().start(limit)

    def close(self) -> None:
        """Stop, and say so; the poller's `close` calls it. Idempotent.

        What holds for partitioners stays: whoever goes on producing without an agent does not open a gate.
        """
        super().close()

    def on_topic_added(self, event: TopicAdded) -> None:
        """Look for changes of a topic that is written from now on."""
        self._wake()

    def on_topic_recreated(self, event: TopicRecreated) -> None:
        """Look what still holds."""
        self._wake()

    def on_partitions_added(self, event: PartitionsAdded) -> None:
        """Look whether somebody has asked for the growth."""
        self._wake()

    def on_resync(self, event: Resync) -> None:
        """Look at everything."""
        self._wake()

    def _act(self, now: float) -> float:
        """Set limits, report."""
        cluster = self._poller.cluster
        used = self._limit(cluster, now)
        if used is None:
            return now + _ADOPTING_S
        return self._publish(self._duties.reports(cluster, used, now), now)

    def _limit(self, cluster: Cluster | None, now: float) -> dict[str, int] | None:
        """Set the limits; return how many partitions of each topic the most modest partitioner uses.

        None while one is about to adopt the snapshot: it would seem to be capped.
        """
        limits = self._duties.limits(cluster, now)
        used: dict[str, int] = {}
        for registration in self._poller.registrations:
            partitioner = registration.listener
            if not isinstance(partitioner, Partitioner):
                continue
            for event in partitioner.limit(limits):
                self._poller.emit(event)
            if cluster is None or partitioner.generation is None:
                continue
            if partitioner.generation != cluster.generation != self._awaited:
                self._awaited = cluster.generation  # once: it may have failed to
                return None
            for topic in cluster.by_topic:
                if (route := partitioner.route(topic)) is not None:
                    used[topic] = min(len(route.admitted), used.get(topic, len(route.admitted)))
        return used
