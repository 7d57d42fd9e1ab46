"""Which broker the requests that take long need: evidence against one that answers, but slowly. Pure."""

from collections import defaultdict
from collections.abc import Container

from attrs import define, field

from kafka_partition_events.health.in_flight import InFlight, Subject
from kafka_partition_events.metadata.events import Role

_HALF_LIFE_S = 1.0  # answers lose half of their weight in it: a verdict is about the last few seconds
_RESTART_AFTER_S = 500.0  # old weights don't shrink, new ones grow: a float would overflow at 1,024 s
_LEAST_LONG, _LEAST_LONG_AGAIN = 12, 4
"""So many long requests name a broker, if as many that did not need it were answered soon: fewer come
together by chance on a busy machine. One that was slow of late needs fewer to be so again."""
_NEARLY_ALL, _NOT_NEARLY_ALL = 0.9, 0.7
"""The share of the long requests that must have needed it, and that no other may have been needed by. With 6
brokers and replication 3, of what needs one broker 40% needs a certain other one."""


@define
class _Answered:
    """Requests that were answered, and how many of them needed which broker, at all and as their leader."""

    count: float = 0.0
    needed: dict[int, float] = field(factory=lambda: defaultdict(float))
    led: dict[int, float] = field(factory=lambda: defaultdict(float))

    def add(self, it: InFlight, leader: int, weight: float) -> None:
        self.count += weight
        self.led[leader] += weight
        for broker in (leader, *it.followers):
            self.needed[broker] += weight


@define
class Slowness:
    """The latest answers, long and soon: one for each request of a connection."""

    _since: float = 0.0
    _long: _Answered = field(factory=_Answered)
    _soon: _Answered = field(factory=_Answered)
    _latest: dict[InFlight, tuple[float, bool]] = field(factory=dict)

    def note(
        self, it: InFlight, leader: int, now: float, *, long: bool, known: Container[object] = ()
    ) -> tuple[Subject, ...]:
        """Count one request; return in which roles a broker was needed by nearly all long ones.

        ``known``: who was slow of late; of these fewer long requests say that they are again.
        """
        if not 0 <= now - self._since < _RESTART_AFTER_S:
            self._restart(now)
        weight = 2.0 ** ((now - self._since) / _HALF_LIFE_S)
        (self._long if long else self._soon).add(it, leader, weight)
        self._latest[it] = now, long
        if not long:
            return ()
        (broker, times), *others = sorted(self._long.needed.items(), key=lambda item: -item[1])[:2]
        least = weight * (_LEAST_LONG_AGAIN if broker in known else _LEAST_LONG)
        nearly_all = _NEARLY_ALL * self._long.count
        if (
            times < max(least, nearly_all)
            or self._soon.count - self._soon.needed[broker] < least
            or (others and others[0][1] > _NOT_NEARLY_ALL * self._long.count)
            or not self._most_are_long(broker, now)
        ):
            return ()
        only_leads = self._long.led[broker] >= nearly_all
        self._restart(now)
        as_leader = Subject(Role.LEADER, broker)  # what it leads waits for its answers, too
        return (as_leader,) if only_leads else (Subject(Role.REPLICA, broker), as_leader)

    def _restart(self, now: float) -> None:
        self._since, self._long, self._soon, self._latest = now, _Answered(), _Answered(), {}

    def _most_are_long(self, broker: int, now: float) -> bool:
        """Return whether half of the partitions that need a broker were slow at last, or it is only some."""
        self._latest = {it: last for it, last in self._latest.items() if now - last[0] <= _HALF_LIFE_S}
        those = [long for it, (_, long) in self._latest.items() if broker in {it.leader, *it.followers}]
        return 2 * sum(those) >= len(those)
