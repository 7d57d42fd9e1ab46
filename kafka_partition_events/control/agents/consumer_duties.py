"""What a process says that reads topics: leases, and how far it is with what comes and goes. Pure."""

from collections.abc import Mapping

from attrs import define, field, frozen

from kafka_partition_events.control.agents.leases import Leaseholder, Reports
from kafka_partition_events.control.protocol.records import Ack, Change, Lease, TopicUse
from kafka_partition_events.control.protocol.vocabulary import Role, Status
from kafka_partition_events.metadata.cluster import TopicPartition


@frozen(kw_only=True)
class Reading:
    """What a process reads now.

    Attributes:
        cluster_id: The cluster; None: not known.
        counts: How many partitions it knows of the topics that it reads.
        assigned: The partitions that it has now.
        positioned: Those on which its group has a position that a restart keeps, as far as it knows; it does
            not have to have them any more.
        flowing: Those on which it is beyond where it began.
    """

    cluster_id: str | None = None
    counts: Mapping[str, int] = field(factory=dict)
    assigned: frozenset[TopicPartition] = frozenset()
    positioned: frozenset[TopicPartition] = frozenset()
    flowing: frozenset[TopicPartition] = frozenset()


@frozen
class _Levels:
    assigned: frozenset[int]
    positioned: frozenset[int]
    flowing: frozenset[int]


@define
class ConsumerDuties(Leaseholder):
    """The duties of one reader. Not thread-safe.

    There are tens of members where there may be thousands of producers, and a gate may wait for them: so
    they answer at once.
    """

    _said: dict[str, _Levels] = field(factory=dict, init=False)
    _acks: int = field(default=0, init=False)

    def reports(self, reading: Reading, now: float) -> Reports:
        """Return what to publish.

        Args:
            reading: What the process reads.
            now: The time, in monotonic seconds.
        """
        changes = [change for change in self.ledger.changes.values() if _concerns(change, reading)]
        self._said = {c.change_id: self._said[c.change_id] for c in changes if c.change_id in self._said}
        acks = tuple(self._ack(c, reading) for c in changes if self._said.get(c.change_id) != _of(c, reading))
        lease = self.next_lease(_view(reading, changes), reading.cluster_id, now)
        return Reports(acks=acks, lease=lease, again_at=self.lease_due, busy=bool(changes))

    def _ack(self, change: Change, reading: Reading) -> Ack:
        self._said[change.change_id] = levels = _of(change, reading)
        self._acks += 1
        count = _seen(change.spec.topic or "", reading)
        ready = levels.assigned and levels.assigned <= levels.positioned and change.spec.kind.grows
        return Ack(
            change_id=change.change_id,
            revision=change.revision,
            instance_id=self.lease.instance_id,
            incarnation=self.lease.incarnation,
            ack_seq=self._acks,
            born_ms=self.lease.born_ms,
            role=Role.CONSUMER,
            group=self.lease.group,
            status=Status.APPLIED if ready else Status.OBSERVED,
            seen_count=count,
            used_count=sum(tp.topic == change.spec.topic for tp in reading.assigned),
            assigned=levels.assigned,
            positioned=levels.positioned,
            flowing=levels.flowing,
        )

    def was_lost(self, ack: Ack, now: float) -> None:
        """Take note that an ack was not appended: it is said again at the next look."""
        self._said.pop(ack.change_id, None)

    def begin_again(self, lease: Lease) -> None:
        """Be another process, which has said nothing yet but knows what this one knew."""
        super().begin_again(lease)
        self._said, self._acks = {}, 0


def _concerns(change: Change, reading: Reading) -> bool:
    spec = change.spec
    here = reading.cluster_id is None or spec.cluster_id == reading.cluster_id
    return here and not change.state.final and spec.topic in reading.counts


def _of(change: Change, reading: Reading) -> _Levels:
    affected = {TopicPartition(change.spec.topic or "", partition) for partition in change.spec.affected}
    return _Levels(
        assigned=frozenset(tp.partition for tp in reading.assigned & affected),
        positioned=frozenset(tp.partition for tp in reading.positioned & affected),
        flowing=frozenset(tp.partition for tp in reading.flowing & affected),
    )


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
