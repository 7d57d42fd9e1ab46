"""What every process says of itself: leases, and what it has read of changes. No I/O, no thread, no clock."""

import hashlib
import math
import random
from abc import ABC, abstractmethod
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import MOST_TOPICS, Ack, Change, Lease, TopicUse
from kafka_partition_events.control.protocol.vocabulary import Status

ACK_SPREAD_S: Final = 5.0
"""Over how many seconds the acks of a fleet are spread."""
HEARTBEAT_S: Final = 30.0
_JITTER: Final = 0.2


@frozen(kw_only=True)
class Reports:
    """What is to be published now.

    Attributes:
        acks: Answers to changes.
        lease: A sign of life, if one is due.
        again_at: When to look again at the latest, without reading anything new.
        busy: Whether a change that concerns this instance is open, so that there may be news any moment.
    """

    acks: tuple[Ack, ...]
    lease: Lease | None
    again_at: float
    busy: bool


@define
class Leaseholder(ABC):
    """One instance, as the control topics know it. Not thread-safe. Times are monotonic seconds.

    Attributes:
        lease: What its leases say of it; sequence, birth and view are filled in here.
        ledger: What was read of ``kpe.changes``; the agent puts records in.
        spread: Over how many seconds a fleet's answers are spread.
        rng: Jitters the heartbeat.
        lease_due: When the next lease is due, if nothing changes.
    """

    lease: Lease
    ledger: Ledger = field(factory=Ledger)
    spread: float = field(default=ACK_SPREAD_S, kw_only=True)
    rng: random.Random = field(factory=random.Random, kw_only=True)
    _view: tuple[TopicUse, ...] = field(default=(), init=False)
    lease_due: float = field(default=-math.inf, init=False)
    _acks: int = field(default=0, init=False)

    def next_lease(self, view: tuple[TopicUse, ...], now: float) -> Lease | None:
        """Return a sign of life if one is due: every 30 s or so, and soon after the view has changed."""
        if view != self._view:
            self._view = view
            self.lease_due = min(self.lease_due, now + ack_delay("", self.lease.instance_id, self.spread))
        if now < self.lease_due:
            return None
        self.lease_due = now + HEARTBEAT_S * self.rng.uniform(1 - _JITTER, 1 + _JITTER)
        return self._counted()

    def last_lease(self) -> Lease:
        """Return the lease of an instance that stops in good order."""
        return evolve(self._counted(), ttl_s=0.0)

    def _counted(self) -> Lease:
        self.lease = evolve(self.lease, lease_seq=self.lease.lease_seq + 1)
        return evolve(self.lease, view=self._view[:MOST_TOPICS])

    def ack(self, change: Change, status: Status, **fields: Any) -> Ack:
        """Return the next answer to a change."""
        self._acks += 1
        return Ack(
            change_id=change.change_id,
            instance_id=self.lease.instance_id,
            incarnation=self.lease.incarnation,
            ack_seq=self._acks,
            born_ms=self.lease.born_ms,
            status=status,
            **fields,
        )

    def needs(self, change: Change) -> bool:
        """Tell whether a change still says something to this instance; others are not kept."""
        return not change.state.final

    def was_born(self, appended_ms: int) -> None:
        """Take note of when a lease was appended, as its delivery report tells; the first time counts."""
        if self.lease.born_ms is None:
            self.lease = evolve(self.lease, born_ms=appended_ms)

    @abstractmethod
    def was_lost(self, ack: Ack, now: float) -> None:
        """Take note that an ack was not appended: it is said again."""


def ack_delay(change_id: str, instance_id: str, spread: float = ACK_SPREAD_S) -> float:
    """Return how many seconds to wait before an ack: evenly spread over a fleet, the same each time."""
    digest = hashlib.blake2b(f"{change_id}\0{instance_id}".encode(), digest_size=4).digest()
    return spread * int.from_bytes(digest) / 2**32
