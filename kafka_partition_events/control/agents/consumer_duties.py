"""What a process says that reads topics, and which partitions are new to it. Pure."""

from collections.abc import Collection, Iterable, Mapping

from attrs import field, frozen

from kafka_partition_events.control.agents.leases import Leaseholder, Report
from kafka_partition_events.control.protocol.partition_set import NO_PARTITIONS, PartitionSet
from kafka_partition_events.control.protocol.records import Change, TopicUse, group_name
from kafka_partition_events.metadata.cluster import TopicPartition


@frozen(kw_only=True)
class ConsumerReading:
    """What a process reads now.

    Attributes:
        counts: How many partitions the topics had that it reads: the lowest number that it has seen. What was
            not there at first is new to its group until that has committed something.
        assigned: The partitions that it has now.
        positioned: Those on which its group has a position that a restart keeps, as far as it knows.
    """

    counts: Mapping[str, int] = field(factory=dict)
    assigned: frozenset[TopicPartition] = frozenset()
    positioned: frozenset[TopicPartition] = frozenset()


class ConsumerDuties(Leaseholder):
    """The duties of one reader. Not thread-safe.

    There are tens of members where there may be thousands of producers, and a gate may wait for them: so
    they say at once what is new.
    """

    def says(self, reading: ConsumerReading, now: float) -> Report:
        """Return what to publish."""
        mine = {c.spec.topic: c for c in self.ledger.changes.values() if not c.state.final}
        topics = sorted(reading.counts, key=lambda topic: (topic not in mine, topic))
        view = tuple(_use(topic, reading, mine.get(topic)) for topic in topics)
        return self.report(view, now, busy=not mine.keys().isdisjoint(topics))

    def needs(self, change: Change) -> bool:
        """Return whether a change is open, or over and has waited for this group; as `Leaseholder.needs`.

        The members may come back when it is over: what it has added is still new to them.
        """
        waited = {one.group for one in change.groups}
        mine = self.lease.group is not None and group_name(self.lease.group) in waited
        return not change.state.final or (change.observed_ms is not None and mine)


def _use(topic: str, reading: ConsumerReading, change: Change | None) -> TopicUse:
    assigned = [tp.partition for tp in reading.assigned if tp.topic == topic]
    positioned = [tp.partition for tp in reading.positioned if tp.topic == topic]
    new = NO_PARTITIONS if change is None else change.spec.affected
    return TopicUse(
        topic=topic,
        seen=max(reading.counts[topic], 1 + max(assigned, default=-1)),
        used=len(assigned),
        positioned=PartitionSet.of(id_ for id_ in positioned if id_ in new),
    )


def to_pin(
    assigned: Iterable[TopicPartition],
    committed: Collection[TopicPartition],
    counts_before: Mapping[str, int],
    changes: Iterable[Change],
) -> list[TopicPartition]:
    """Return the partitions that a consumer must begin to read at their beginning, because they are new.

    With ``auto.offset.reset=latest`` a consumer begins where a partition ends when it is assigned. For a
    partition that came with growth that is wrong: what was written there before, the group will never read. A
    partition is new to a group that has not committed an offset for it, if

    - it was not there when this consumer first saw its topic; or
    - it lies beyond the count with which a change began that is open, or that is over and has waited for the
      group: its members may all have been away.

    Anything else is left to ``auto.offset.reset``: an idle partition without a commit may be old, and its
    records were skipped on purpose.

    Args:
        assigned: What the consumer was just given.
        committed: Those for which the group has an offset.
        counts_before: How many partitions each topic had; one that is missing was not known then.
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
