"""Whom silent connections wait for: the charges that they bring. Pure."""

import math
from collections import Counter
from collections.abc import Collection, Container

from attrs import define, field, frozen

from kafka_partition_events.metadata.events import Role
from kafka_partition_events.routing.judgement import Policy
from kafka_partition_events.routing.lanes import Connection, Lane, Subject
from kafka_partition_events.routing.ledger import Account, Ledger, Standing


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


_LATELY_S = 1.0
"""What is a second old counts half,"""
_AT_MOST_S = 500.0
"""and all is forgotten from time to time, before numbers grow too large."""

_LEAST, _AGAIN = 12, 4
_NEARLY_ALL, _NOT_NEARLY_ALL = 0.9, 0.7
"""So many answers that took long accuse whom so much of them needed, if they needed nobody else so often, and
as many that did not need him came soon.

Of 6 brokers a broker is needed by 40% of what needs a certain other one (replication factor 3); where each
partition needs all brokers nobody is accused. Who was slow lately needs fewer to be so again. Of the
partitions that need him half were slow at least: else it may be those (large records, many), and not he."""


@define
class _Tally:
    """Answers, and how many of them needed whom."""

    count: float = 0.0
    needed: dict[int, float] = field(factory=dict)
    led: dict[int, float] = field(factory=dict)

    def add(self, lane: Lane, leader: int, weight: float) -> None:
        self.count += weight
        self.led[leader] = self.led.get(leader, 0.0) + weight
        for broker in (leader, *lane.followers):
            self.needed[broker] = self.needed.get(broker, 0.0) + weight


class Waits:
    """Answers of late, those that took long and those that came soon: one for each request of a connection.

    Later ones weigh more, so that earlier ones need not be made to weigh less each time.
    """

    def __init__(self) -> None:
        self._since = math.inf
        self._forget()

    def note(
        self, lane: Lane, leader: int, now: float, *, long: bool, known: Container[object] = ()
    ) -> tuple[Subject, ...]:
        """Count one more; return whom nearly all long ones needed, in which roles, and begin anew.

        Of who is ``known`` to have been slow lately, a few long ones say that he is again.
        """
        if not 0 <= now - self._since < _AT_MOST_S:
            self._forget()
            self._since = now
        weight = 2.0 ** ((now - self._since) / _LATELY_S)
        (self._long if long else self._soon).add(lane, leader, weight)
        self._latest[lane] = now, long
        if not long:
            return ()
        most, *others = sorted(self._long.needed.items(), key=lambda item: -item[1])[:2]
        broker, times = most
        least = weight * (_AGAIN if broker in known else _LEAST)
        without = self._soon.count - self._soon.needed.get(broker, 0.0)
        if times < max(least, _NEARLY_ALL * self._long.count) or without < least:
            return ()
        if others and others[0][1] > _NOT_NEARLY_ALL * self._long.count:
            return ()
        if not self._most_are_long(broker, now):
            return ()
        only_leads = self._long.led.get(broker, 0.0) >= _NEARLY_ALL * self._long.count
        self._forget()
        as_leader = Subject(Role.LEADER, broker)  # what it leads waits for its answers, too
        return (as_leader,) if only_leads else (Subject(Role.REPLICA, broker), as_leader)

    def _forget(self) -> None:
        self._long, self._soon = _Tally(), _Tally()
        self._latest: dict[Lane, tuple[float, bool]] = {}

    def _most_are_long(self, broker: int, now: float) -> bool:
        """Tell whether half of the partitions that need a broker were slow when they answered last."""
        self._latest = {lane: last for lane, last in self._latest.items() if now - last[0] <= _LATELY_S}
        those = [long for lane, (_, long) in self._latest.items() if broker in {lane.leader, *lane.followers}]
        return 2 * sum(those) >= len(those)


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
