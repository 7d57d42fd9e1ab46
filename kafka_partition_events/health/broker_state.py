"""What is known of one broker in one role, and the one function that changes whether it is trusted. Pure."""

import math
from collections import deque
from enum import Enum, auto

from attrs import Factory, define, field

from kafka_partition_events.health.in_flight import Subject
from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.metadata.events import Role, Suspicion

_SAMPLES = 32  # at one tracked record in 1 ms and three brokers, those of the last 0.1 s
_RENEW_EVERY = 4  # sorting for each answer would double what an answer costs
_FALSE_ALARM_FACTOR = 1.25  # after a false alarm patience is so many times the silence that was one,
_FALSE_ALARM_HALVES_S = 5.0  # and half of that so much later: a busy second says nothing of the next minute
_GOOD_APART = 0.8  # of a probe interval: probes' own answers vary a little
_MOST_MORE_PROBES = 7  # each rest before calls for one more, up to this many: ten probes take half a second
_FLOOR_LASTS_S: dict[Role | None, float] = {Role.LEADER: 10.0, Role.REPLICA: 5.0, None: 0.0}
"""Shorter for a replica: one whose route has become longer is not slow for long."""


class Trust(Enum):
    """Where a circuit breaker has closed, open and half-open; the package's docstring has the table."""

    TRUSTED = auto()  # closed
    DOUBTED = auto()  # closed; others are tried first
    SUSPECT = auto()  # open
    PROBATION = auto()  # half-open


@define(eq=False)
class Latencies:
    """One broker's times to answer, in seconds."""

    floor_lasts_s: float  # the floor is the soonest answer of this time and of as much before it
    median: float | None = None
    tail: float | None = None  # nine of ten answers keep to it
    floor: float = math.inf  # what it takes when nothing queues up
    _samples: deque[float] = field(factory=lambda: deque(maxlen=_SAMPLES))
    _learned: int = 0
    _current_floor: float = math.inf
    _floor_before: float = math.inf
    _floor_since: float = -math.inf
    _false_alarm: float = 0.0
    _false_alarm_at: float = -math.inf

    def learn(self, latency: float) -> None:
        """Let an answer count for median and tail."""
        self._samples.append(latency)
        self._learned += 1
        if self._learned <= _RENEW_EVERY or self._learned % _RENEW_EVERY == 0:
            ranked = sorted(self._samples)
            self.median = ranked[len(ranked) // 2]
            self.tail = ranked[len(ranked) * 9 // 10]

    def note_floor(self, latency: float, now: float) -> None:
        """Let an answer count for the floor."""
        if now - self._floor_since > self.floor_lasts_s:
            self._floor_before, self._floor_since = self._current_floor, now
            self._current_floor = math.inf
        self._current_floor = min(self._current_floor, latency)
        self.floor = min(self._current_floor, self._floor_before)

    def note_false_alarm(self, silence: float, policy: DetectorPolicy, now: float, polled_at: float) -> None:
        """Let a silence that was none be more than what is waited for, for some seconds."""
        if _FALSE_ALARM_FACTOR * silence > self.expected(policy, polled_at):
            self._false_alarm, self._false_alarm_at = _FALSE_ALARM_FACTOR * silence, now

    def expected(self, policy: DetectorPolicy, now: float) -> float:
        """Return what its answers call for, before any bound; infinite as long as there was none."""
        if self.median is None or self.tail is None:
            return math.inf
        remembered = 0.0
        if self._false_alarm:
            remembered = self._false_alarm * 0.5 ** ((now - self._false_alarm_at) / _FALSE_ALARM_HALVES_S)
        return max(policy.median_factor * self.median, policy.tail_factor * self.tail, remembered)


@define(eq=False)
class BrokerState:
    """One broker as a leader or as a replica; a partition by itself is judged by the same rule.

    ``silent_from`` is in listened seconds, all other moments are of the caller's clock.
    """

    subject: Subject
    latencies: Latencies = Factory(lambda self: Latencies(_FLOOR_LASTS_S[self.subject.role]), takes_self=True)
    _trust: Trust = field(init=False, default=Trust.TRUSTED)
    outstanding: int = 0
    silent_from: float = 0.0
    answered_to: float = -math.inf  # when the latest record that it has acknowledged had been sent
    rests: int = 0  # of late
    rest_until: float = 0.0
    down_until: float = -math.inf  # the client has no connection
    throttled_until: float = -math.inf  # it said so itself, for a quota
    suspected_at: float = -math.inf  # when the circuit last opened
    back_at: float = -math.inf  # when it last came on probation or was trusted again
    reason: Suspicion | None = None  # of the latest suspicion
    well_from: float = 0.0
    probing: bool = False  # a probe is in flight, or about to be sent
    probed_at: float = -math.inf
    probes: int = 0  # since it was suspected
    _good: int = 0
    _good_at: float = -math.inf

    @property
    def trust(self) -> Trust:
        """Whether records may need it; changed by `enter` only."""
        return self._trust

    @property
    def is_bad(self) -> bool:
        """Whether it is suspect or on probation."""
        return self._trust in (Trust.SUSPECT, Trust.PROBATION)

    def enter(self, trust: Trust, now: float, policy: DetectorPolicy) -> None:
        """Change the trust: nothing else does. To enter `SUSPECT` is to rest, each time twice as long."""
        was_bad, self._trust = self.is_bad, trust
        if trust is Trust.SUSPECT:
            self.suspected_at = now
            self.rest_until = now + min(policy.longest_rest, policy.first_rest * 2.0 ** min(self.rests, 30))
            self.rests += 1
        elif trust is Trust.PROBATION:
            self._good, self.back_at = 0, now
        elif trust is Trust.TRUSTED and was_bad:
            self.well_from = self.back_at = now

    def let_time_pass(self, now: float, policy: DetectorPolicy, *, stalled: bool) -> Trust:
        """Forgive a rest; return the trust that is due, given whether a stalled connection waits for it."""
        if self._trust is Trust.TRUSTED and self.rests and now - self.well_from >= policy.forgiven_after:
            self.rests, self.well_from = self.rests - 1, now
        match self._trust:
            case Trust.DOUBTED if not stalled:  # what was in flight has failed, or was withdrawn
                return Trust.TRUSTED
            case Trust.SUSPECT if not stalled and now >= max(self.rest_until, self.down_until):
                return Trust.PROBATION
            case Trust.PROBATION if stalled:
                return Trust.SUSPECT
            case Trust.PROBATION if not self.outstanding:
                # It may lead only what is not written here, topics of other producers or partitions beyond a
                # cap or a limit: no record comes that could clear it.
                if now - max(self.back_at, self.answered_to) >= policy.trusted_untried_after:
                    return Trust.TRUSTED
        return self._trust

    def is_cleared_by_good_answer(self, now: float, policy: DetectorPolicy) -> bool:
        """Count a good answer on probation, a hundred of one moment once; return whether that was enough."""
        if now - self._good_at < _GOOD_APART * policy.probe_interval:
            return False
        self._good, self._good_at = self._good + 1, now
        return self._good >= policy.probes_to_clear + min(self.rests - 1, _MOST_MORE_PROBES)
