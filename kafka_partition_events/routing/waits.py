"""Whom the requests that take long need: the evidence against one who answers, but slowly. Pure."""

from collections.abc import Container

from attrs import define, field

from kafka_partition_events.metadata.events import Role
from kafka_partition_events.routing.lanes import Lane, Subject

_LATELY_S = 1.0
"""What is a second old counts half,"""
_AT_MOST_S = 500.0
"""and all is forgotten from time to time, before numbers grow too large."""

_LEAST, _AGAIN = 12, 4
"""So many long waits accuse somebody, if as many that did not need him were soon over. Who was slow lately
needs fewer to be so again."""

_NEARLY_ALL, _NOT_NEARLY_ALL = 0.9, 0.7
"""The share of the long waits that must have needed him, and that nobody else may have been needed by.

With 6 brokers and replication 3, of what needs one broker 40% needs a certain other one. Where each partition
needs all brokers nobody is accused."""


@define
class _Tally:
    """Requests that were answered, and how many of them needed whom."""

    count: float = 0.0
    needed: dict[int, float] = field(factory=dict)
    led: dict[int, float] = field(factory=dict)

    def add(self, lane: Lane, leader: int, weight: float) -> None:
        self.count += weight
        self.led[leader] = self.led.get(leader, 0.0) + weight
        for broker in (leader, *lane.followers):
            self.needed[broker] = self.needed.get(broker, 0.0) + weight


@define
class Waits:
    """Answers of late, those that took long and those that came soon: one for each request of a connection.

    Later ones weigh more, so that earlier ones need not be made to weigh less each time.
    """

    _since: float = 0.0
    _long: _Tally = field(factory=_Tally)
    _soon: _Tally = field(factory=_Tally)
    _latest: dict[Lane, tuple[float, bool]] = field(factory=dict)

    def note(
        self, lane: Lane, leader: int, now: float, *, long: bool, known: Container[object] = ()
    ) -> tuple[Subject, ...]:
        """Count one more; return whom nearly all long ones needed, in which roles, and begin anew.

        Of who is ``known`` to have been slow lately, a few long ones say that he is again.
        """
        if not 0 <= now - self._since < _AT_MOST_S:
            self._begin(now)
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
        self._begin(now)
        as_leader = Subject(Role.LEADER, broker)  # what it leads waits for its answers, too
        return (as_leader,) if only_leads else (Subject(Role.REPLICA, broker), as_leader)

    def _begin(self, now: float) -> None:
        self._since, self._long, self._soon, self._latest = now, _Tally(), _Tally(), {}

    def _most_are_long(self, broker: int, now: float) -> bool:
        """Tell whether half of the partitions that need a broker were slow when they answered last.

        Else it may be those (large records, many of them), and not the broker.
        """
        self._latest = {lane: last for lane, last in self._latest.items() if now - last[0] <= _LATELY_S}
        those = [long for lane, (_, long) in self._latest.items() if broker in {lane.leader, *lane.followers}]
        return 2 * sum(those) >= len(those)
