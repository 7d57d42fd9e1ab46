"""What a process says that reads topics, and which partitions are new to it. Pure."""

from collections.abc import Collection, Iterable, Mapping

from attrs import define, field, frozen

from kafka_partition_events.control.agents.leases import Leaseholder, Reports
from kafka_partition_events.control.protocol.partition_set import Coverage, PartitionSet
from kafka_partition_events.control.protocol.records import Ack, Change, TopicUse, group_name
from kafka_partition_events.control.protocol.vocabulary import Status
from kafka_partition_events.metadata.cluster import TopicPartition


@frozen(kw_only=True)
class Reading:
    """What a process reads now.

    Attributes:
        counts: How many partitions the topics had that it reads: the lowest number that it has seen. What was
            not there at first is new to its group until that has committed something.
        assigned: The partitions that it has now.
        positioned: Those on which its group has a position that a restart keeps, as far as it knows; it does
            not have to have them any more.
    """

    counts: Mapping[str, int] = field(factory=dict)
    assigned: frozenset[TopicPartition] = frozenset()
    positioned: frozenset[TopicPartition] = frozenset()


@define
class ConsumerDuties(Leaseholder):
    """The duties of one reader. Not thread-safe.

    There are tens of members where there may be thousands of producers, and a gate may wait for them: so
    they answer at once.
    """

    _said: dict[str, Coverage] = field(factory=dict, init=False)

    def reports(self, reading: Reading, now: float) -> Reports:
        """Return what to publish."""
        changes = [change for change in self.ledger.changes.values() if _concerns(change, reading)]
        self._said = {c.change_id: self._said[c.change_id] for c in changes if c.change_id in self._said}
        acks = tuple(self._ack(c, reading) for c in changes if self._said.get(c.change_id) != _of(c, reading))
        lease = self.next_lease(_view(reading, changes), now)
        return Reports(acks=acks, lease=lease, again_at=self.lease_due, busy=bool(changes))

    def _ack(self, change: Change, reading: Reading) -> Ack:
        self._said[change.change_id] = levels = _of(change, reading)
        ready = bool(levels.assigned) and levels.assigned <= levels.positioned
        status = Status.APPLIED if ready else Status.OBSERVED
        return self.ack(change, status, assigned=levels.assigned, positioned=levels.positioned)

    def needs(self, change: Change) -> bool:
        """Tell whether a change is open, or over and has waited for this group; as `Leaseholder.needs`.

        The members may come back when it is over: what it has added is still new to them.
        """
        waited = {one.group for one in change.groups}
        mine = self.lease.group is not None and group_name(self.lease.group) in waited
        return not change.state.final or (change.observed_ms is not None and mine)

    def was_lost(self, ack: Ack, now: float) -> None:
        """Take note that an ack was not appended: it is said again at the next look."""
        self._said.pop(ack.change_id, None)


def _concerns(change: Change, reading: Reading) -> bool:
    return not change.state.final and change.spec.topic in reading.counts


def _of(change: Change, reading: Reading) -> Coverage:
    spec, affected = change.spec, change.spec.affected

    def those(partitions: Iterable[TopicPartition]) -> PartitionSet:
        return PartitionSet.of(
            tp.partition for tp in partitions if tp.topic == spec.topic and tp.partition in affected
        )

    return Coverage(assigned=those(reading.assigned), positioned=those(reading.positioned))


def _seen(topic: str, reading: Reading) -> int:
    known = (tp.partition for tp in reading.assigned if tp.topic == topic)
    return max(reading.counts.get(topic, 0), 1 + max(known, default=-1))


def _view(reading: Reading, changes: list[Change]) -> tuple[TopicUse, ...]:
    first = {change.spec.topic for change in changes}
    return tuple(
        TopicUse(
            topic=topic, seen=_seen(topic, reading), used=sum(tp.topic == topic for tp in reading.assigned)
        )
        for topic in sorted(reading.counts, key=lambda topic: (topic not in first, topic))
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
