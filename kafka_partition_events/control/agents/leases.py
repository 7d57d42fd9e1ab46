"""What every process says of itself: leases, and what it has read of changes. No I/O, no thread, no clock."""

import hashlib
import math
import random
from typing import Final

from attrs import define, evolve, field

from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import MOST_TOPICS, Change, Lease, TopicUse

BUSY_S: Final = 2.0
"""How often ``kpe.changes`` is read while a change of this process's topics is open."""

SPREAD_S: Final = 5.0
"""Over how many seconds the news of a fleet is spread."""
HEARTBEAT_S: Final = 30.0
_JITTER: Final = 0.2

Report = tuple[Lease | None, float]
"""A lease, if one is due, and when to come back at the latest."""


@define
class Leaseholder:
    """One instance, as the control topics know it. Not thread-safe. Times are monotonic seconds.

    Attributes:
        lease: What its leases say of it; sequence, birth and view are filled in here.
        ledger: What was read of ``kpe.changes``; the agent puts records in.
        spread: Over how many seconds a fleet's news is spread.
        rng: Jitters the heartbeat.
    """

    lease: Lease
    ledger: Ledger = field(factory=Ledger)
    spread: float = field(default=SPREAD_S, kw_only=True)
    rng: random.Random = field(factory=random.Random, kw_only=True)
    _view: tuple[TopicUse, ...] = field(default=(), init=False)
    _due: float = field(default=-math.inf, init=False)
    _unborn: int = field(default=0, init=False)  # leases under way without a birth

    def report(self, view: tuple[TopicUse, ...], now: float, *, busy: bool) -> Report:
        """Return a lease if one is due: every 30 s or so, and soon after the view has changed.

        `busy`: a change that concerns this instance is open, so there may be news any moment.
        """
        if view != self._view:
            self._view = view
            self._due = min(self._due, now + delay_of(self.lease.instance_id, self.spread))
        lease = None
        if now >= self._due:
            self._due = now + HEARTBEAT_S * self.rng.uniform(1 - _JITTER, 1 + _JITTER)
            lease = self._counted()
        return lease, min(self._due, now + BUSY_S) if busy else self._due

    def last_lease(self) -> Lease:
        """Return the lease of an instance that stops in good order."""
        return evolve(self._counted(), ttl_s=0.0)

    def _counted(self) -> Lease:
        self._unborn += self.lease.born_ms is None
        self.lease = evolve(self.lease, lease_seq=self.lease.lease_seq + 1)
        return evolve(self.lease, view=self._view[:MOST_TOPICS])

    def needs(self, change: Change) -> bool:
        """Return whether this instance still needs a change; others are not kept."""
        return not change.state.final

    def was_appended(self, at_ms: int | None, now: float) -> None:
        """Take note of when a lease was appended; None: it was lost, and is said again."""
        if at_ms is None:
            self._due = min(self._due, now + max(1.0, self.spread))
        if self._unborn:  # of several the last one counts, else it would win over all later ones
            self._unborn -= 1
            born_ms = None if at_ms is None else max(at_ms, self.lease.born_ms or 0)
            self.lease = evolve(self.lease, born_ms=born_ms)


def delay_of(instance_id: str, spread: float = SPREAD_S) -> float:
    """Return how many seconds to wait with news: evenly spread over a fleet, the same each time."""
    digest = hashlib.blake2b(instance_id.encode(), digest_size=4).digest()
    return spread * int.from_bytes(digest) / 2**32
