"""The agent: beside a poller, it holds and opens gates, and reports to the tracker what this process does."""

import uuid
from typing import Final

from kafka_partition_events.control.agents.agent_thread import START_LIMIT_S, AgentLink, ControlAgent
from kafka_partition_events.control.agents.leases import SPREAD_S
from kafka_partition_events.control.agents.producer_duties import ProducerDuties
from kafka_partition_events.control.protocol.records import Lease
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner

_ADOPTING_S: Final = 0.25


class ProducerAgent(ControlAgent, PartitionChangeListener):
    """Follows changes for one poller, and for all partitioners that are registered there.

    It is made after the producer that is to be gated, and begins before the first record::

        with ProducerAgent(producer.poller, ControlLink(config), "shop-0"):
            ...

    It reads ``kpe.changes`` every 30 s or so, every 2 s while a change of its topics is open, and at once
    when its poller sees a topic grow. Each read costs one request if there is nothing new. It never makes
    ``send`` wait or fail, and without the control topics the application runs as if it were not there: with a
    line in the log, again when they are back.

    The poller's `close` closes it. What holds for partitioners stays: who goes on producing without an agent
    does not open a gate.

    Thread-safe. For the process that made it.
    """

    def __init__(
        self,
        poller: MetadataPoller,
        link: AgentLink,
        instance_id: str,
        *,
        spread: float = SPREAD_S,
        clock: Clock | None = None,
    ) -> None:
        """Make an agent; nothing is asked before `start`.

        Args:
            poller: Its partitioners get the limits.
            link: Reaches the control topics; the agent closes it.
            instance_id: Its name, the same after a restart; no other agent has it, in this process either.
            spread: Over how many seconds the news of a fleet is spread.
            clock: For tests.
        """
        lease = Lease(instance_id=instance_id, incarnation=uuid.uuid4().hex, lease_seq=0)
        self._duties = ProducerDuties(lease, spread=spread)
        self._poller = poller
        self._awaited = 0
        super().__init__(link, self._duties, clock)

    def start(self, limit: float = START_LIMIT_S) -> bool:
        """Start, as `ControlAgent.start`; without the control topics nothing is held until they can be read.

        Raises:
            PollerClosedError: the poller has been closed.
            ConfigurationError: the agent was started before.
        """
        self._poller.register(self, replay=False)
        return super().start(limit)

    def on_topic_added(self, event: Event) -> None:
        """See at once what holds, and whether there was a request."""
        self._wake()

    on_topic_recreated = on_partitions_added = on_resync = on_topic_added

    def _act(self, now: float) -> float:
        """Set limits, report."""
        cluster = self._poller.cluster
        used = self._limit(cluster, now)
        if used is None:
            return now + _ADOPTING_S
        return self._publish(self._duties.says(cluster, used, now))

    def _limit(self, cluster: Cluster | None, now: float) -> dict[str, int] | None:
        """Set the limits; return how many partitions of each topic the most modest partitioner uses.

        None while one is about to adopt the snapshot: it would seem to be capped.
        """
        limits = self._duties.limits(cluster, now)
        partitioners = [r.listener for r in self._poller.registrations if isinstance(r.listener, Partitioner)]
        used: dict[str, int] = {}
        for partitioner in partitioners:
            for event in partitioner.routing.limit(limits):
                self._poller.emit(event)
            if cluster is None or partitioner.routing.generation is None:
                continue
            if partitioner.routing.generation != cluster.generation != self._awaited:
                self._awaited = cluster.generation  # once: it may have failed to
                return None
            for topic in cluster.by_topic:
                if (route := partitioner.route(topic)) is not None:
                    used[topic] = min(len(route.admitted), used.get(topic, len(route.admitted)))
        return used
