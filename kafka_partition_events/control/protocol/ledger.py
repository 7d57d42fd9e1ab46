"""What holds of all that was ever appended: the last writer wins, by a total order. Pure.

Each ``latest_*`` takes two records of one key and returns one of them; it is commutative, associative and
idempotent. So it does not matter to tracker, instances or Spark in which order records come, how often, or
that some are read again.

What comes last is decided by

- changes: the tracker's epoch, then the revision. What a tracker writes after another one has taken over has
  a lower epoch;
- leases and acks: when the *first* lease of the process was appended, by the broker's clock, then the
  process's own count. No clock of an instance takes part, and a process that lingers on after its successor
  was born never wins.

Equal records are the same; if two differ in nothing but their content, a hash of that decides.
"""

import hashlib
from collections.abc import Callable
from functools import reduce
from typing import Final, Generic, TypeVar

from attrs import define, field, frozen

from kafka_partition_events.control.protocol.codec import Place, Record, Skipped, as_json, decode_or_skip
from kafka_partition_events.control.protocol.records import Ack, Approval, Change, Lease
from kafka_partition_events.control.protocol.vocabulary import State

_MOST_RETIRED: Final = 10_000

AnyValue = TypeVar("AnyValue")
Logged = TypeVar("Logged", Lease, Ack)

_MOST_APPROVED: Final = 1_000
_MOST_APPROVALS: Final = 100


@frozen
class Appended(Generic[Logged]):
    """A record, and when the broker appended it, in milliseconds since 1970."""

    record: Logged
    at_ms: int

    @property
    def born_ms(self) -> int:
        """When the process that wrote it appended its first lease, as far as it tells; no later than this."""
        return self.at_ms if self.record.born_ms is None else min(self.at_ms, self.record.born_ms)


@frozen
class Tenancy:
    """Who uses an instance id.

    Attributes:
        holder: The last lease.
        rival: The last one of all other processes; None if there was none.
    """

    holder: Appended[Lease]
    rival: Appended[Lease] | None = None


def latest_change(one: Change, other: Change) -> Change:
    """Return the later state of a change."""
    return _later(one, other, lambda change: (change.tracker_epoch, change.revision), lambda change: change)


def latest_ack(one: Appended[Ack], other: Appended[Ack]) -> Appended[Ack]:
    """Return the later answer of an instance to a change."""
    return _later(one, other, lambda ack: (*_process(ack), ack.record.ack_seq, ack.at_ms), _record)


def latest_tenancy(one: Tenancy, other: Tenancy) -> Tenancy:
    """Return who uses an instance id, given all leases that both know."""
    leases = [one.holder, other.holder, *_rivals(one), *_rivals(other)]
    holder = reduce(_later_lease, leases)
    rivals = [lease for lease in leases if lease.record.incarnation != holder.record.incarnation]
    return Tenancy(holder, reduce(_later_lease, rivals) if rivals else None)


def _later_lease(one: Appended[Lease], other: Appended[Lease]) -> Appended[Lease]:
    return _later(one, other, lambda lease: (*_process(lease), lease.record.lease_seq, lease.at_ms), _record)


def _later(
    one: AnyValue,
    other: AnyValue,
    order: Callable[[AnyValue], tuple[int | str, ...]],
    content: Callable[[AnyValue], Record],
) -> AnyValue:
    first, second = order(one), order(other)
    if first == second and one != other:
        return max(one, other, key=lambda value: _digest(content(value)))
    return max(one, other, key=order)


def _record(appended: Appended[Logged]) -> Logged:
    return appended.record


