"""Whom silent connections wait for: the charges that they bring. Pure."""

import math
from collections import Counter
from collections.abc import Collection, Sequence

from attrs import frozen

from kafka_partition_events.routing.judgement import Policy
from kafka_partition_events.routing.lanes import Connection, Lane, Subject
from kafka_partition_events.routing.ledger import Account, Ledger, Standing
from kafka_partition_events.routing.waits import Waits


@frozen(eq=False)
class Charge:
    """A connection that is silent, and who may be the cause."""

    connection: Connection
    accused: tuple[Account, ...]
    witnessed: bool  # whether somebody answered what was sent later, so that it is not us

    def names(self, broker: int | tuple[str, int]) -> bool:
        """Tell whether a broker is accused, in whatever role."""
        return any(a.subject.id == broker for a in self.accused)

    def names_only(self, broker: int | tuple[str, int]) -> bool:
        """Tell whether nobody else is accused."""
        return all(a.subject.id == broker for a in self.accused)


def most_named(charges: Collection[Charge]) -> tuple[list[int | tuple[str, int]], frozenset[Subject]]:
    """Return the brokers that the most charges name, and as what they are accused."""
    times = Counter(id_ for charge in charges for id_ in {a.subject.id for a in charge.accused})
    most = max(times.values())
    named = [id_ for id_, count in times.items() if count == most]
    return named, frozenset(a.subject for charge in charges for a in charge.accused if a.subject.id in named)


class Charges(Ledger):
    """What silent connections charge brokers with; who judges them is `Feedback`."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__(policy)
        self._accused: frozenset[Subject] = frozenset()  # named equally often: avoided, not suspected
        self._accused_since = math.inf
        self._waits = Waits()

    def _charge(self, connection: Connection, accused: tuple[Account, ...]) -> Charge | None:
        """Return who may hold a silent connection up; None if that is known."""
        leader, *_ = accused
        if any(a.is_bad for a in accused):
            if leader.standing is Standing.DOUBTED:
                leader.standing = Standing.TRUSTED
            return None
        others = (c for c in self._connections.values() if c is not connection)
        witnessed = any(c.answered_to > connection.asked_at for c in others)
        if not witnessed and leader.standing is Standing.TRUSTED:
            leader.standing = Standing.DOUBTED
        return Charge(connection, accused, witnessed)

    def _accusable(self, connection: Connection, head: Lane) -> tuple[Account, ...]:
        """Return whom a silent connection may wait for, its leader first: not who has shown itself since."""
        leader, *others = self._needed(head)
        proven = self._proven_from(connection)
        return (leader, *(a for a in others if a.answered_to <= proven))

    def _is_silent(self, connection: Connection, accused: Sequence[Account], now: float) -> bool:
        return self._silence(connection, now) > self._patience(
            accused[0], besides={a.subject.id for a in accused}
        )

    def _proven_from(self, connection: Connection) -> float:
        """Return since when whoever has acknowledged something can't be whom a connection waits for.

        A replica that acknowledged what was sent a little later may have done so before it fell silent. What
        the client gave up was sent before anything that waits now.
        """
        asked_at = connection.asked_at
        if connection.given_up is None:
            asked_at = max(asked_at, connection.head.sent_at[0])
        return asked_at + self.policy.linger + (self.usual or 0.0)

    def _holds_up(self, a: Account) -> bool:
        """Tell whether what waits for somebody is stuck: whoever is only accused may still answer in time."""
        return a.is_bad or (self._accusations_last and a.subject in self._accused)

    @property
    def _accusations_last(self) -> bool:
        return self._heard_at - self._accused_since > self.policy.linger + self.policy.least_silence
