"""What deliveries tell before metadata does: which brokers have fallen silent. Pure: time is an argument.

Kafka goes on naming a dead leader for the whole broker session (9 s by default), and it never names a slow
one. Whoever has records outstanding there knows sooner. What is known of a broker is one of

- *trusted*: it answers, or nothing is outstanding on it;
- *doubted*: it is silent for too long, but so may be we: nobody who was asked later has answered yet.
  Others are tried first. If they are silent too, it was we who paused, or the network: nobody is suspected;
- *suspect*: it is silent, and a broker that was asked later has answered; or the client lost the
  connection. It rests, twice as long each time;
- *on probation*: it has rested and nothing is stuck on it. Single records probe it, one at a time; enough
  good answers in a row clear it, a probe without an answer sends it back to rest.

Silence is measured in time that we *listened*: however long the process was stopped or did something else
between two looks at the delivery reports, that counts as `Policy.longest_gap` at most. So a garbage
collection or a stolen processor makes nobody look silent.
"""

import math
import statistics
from collections import deque
from collections.abc import Collection
from enum import Enum, auto

from attrs import define, evolve, field

from kafka_partition_events.metadata.events import Clearance, Suspicion
from kafka_partition_events.routing.judgement import (
    NOTHING,
    Avoidance,
    Change,
    Cleared,
    Policy,
    Suspected,
)

_FALSE_ALARM = 2.0
"""A suspect that answers within so many times our patience was only late; patience is to grow by that."""

_LESSON = 1.25
_LESSON_HALVES_S = 5.0
"""After a false alarm patience is this many times the silence that was one, and half of that 5 s later."""

_LAST_HOPE = 2.0
"""With nobody else left, a doubted broker is waited for so many times our patience."""

_APART = 0.8
"""Good answers count when they are this much of a probe interval apart: probes' own answers vary a little."""

_MOST_MORE_PROBES = 7
"""A broker that was suspect before needs one good answer more each time, but not more than this."""

_SAMPLES = 32
_LEARN_EVERY = 4


class Standing(Enum):
    """What is known of a broker; see the top of this file."""

    TRUSTED = auto()
    DOUBTED = auto()
    SUSPECT = auto()
    PROBATION = auto()


