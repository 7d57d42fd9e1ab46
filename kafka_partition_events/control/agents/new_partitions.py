"""Which partitions a consumer must begin to read at their beginning, because they are new. Pure.

With ``auto.offset.reset=latest`` a consumer begins where a partition ends when it is assigned. For a
partition that came with growth that is wrong: what was written there before, the group will never read. A
partition is new to a group that has not committed an offset for it, if

- it was not there when this consumer last got an assignment of its topic; or
- it lies beyond the count with which a change began that is open, or that is over and has waited for the
  group: its members may all have been away.

Anything else is left to ``auto.offset.reset``: an idle partition without a commit may be old, and its records
were skipped on purpose.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from attrs import define, evolve, field

from kafka_partition_events.control.agents.consumer_agent import ConsumerAgent
from kafka_partition_events.control.agents.consumer_duties import Reading
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.metadata.cluster import TopicPartition


def to_pin(
    assigned: Iterable[TopicPartition],
    committed: Collection[TopicPartition],
    counts_before: Mapping[str, int],
    changes: Iterable[Change],
) -> list[TopicPartition]:
    """Return the partitions whose beginning is to be committed as the group's position.

    Args:
        assigned: What the consumer was just given.
        committed: Those for which the group has an offset.
        counts_before: How many partitions each topic had at the last assignment; a topic that is missing was
            not known then.
        changes: Those that say what is new; see `ConsumerDuties.needs`.
    """
    first_new = {**counts_before}
    for change in changes:
        spec = change.spec
        first_new[spec.topic] = min(spec.from_count, first_new.get(spec.topic, spec.from_count))
    return [
        tp
        for tp in assigned
        if tp not in committed and tp.partition >= first_new.get(tp.topic, tp.partition + 1)
    ]


LIMIT_S: Final = 5.0
"""How many seconds a hook may hold up a rebalance."""


@define
class Assignments:
    """What one consumer was given. One thread at a time: the one that calls rebalance callbacks.

    Attributes:
        agent: Reports it; None: it is not reported.
        reading: What the consumer has.
    """

    agent: ConsumerAgent | None
    reading: Reading = field(factory=Reading)

    def knows(self, topic: str, count: int) -> None:
        """Take note of how many partitions a topic has.

        The lowest number counts: what was not there when the consumer first saw the topic is new to it, until
        its group has committed something. Were the number to rise with every look, it might already tell of
        growth when an assignment does not, and the next assignment would bring nothing new.
        """
        counts = {**self.reading.counts, topic: min(count, self.reading.counts.get(topic, count))}
        self.reading = evolve(self.reading, counts=counts)

    def unknown_topics(self, assigned: Iterable[TopicPartition]) -> set[str]:
        """Return the topics whose number of partitions is not known."""
        return {tp.topic for tp in assigned} - self.reading.counts.keys()

    def to_pin(
        self, assigned: Iterable[TopicPartition], committed: Collection[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the partitions whose beginning is to be committed."""
        changes = () if self.agent is None else self.agent.changes
        return to_pin(assigned, committed, self.reading.counts, changes)

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
