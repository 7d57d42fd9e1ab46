"""What holds of all that was ever appended: the last writer wins, by a total order. Pure.

`latest` takes two records of one key and returns one of them; it is commutative, associative and
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
from typing import Any, Final, Generic, TypeVar

from attrs import define, field, frozen

from kafka_partition_events.control.protocol.codec import Place, Skipped, as_json, decode_or_skip
from kafka_partition_events.control.protocol.records import Ack, Change, Lease

_MOST_RETIRED: Final = 10_000

Logged = TypeVar("Logged", Lease, Ack)


@frozen
class Appended(Generic[Logged]):
    """A record, and when the broker appended it, in milliseconds since 1970."""

    record: Logged
    at_ms: int

    @property
    def born_ms(self) -> int:
        """When the process that wrote it appended its first lease, as far as it tells; no later than this."""
        return self.at_ms if self.record.born_ms is None else min(self.at_ms, self.record.born_ms)


AnyValue = TypeVar("AnyValue", Change, Appended[Lease], Appended[Ack])


def latest(one: AnyValue, other: AnyValue) -> AnyValue:
    """Return the later one of two values of one key."""
    first, second = _order(one), _order(other)
    if first == second and one != other:
        return max(one, other, key=_digest)
    return one if first >= second else other


def _order(value: Change | Appended[Any]) -> tuple[int | str, ...]:
    if isinstance(value, Change):
        return value.tracker_epoch, value.revision
    record = value.record
    seq = record.lease_seq if isinstance(record, Lease) else record.ack_seq
    return value.born_ms, record.incarnation, seq, value.at_ms


def _digest(value: Change | Appended[Any]) -> bytes:
    record = value if isinstance(value, Change) else value.record
    return hashlib.sha256(as_json(record)).digest()  # one that SQL has, too


@define
class Ledger:
    """What was read so far. Not thread-safe.

    Attributes:
        changes: By id.
        leases: By instance id.
        acks: By change and instance.
        retired: The ids of changes with a tombstone, the last ten thousand. Ids are never used again, so
            whatever else comes under one is older.
    """

    changes: dict[str, Change] = field(factory=dict)
    leases: dict[str, Appended[Lease]] = field(factory=dict)
    acks: dict[str, dict[str, Appended[Ack]]] = field(factory=dict)
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
            self.changes[id_] = latest(self.changes.get(id_, change), change)

    def take_tombstone(self, change_id: str) -> None:
        """Take the end of a change."""
        self.retired[change_id] = None
        if len(self.retired) > _MOST_RETIRED:
            del self.retired[next(iter(self.retired))]
        self.changes.pop(change_id, None)
        self.acks.pop(change_id, None)

    def take_lease(self, lease: Lease, at_ms: int) -> None:
        """Take a record of ``kpe.leases``."""
        found = Appended(lease, at_ms)
        self.leases[lease.instance_id] = latest(self.leases.get(lease.instance_id, found), found)

    def take_ack(self, ack: Ack, at_ms: int) -> None:
        """Take a record of ``kpe.acks``."""
        if ack.change_id not in self.retired:
            of_change = self.acks.setdefault(ack.change_id, {})
            found = Appended(ack, at_ms)
            of_change[ack.instance_id] = latest(of_change.get(ack.instance_id, found), found)

    def drop_acks(self) -> None:
        """Forget answers to changes that are over, or that nobody knows: a fleet writes many in a month.

        For who writes the changes: no answer comes sooner.
        """
        still_open = {id_ for id_, change in self.changes.items() if not change.state.final}
        self.acks = {id_: acks for id_, acks in self.acks.items() if id_ in still_open}

    def drop_lost(self, before_ms: int) -> None:
        """Forget instances that have not been heard of since then, as the topic itself does."""
        self.leases = {name: lease for name, lease in self.leases.items() if lease.at_ms >= before_ms}

    def keep(self, needed: Callable[[Change], bool]) -> None:
        """Forget changes that a reader has no use for; most of what a right to write can add is refused."""
        self.changes = {id_: change for id_, change in self.changes.items() if needed(change)}

    def next_epoch(self) -> int:
        """Return the epoch of a tracker that has fenced all others and then read everything."""
        return 1 + max((change.tracker_epoch for change in self.changes.values()), default=0)