@define
class _Broker:
    """One broker's account. Moments are of the caller's clock; ``silent_from`` is listened time."""

    id: int
    standing: Standing = Standing.TRUSTED
    outstanding: int = 0
    asked_at: float = 0.0  # when the oldest silence began: nothing sent since then has been answered
    silent_from: float = 0.0
    answered_to: float = -math.inf  # when the latest record that it has answered was sent
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
    lesson: float = 0.0  # the patience that a false alarm has taught
    lesson_at: float = -math.inf

    def learn(self, latency: float) -> None:
        """Take a time to answer into account; median and tail are renewed every few answers."""
        self.latencies.append(latency)
        self.learned += 1
        if self.learned <= _LEARN_EVERY or self.learned % _LEARN_EVERY == 0:
            ranked = sorted(self.latencies)
            self.usual = ranked[len(ranked) // 2]
            self.tail = ranked[len(ranked) * 9 // 10]


class Feedback:
    """The judge: takes what was sent, answered and heard, and says whom to avoid. Not thread-safe.

    Every method takes ``now``, in seconds of one monotonic clock, and returns what has changed by it.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.avoidance = NOTHING
        self.probing = False
        """Whether some broker is on probation, so that one may be due for a probe."""
        self._brokers: dict[int, _Broker] = {}
        self._heard_at = -math.inf
        self._listened = 0.0

    def standing(self, broker: int) -> Standing:
        """Return what is known of a broker."""
        return self._of(broker).standing

    def threshold(self, broker: int) -> float:
        """Return the listened seconds after which a broker counts as silent.

        They are more by as much again for each other broker that is avoided already.
        """
        policy, b = self.policy, self._of(broker)
        wanted = self._wanted(b)
        patience = policy.linger + min(policy.most_silence, max(policy.least_silence, wanted - policy.linger))
        # The more brokers look silent, the likelier the cause is ours: a busy machine, the network.
        return patience * (1 + len(self.avoidance.suspect - {broker}))

    def _wanted(self, b: _Broker) -> float:
        """Return what a broker's answers call for. One that has not answered yet may still be connecting."""
        if b.usual is None or b.tail is None:
            return math.inf
        lesson = b.lesson * 0.5 ** ((self._heard_at - b.lesson_at) / _LESSON_HALVES_S) if b.lesson else 0.0
        return max(self.policy.silence_factor * b.usual, self.policy.tail_factor * b.tail, lesson)

    @property
    def usual(self) -> float | None:
        """How many seconds trusted brokers usually take to answer (their median); None: not known yet."""
        known = [
            b.usual for b in self._brokers.values() if b.usual is not None and b.standing is Standing.TRUSTED
        ]
        return statistics.median_low(known) if known else None

    def linger(self, seconds: float) -> None:
        """Take into account that a client holds records back for so long; the longest one counts."""
        if seconds > self.policy.linger:
            self.policy = evolve(self.policy, linger=seconds)

    @property
    def stuck(self) -> frozenset[int]:
        """The suspect brokers that something is outstanding on, which makes no progress."""
        return frozenset(
            b.id for b in self._brokers.values() if b.standing is Standing.SUSPECT and b.outstanding
        )

    # -- what happens --------------------------------------------------------------------------------

    def sent(self, broker: int, now: float, count: int = 1) -> None:
        """Note records that were sent to a broker."""
        b = self._of(broker)
        if not b.outstanding:
            self._restart(b, now)
        b.outstanding += count

    def withdrawn(self, broker: int, now: float, count: int = 1) -> None:
        """Note records that are no longer the broker's: not sent after all, or led by another one now."""
        b = self._of(broker)
        b.outstanding = max(0, b.outstanding - count)
        if not b.outstanding:
            b.probing = False
            self._restart(b, now)

    def answered(self, broker: int, latency: float, now: float) -> tuple[Change, ...]:
        """Note a record that the broker answered, well or not, ``latency`` seconds after it was sent."""
        b = self._of(broker)
        b.outstanding = max(0, b.outstanding - 1)
        b.answered_to = max(b.answered_to, now - latency)
        b.down_until = -math.inf
        silence = self._silence(b, now)
        self._restart(b, now)
        patience = self.threshold(broker)
        # What was sent before the broker came back tells how long the fault took, not what is usual.
        usual = b.standing is not Standing.SUSPECT and now - latency >= b.back_at
        # But of a probe: it may be slow for good, and this is how we learn that. The first answer is its own.
        if usual or b.probing or latency <= _FALSE_ALARM * patience:
            b.learn(latency)
        b.probing = False
        if b.standing is Standing.DOUBTED:
            self._give_the_benefit_of_the_doubt(now)
        elif b.standing is Standing.PROBATION and max(silence, latency) <= patience:
            return self._count_good(b, now)
        elif b.standing is Standing.SUSPECT and now - b.suspected_at <= patience:
            return self._take_back(b, silence, now)
        return ()

    def failed(self, broker: int, now: float) -> tuple[Change, ...]:
        """Note a record that the client gave up: no sign of life, and nothing to wait for any more."""
        b = self._of(broker)
        b.outstanding = max(0, b.outstanding - 1)
        if b.probing and not b.outstanding:
            b.probing = False
            if b.standing is Standing.PROBATION:  # else it rests already, because the probe took too long
                self._rest(b, now)
                self._judge(now)
        return ()

    def unreachable(self, broker: int, now: float) -> tuple[Change, ...]:
        """Note that the client lost its connection to a broker, or could not make one."""
        b = self._of(broker)
        b.down_until = now + self.policy.down_for
        changes = self._suspect(b, Suspicion.UNREACHABLE, now)
        self._judge(now)
        return changes

    def follow(self, brokers: Collection[int], now: float) -> tuple[Change, ...]:
        """Forget the brokers that metadata no longer lists."""
        gone = [b for b in self._brokers.values() if b.id not in brokers]
        changes: tuple[Change, ...] = ()
        for b in gone:
            if b.standing in (Standing.SUSPECT, Standing.PROBATION):
                changes += self._clear(b, Clearance.LEFT, now)
            del self._brokers[b.id]
        for broker in brokers:
            self._of(broker)
        self._judge(now)
        return changes

    def heard(self, now: float) -> tuple[Change, ...]:
        """Look at everybody, after all delivery reports that had come in were noted."""
        self._listened += self._since_heard(now)
        self._heard_at = now
        changes: tuple[Change, ...] = ()
        uneasy = bool(self.avoidance)
        for b in self._brokers.values():
            if b.outstanding or b.rests or b.standing is not Standing.TRUSTED:
                changes += self._look_at(b, now)
                uneasy = uneasy or b.standing is not Standing.TRUSTED
        if uneasy:
            changes += self._readmit_if_needed(now)
            self._judge(now)
        return changes

    def due_for_a_probe(self, now: float) -> tuple[int, ...]:
        """Return the brokers that one record each should be sent to, to see whether they answer.

        Whoever does so calls `probed` before, and `sent` as for any record.
        """
        interval = self.policy.probe_interval
        return tuple(
            b.id
            for b in self._brokers.values()
            if b.standing is Standing.PROBATION and not b.outstanding and now - b.probed_at >= interval
        )

    def probed(self, broker: int, now: float) -> None:
        """Note that the next record for this broker is a probe."""
        b = self._of(broker)
        b.probing, b.probed_at, b.probes = True, now, b.probes + 1

    # -- judging -------------------------------------------------------------------------------------

    def _look_at(self, b: _Broker, now: float) -> tuple[Change, ...]:
        silent = b.outstanding > 0 and self._silence(b, now) > self.threshold(b.id)
        match b.standing:
            case Standing.TRUSTED | Standing.DOUBTED if silent:
                if any(other.answered_to > b.asked_at for other in self._brokers.values() if other is not b):
                    return self._suspect(b, Suspicion.SILENT, now)
                b.standing = Standing.DOUBTED
            case Standing.DOUBTED:  # what was outstanding has failed or was withdrawn
                b.standing = Standing.TRUSTED
            case Standing.TRUSTED if b.rests and now - b.well_from >= self.policy.forgiven_after:
                b.rests, b.well_from = b.rests - 1, now
            case Standing.SUSPECT if not silent and now >= max(b.rest_until, b.down_until):
                b.standing, b.good, b.back_at = Standing.PROBATION, 0, now
            case Standing.PROBATION if silent:
                self._rest(b, now)
        return ()

    def _suspect(self, b: _Broker, reason: Suspicion, now: float) -> tuple[Change, ...]:
        if b.standing is Standing.PROBATION:
            self._rest(b, now)
            return ()
        if b.standing is Standing.SUSPECT:
            return ()
        silence = self._silence(b, now) if b.outstanding else 0.0
        b.suspected_at, b.reason, b.probes = now, reason, 0
        self._rest(b, now)
        return (
            Suspected(broker=b.id, reason=reason, outstanding=b.outstanding, silence=silence, usual=b.usual),
        )

    def _rest(self, b: _Broker, now: float) -> None:
        policy = self.policy
        b.standing = Standing.SUSPECT
        b.rest_until = now + min(policy.longest_rest, policy.first_rest * 2.0 ** min(b.rests, 30))
        b.rests += 1

    def _clear(self, b: _Broker, reason: Clearance, now: float) -> tuple[Change, ...]:
        b.standing, b.well_from, b.back_at = Standing.TRUSTED, now, now
        return (
            Cleared(broker=b.id, reason=reason, lasted=now - b.suspected_at, probes=b.probes, usual=b.usual),
        )

    def _count_good(self, b: _Broker, now: float) -> tuple[Change, ...]:
        # Keyed records may answer by the hundred in one moment; that is one good sign, not a hundred.
        if now - b.good_at < _APART * self.policy.probe_interval:
            return ()
        b.good, b.good_at = b.good + 1, now
        if b.good < self.policy.probes_to_clear + min(b.rests - 1, _MOST_MORE_PROBES):
            return ()
        changes = self._clear(b, Clearance.ANSWERED, now)
        self._judge(now)
        return changes

    def _take_back(self, b: _Broker, silence: float, now: float) -> tuple[Change, ...]:
        """Clear a broker that was only a little later than we waited: it was a false alarm."""
        if b.probes or b.reason is not Suspicion.SILENT:
            return ()
        if _LESSON * silence > self._wanted(b):
            b.lesson, b.lesson_at = _LESSON * silence, now
        if b.outstanding:
            return ()
        b.rests -= 1
        changes = self._clear(b, Clearance.ANSWERED, now)
        self._judge(now)
        return changes

    def _give_the_benefit_of_the_doubt(self, now: float) -> None:
        """Trust all that are doubted: one of them answers after a silence that they had in common.

        Without this, after a network outage the first broker to answer would be the witness against the
        second, whose answer comes a moment later.
        """
        for b in self._brokers.values():
            if b.standing is Standing.DOUBTED:
                b.standing = Standing.TRUSTED
                self._restart(b, now)
        self._judge(now)

    def _readmit_if_needed(self, now: float) -> tuple[Change, ...]:
        """Trust suspects again on which nothing is stuck, if there is no trusted broker left."""
        for b in self._brokers.values():
            hopeful = b.standing is Standing.DOUBTED and self._silence(b, now) <= _LAST_HOPE * self.threshold(
                b.id
            )
            if b.standing is Standing.TRUSTED or hopeful:
                return ()
        changes: tuple[Change, ...] = ()
        for b in self._brokers.values():
            idle = not b.outstanding and b.down_until <= now
            if b.standing in (Standing.SUSPECT, Standing.PROBATION) and idle:
                changes += self._clear(b, Clearance.NEEDED, now)
        return changes

    def _judge(self, now: float) -> None:
        """Renew what others read."""
        standings = {b.id: b.standing for b in self._brokers.values()}
        avoided = {Standing.SUSPECT, Standing.PROBATION}
        if Standing.TRUSTED in standings.values():
            avoided.add(Standing.DOUBTED)
        bad = frozenset(broker for broker, standing in standings.items() if standing in avoided)
        down = frozenset(b.id for b in self._brokers.values() if b.id in bad and b.down_until > now)
        if (bad, down) != (self.avoidance.suspect, self.avoidance.down):
            self.avoidance = Avoidance(bad, down) if bad else NOTHING
        self.probing = Standing.PROBATION in standings.values()

    # -- time ----------------------------------------------------------------------------------------

    def _since_heard(self, now: float) -> float:
        return min(self.policy.longest_gap, max(0.0, now - self._heard_at))

    def _restart(self, b: _Broker, now: float) -> None:
        b.asked_at = now
        b.silent_from = self._listened + self._since_heard(now)

    def _silence(self, b: _Broker, now: float) -> float:
        return max(0.0, self._listened + self._since_heard(now) - b.silent_from)

    def _of(self, broker: int) -> _Broker:
        b = self._brokers.get(broker)
        if b is None:
            b = self._brokers[broker] = _Broker(broker)
        return b