@define
class Ledger:
    """What was read so far. Not thread-safe.

    Attributes:
        changes: By id.
        tenancies: By instance id.
        acks: By change and instance.
        approvals: Those of changes that wait for one or are not known yet, by change; as they came.
        retired: The ids of changes with a tombstone, the last ten thousand. Ids are never used again, so
            whatever else comes under one is older.
    """

    changes: dict[str, Change] = field(factory=dict)
    tenancies: dict[str, Tenancy] = field(factory=dict)
    acks: dict[str, dict[str, Appended[Ack]]] = field(factory=dict)
    approvals: dict[str, list[Approval]] = field(factory=dict)
    retired: dict[str, None] = field(factory=dict)

    def take_written(self, key: bytes, value: bytes | None, skipped: Skipped, at: Place) -> None:
        """Take a record of ``kpe.changes`` as it stands there; what is none is noted, and passed over."""
        if value is None:
            self.take_tombstone(key.decode(errors="replace").rpartition("|")[2])
        elif (change := decode_or_skip(Change, value, skipped, at)) is not None:
            self.take_change(change)

    def take_change(self, change: Change) -> None:
        """Take a record of ``kpe.changes``."""
        id_ = change.change_id
        if id_ not in self.retired:
            known = self.changes.get(id_)
            self.changes[id_] = change if known is None else latest_change(known, change)

    def take_tombstone(self, change_id: str) -> None:
        """Take the end of a change."""
        self.retired[change_id] = None
        if len(self.retired) > _MOST_RETIRED:
            del self.retired[next(iter(self.retired))]
        self.changes.pop(change_id, None)
        self.acks.pop(change_id, None)
        self.approvals.pop(change_id, None)

    def take_approval(self, approval: Approval) -> None:
        """Take a record of ``kpe.approvals``."""
        id_, known = approval.change_id, self.changes.get(approval.change_id)
        if id_ in self.retired or (known is not None and known.state is not State.REQUESTED):
            return
        self.approvals[id_] = [*self.approvals.get(id_, ()), approval][-_MOST_APPROVALS:]
        if len(self.approvals) > _MOST_APPROVED:
            del self.approvals[next(iter(self.approvals))]

    def take_lease(self, lease: Lease, at_ms: int) -> None:
        """Take a record of ``kpe.leases``."""
        found = Tenancy(Appended(lease, at_ms))
        known = self.tenancies.get(lease.instance_id)
        self.tenancies[lease.instance_id] = found if known is None else latest_tenancy(known, found)

    def take_ack(self, ack: Ack, at_ms: int) -> None:
        """Take a record of ``kpe.acks``."""
        if ack.change_id not in self.retired:
            of_change = self.acks.setdefault(ack.change_id, {})
            found, known = Appended(ack, at_ms), of_change.get(ack.instance_id)
            of_change[ack.instance_id] = found if known is None else latest_ack(known, found)

    def drop_finished(self) -> None:
        """Forget the answers to changes that are finished: a fleet's acks of a month are many."""
        for change_id, change in self.changes.items():
            if change.state.final:
                self.acks.pop(change_id, None)
            if change.state is not State.REQUESTED:
                self.approvals.pop(change_id, None)

    def drop_strays(self) -> None:
        """Forget answers to changes that nobody knows. For who writes the changes: no answer comes sooner."""
        for change_id in self.acks.keys() - self.changes.keys():
            del self.acks[change_id]

    def drop_lost(self, before_ms: int) -> None:
        """Forget instances that have not been heard of since then, as the topic itself does."""
        lost = [name for name, tenancy in self.tenancies.items() if tenancy.holder.at_ms < before_ms]
        for name in lost:
            del self.tenancies[name]

    def next_epoch(self) -> int:
        """Return the epoch of a tracker that has fenced all others and then read everything."""
        return 1 + max((change.tracker_epoch for change in self.changes.values()), default=0)


def _process(appended: Appended[Logged]) -> tuple[int, str]:
    return appended.born_ms, appended.record.incarnation


def _rivals(tenancy: Tenancy) -> tuple[Appended[Lease], ...]:
    return () if tenancy.rival is None else (tenancy.rival,)


def _digest(record: Record) -> bytes:
    return hashlib.sha256(as_json(record)).digest()  # one that SQL has, too
