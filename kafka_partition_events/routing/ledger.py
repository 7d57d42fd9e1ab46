"""What the judge keeps account of: who answers what was sent, for how long somebody is silent. Pure."""

import math
import statistics
from collections import deque
from collections.abc import Container, Iterable
from enum import Enum, auto

from attrs import define, evolve, field

from kafka_partition_events.metadata.events import Role, Suspicion
from kafka_partition_events.routing.judgement import Policy
from kafka_partition_events.routing.lanes import Connection, Lane, Subject

_LESSON_HALVES_S = 5.0
"""After a false alarm patience is more, and half of that 5 s later."""

_SAMPLES = 32
_LEARN_EVERY = 4

_FLOOR_LASTS_S: dict[Role | None, float] = {Role.LEADER: 10.0, Role.REPLICA: 5.0}
"""The soonest answer of this time, and of as much before it, is what somebody takes when nothing queues. A
replica that has moved far away is not slow for long."""


class Standing(Enum):
    """What is known of somebody; see the top of this file."""

    TRUSTED = auto()
    DOUBTED = auto()
    SUSPECT = auto()
    PROBATION = auto()


BAD = (Standing.SUSPECT, Standing.PROBATION)


@define(eq=False)
class Account:
    """What is known of one subject. Moments are of the caller's clock; ``silent_from`` is listened time."""

    subject: Subject
    standing: Standing = Standing.TRUSTED
    outstanding: int = 0
    silent_from: float = 0.0
    answered_to: float = -math.inf  # when the latest record that it has acknowledged was sent
    rests: int = 0
    rest_until: float = 0.0
    down_until: float = -math.inf
    suspected_at: float = -math.inf
    back_at: float = -math.inf  # when it was last put on probation or cleared
    reason: Suspicion | None = None
    well_from: float = 0.0
    probing: bool = False
    probed_at: float = -math.inf
    probes: int = 0
    good: int = 0
    good_at: float = -math.inf
    latencies: deque[float] = field(factory=lambda: deque(maxlen=_SAMPLES))
    learned: int = 0
    usual: float | None = None
    tail: float | None = None
    floor: float = math.inf  # the soonest of the latest answers
    _current_floor: float = math.inf
    _floor_before: float = math.inf
    _floor_since: float = -math.inf
    lesson: float = 0.0  # the patience that a false alarm has taught
    lesson_at: float = -math.inf

    @property
    def is_bad(self) -> bool:
        """Whether it is suspect or on probation."""
        return self.standing in BAD

    def learn(self, latency: float) -> None:
        """Take a time to answer into account; median and tail are renewed every few answers."""
        self.latencies.append(latency)
        self.learned += 1
        if self.learned <= _LEARN_EVERY or self.learned % _LEARN_EVERY == 0:
            ranked = sorted(self.latencies)
            self.usual = ranked[len(ranked) // 2]
            self.tail = ranked[len(ranked) * 9 // 10]

    def sound(self, latency: float, now: float) -> None:
        """Take an answer into account for how soon one may come."""
        if now - self._floor_since > _FLOOR_LASTS_S.get(self.subject.role, 0.0):
            self._floor_before, self._floor_since = self._current_floor, now
            self._current_floor = math.inf
        self._current_floor = min(self._current_floor, latency)
        self.floor = min(self._current_floor, self._floor_before)


class Ledger:
    """All accounts and connections, and the time that somebody listened."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self._accounts: dict[Subject, Account] = {}
        self._connections: dict[tuple[int, int], Connection] = {}
        self._blamed: frozenset[int | tuple[str, int]] = frozenset()  # brokers that are bad
        self._heard_at = -math.inf
        self._listened = 0.0

    def threshold(self, broker: int) -> float:
        """Return the listened seconds after which a leader counts as silent.

        They are more by as much again for each other broker that is suspect already.
        """
        return self._patience(self._of(Subject(Role.LEADER, broker)))

    def _patience(self, a: Account, besides: Container[object] = ()) -> float:
        # The more brokers are suspect, the likelier the cause is ours: a busy machine, the network. But for
        # those `besides` that may be the cause of this silence, too: a broker that is suspect as a leader
        # and holds up what others lead would be waited for twice as long because it is suspect.
        others = sum(id_ != a.subject.id and id_ not in besides for id_ in self._blamed)
        return self._patience_with_one(a) * (1 + others)

    def _patience_with_one(self, a: Account) -> float:
        """Return what patience with somebody is while nobody else is suspect."""
        policy = self.policy
        wanted = self._wanted(a) - policy.linger
        return policy.linger + min(policy.most_silence, max(policy.least_silence, wanted))

    def _wanted(self, a: Account) -> float:
        """Return what a broker's answers call for. One that has not answered yet may still be connecting."""
        if a.usual is None or a.tail is None:
            return math.inf
        lesson = a.lesson * 0.5 ** ((self._heard_at - a.lesson_at) / _LESSON_HALVES_S) if a.lesson else 0.0
        return max(self.policy.silence_factor * a.usual, self.policy.tail_factor * a.tail, lesson)

    @property
    def usual(self) -> float | None:
        """How many seconds trusted leaders usually take to answer (their median); None: not known yet."""
        known = [a.usual for a in self._leaders() if a.usual is not None and a.standing is Standing.TRUSTED]
        return statistics.median_low(known) if known else None

    def linger(self, seconds: float) -> None:
        """Take into account that a client holds records back for so long; the longest one counts."""
        if seconds > self.policy.linger:
            self.policy = evolve(self.policy, linger=seconds)

    # -- counting ------------------------------------------------------------------------------------

    def _of(self, subject: Subject) -> Account:
        a = self._accounts.get(subject)
        if a is None:
            a = self._accounts[subject] = Account(subject)
        return a

    def _leaders(self) -> Iterable[Account]:
        return (a for a in self._accounts.values() if a.subject.role is Role.LEADER)

    def _needed(self, lane: Lane) -> tuple[Account, ...]:
        """Return on whose account a lane's records are: the brokers that they need, or the partition."""
        subjects = (lane.own,) if lane.aside else lane.brokers
        return tuple(self._of(subject) for subject in subjects)

    def _connection(self, lane: Lane) -> Connection:
        assert lane.leader is not None  # noqa: S101 - who asks has looked
        key = lane.way, lane.leader
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = Connection(*key)
        return connection

    def _count(self, lane: Lane, count: int, now: float) -> None:
        if not count:
            return
        for a in self._needed(lane):
            if not a.outstanding:
                self._restart(a, now)
            a.outstanding += count
        if lane.leader is not None and not lane.aside:
            connection = self._connection(lane)
            if not connection.lanes:
                self._restart(connection, now)
                if (given_up := connection.given_up) and not any(a.is_bad for a in self._needed(given_up)):
                    connection.given_up = None
            connection.lanes[lane] = None

    def _discount(
        self, lane: Lane, count: int, now: float, *, failed: bool = False, leaving: bool = False
    ) -> None:
        """Take `count` records of a lane from everybody's account; all of them when the lane is leaving."""
        if not count:
            return
        for a in self._needed(lane):
            a.outstanding = max(0, a.outstanding - count)
            if not a.outstanding and not failed:
                a.probing = False
                self._restart(a, now)
        if lane.leader is not None and not lane.aside:
            connection = self._connection(lane)
            if leaving:
                connection.let_go(lane)
            else:
                connection.move_on(lane)
            if not connection.lanes and not failed:
                self._restart(connection, now)

    # -- time ----------------------------------------------------------------------------------------

    def _since_heard(self, now: float) -> float:
        return min(self.policy.longest_gap, max(0.0, now - self._heard_at))

    def _restart(self, waiting: Account | Connection, now: float) -> None:
        if isinstance(waiting, Connection):
            waiting.asked_at, waiting.excused = now, False
        waiting.silent_from = self._listened + self._since_heard(now)

    def _silence(self, waiting: Account | Connection, now: float) -> float:
        return max(0.0, self._listened + self._since_heard(now) - waiting.silent_from)
