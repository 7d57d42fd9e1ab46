"""What holds of all that was ever appended: the last writer wins, by a total order. Pure.

`latest` takes two records of one key and returns one of them; it is commutative, associative and
idempotent. So it does not matter to tracker, instances or Spark in which order records come, how often, or
that some are read again.

What comes last is decided by

- changes: the tracker's epoch, then the revision. What a tracker writes after another one has taken over has
  a lower epoch;
- leases: when the *first* lease of the process was appended, by the broker's clock, then the process's own
  count. No clock of an instance takes part, and a process that lingers on after its successor was born never
  wins.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import define, field, frozen

from kafka_partition_events.control.protocol.codec import Place, Skipped, decode_or_skip
from kafka_partition_events.control.protocol.records import Change, Lease


@frozen
class Appended:
    """A lease, and when the broker appended it, in milliseconds since 1970."""

    record: Lease
    at_ms: int

    @property
    def born_ms(self) -> int:
        """When the process that wrote it appended its first lease, as far as it says; no later than this."""
        return self.at_ms if self.record.born_ms is None else min(self.at_ms, self.record.born_ms)


Leases = Mapping[str, Appended]
"""The last one of each instance, by its id."""

AnyValue = TypeVar("AnyValue", Change, Appended)


def latest(one: AnyValue, other: AnyValue) -> AnyValue:
    """Return the later one of two values of one key."""
    first, second = _order(one), _order(other)
    if first == second:
        return max(one, other, key=repr)  # they differ in nothing but their content
    return one if first > second else other


def _order(value: Change | Appended) -> tuple[int | str, ...]:
    if isinstance(value, Change):
        return value.tracker_epoch, value.revision
    return value.born_ms, value.record.incarnation, value.record.lease_seq, value.at_ms


@define
class Ledger:
    """What was read so far. Not thread-safe.

    Attributes:
        changes: By id.
        leases: By instance id.
    """

    changes: dict[str, Change] = field(factory=dict)
    leases: dict[str, Appended] = field(factory=dict)

    def take_written(self, key: bytes, value: bytes | None, skipped: Skipped, at: Place) -> None:
        """Take a record of ``kpe.changes`` as it stands there; what is none is noted, and passed over."""
        if value is None:
            self.take_tombstone(key.decode(errors="replace"))
        elif (change := decode_or_skip(Change, value, skipped, at)) is not None:
            self.take_change(change)

    def take_change(self, change: Change) -> None:
        """Take a record of ``kpe.changes``."""
        id_ = change.change_id
        self.changes[id_] = latest(self.changes.get(id_, change), change)

    def take_tombstone(self, change_id: str) -> None:
        """Take the end of a change."""
        self.changes.pop(change_id, None)

    def take_lease(self, lease: Lease, at_ms: int) -> None:
        """Take a record of ``kpe.leases``."""
        found = Appended(lease, at_ms)
        self.leases[lease.instance_id] = latest(self.leases.get(lease.instance_id, found), found)

    def drop_lost(self, before_ms: int) -> None:
        """Forget instances that have not been heard of since then, as the topic itself does."""
        self.leases = {name: lease for name, lease in self.leases.items() if lease.at_ms >= before_ms}

    def keep(self, needed: Callable[[Change], bool]) -> None:
        """Forget changes that a reader has no use for; most of what a right to write can add is refused."""
        self.changes = {id_: change for id_, change in self.changes.items() if needed(change)}

    def next_epoch(self) -> int:
        """Return the epoch of a tracker that has fenced all others and then read everything."""
        return 1 + max((change.tracker_epoch for change in self.changes.values()), default=0)
