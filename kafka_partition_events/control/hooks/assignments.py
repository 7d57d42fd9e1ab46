"""What the hooks of all clients share: which partitions are pinned, and what the agent is told."""

from collections.abc import Collection, Iterable
from typing import Final

from attrs import define, evolve, field

from kafka_partition_events.control.consumer_agent import ConsumerAgent
from kafka_partition_events.control.pinning import to_pin
from kafka_partition_events.control.reading import Reading
from kafka_partition_events.metadata.cluster import TopicPartition

LIMIT_S: Final = 5.0
"""How many seconds a hook may hold up a rebalance."""


@define
class Assignments:
    """What one consumer was given. One thread at a time: the one that calls rebalance callbacks.

    Attributes:
        agent: Who is told; None: nobody.
        reading: What the consumer has.
    """

    agent: ConsumerAgent | None
    reading: Reading = field(factory=Reading)

    def knows(self, topic: str, count: int, cluster_id: str | None = None) -> None:
        """Take note of how many partitions a topic has.

        The lowest number counts: what was not there when the consumer first saw the topic is new to it, until
        its group has committed something. Were the number to rise with every look, it might already tell of
        growth when an assignment does not, and the next assignment would bring nothing new.
        """
        counts = {**self.reading.counts, topic: min(count, self.reading.counts.get(topic, count))}
        self.reading = evolve(self.reading, counts=counts, cluster_id=cluster_id or self.reading.cluster_id)

    def unknown_topics(self, assigned: Iterable[TopicPartition]) -> set[str]:
        """Return the topics whose number of partitions is not known."""
        return {tp.topic for tp in assigned} - self.reading.counts.keys()

    def to_pin(
        self, assigned: Iterable[TopicPartition], committed: Collection[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the partitions whose beginning is to be committed."""
        cluster_id = self.reading.cluster_id
        changes = () if self.agent is None else self.agent.changes
        here = [c for c in changes if cluster_id is None or c.spec.cluster_id == cluster_id]
        return to_pin(assigned, committed, self.reading.counts, here)

    def gained(self, assigned: Iterable[TopicPartition], positioned: Iterable[TopicPartition]) -> None:
        """Take note of an assignment, whole or a part of one, and of positions that a restart keeps."""
        self._have(self.reading.assigned.union(assigned), self.reading.positioned.union(positioned))

    def lost(self, partitions: Iterable[TopicPartition]) -> None:
        """Take note that partitions were taken away. The group's positions stay."""
        self._have(self.reading.assigned.difference(partitions), self.reading.positioned)

    def _have(self, assigned: frozenset[TopicPartition], positioned: frozenset[TopicPartition]) -> None:
        self.reading = evolve(self.reading, assigned=assigned, positioned=positioned)
        if self.agent is not None:
            self.agent.tell(self.reading)
