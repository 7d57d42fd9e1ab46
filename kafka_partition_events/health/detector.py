"""The failure detector: what was sent, answered and polled goes in, what to avoid comes out. Pure."""

import math
from collections import deque
from collections.abc import Collection
from typing import Any

from kafka_partition_events.health.avoiding import may_be_refused, what_to_avoid
from kafka_partition_events.health.broker_state import BrokerState, Trust
from kafka_partition_events.health.circuits import Change, Circuits
from kafka_partition_events.health.in_flight import MAIN, InFlight, Subject
from kafka_partition_events.health.observations import Observations
from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.health.slowness import Slowness
from kafka_partition_events.health.stalls import find_stalls
from kafka_partition_events.metadata.events import Clearance, Role, Suspicion
from kafka_partition_events.routing.table import NOTHING

_ONE_REQUEST_S = 0.001  # what a connection answers closer together was one request, or several that came soon
_LAG_S = 0.01  # a leader may be behind by so much: a turn lasts longer than it takes to catch up with that
_PARTITIONS_A_POLL = 64  # time passes for so many by themselves: thousands may have too few in-sync replicas
_SLOW_RESTS = 2
"""One that is slow rests the first time as if it were the third: single records pass soon, whatever the link
lets through, so it is not tried again so soon."""


class FailureDetector:
    """Takes what was sent, answered and polled, and says what to avoid. Not thread-safe.

    Inputs take ``now``, in seconds of one monotonic clock, and return what is to be announced.
    """

    def __init__(self, policy: DetectorPolicy | None = None) -> None:
        self.seen = Observations(policy or DetectorPolicy())
        self.circuits = Circuits(self.seen)
        self.avoidance = NOTHING  # what to avoid; another object whenever it changes
        self.probing = False  # a broker may be due for a probe
        self.standbys = 0  # how many more handles the client has, each with connections of its own
        self.handle = MAIN  # for records that need no suspect: on the first they may stand behind others
        self._slowness = Slowness()
        self._round: deque[BrokerState] = deque()
        self._bad_partitions: frozenset[Any] = frozenset()
        self._partitions_to_try = False

    def stuck(self, now: float) -> list[InFlight]:
        """Return all that waits for a suspect, or behind one, or alone for a doubted broker."""
        seen = self.seen
        stuck = [it for it in seen.aside if it.sent_at]
        replicas = {b.subject.id for b in seen.states.values() if b.is_bad and b.subject.role is Role.REPLICA}
        for c in seen.connections.values():
            leader = seen.leader(c.broker)
            if leader.throttled_until > now:  # it waits for its quota, and a copy would, too
                continue
            is_alone = c in seen.alone and c.broker in self.avoidance.leaders
            if leader.is_bad or c in seen.held_up or is_alone:
                stuck += c.waiting
            elif replicas:
                stuck += [it for it in c.waiting if not it.followers.isdisjoint(replicas)]
        return stuck

    def lagging(self, now: float) -> frozenset[int]:
        """Return the leaders whose oldest record waits longer than answers take when nothing queues up."""
        seen, waiting = self.seen, [c for c in self.seen.connections.values() if c.waiting]
        since = {c.broker: c.head.sent_at for c in waiting if c.handle == self.handle}
        return frozenset(
            b for b, at in since.items() if not at or now - at[0] > seen.soon(_LAG_S, seen.leader(b))
        )

    def probed(self, subject: Subject, now: float) -> None:
        """Take note that the next record that needs it is a probe."""
        b = self.seen.state(subject)
        b.probing, b.probed_at, b.probes = True, now, b.probes + 1

    def sent(self, it: InFlight, now: float, records: int = 1, *, sampled: bool = False) -> None:
        """Take note of records that were sent; ``sampled``: others, to any partition, are not tracked."""
        it.sent_at.extend([now] * records)
        self.seen.count(it, records, now)
        if sampled and it.leader is not None:
            self.seen.connection(it).sampled[it] = now

    def withdrawn(self, it: InFlight, now: float, records: int = 1, *, ended: bool = False) -> None:
        """Take note that the latest records were not sent after all.

        With ``ended`` that nothing will be reported of the oldest; what remains is waited for from now on.
        """
        records = min(records, it.outstanding)
        for _ in range(records):
            (it.sent_at.popleft if ended else it.sent_at.pop)()
        self.seen.discount(it, records, now)
        if ended and records and it.leader is not None:
            self.seen.restart(self.seen.connection(it), now)

    def throttled(self, broker: int, seconds: float, now: float) -> None:
        """Take note that a broker does not answer for so long because the client is over its quota."""
        leader = self.seen.leader(broker)
        leader.throttled_until = max(leader.throttled_until, now + seconds)

    def moved(self, it: InFlight, leader: int | None, followers: frozenset[int], now: float) -> None:
        """Take note that another broker leads, or others follow: what is in flight goes along."""
        if (leader, followers) == (it.leader, it.followers):
            return
        self.seen.discount(it, it.outstanding, now, leaves=True)
        if it.leader is not None:
            connection = self.seen.connection(it)
            connection.sampled.pop(it, None)
            if connection.given_up is it:
                connection.given_up = None  # its broker, which waited for others, learns of the change, too
        it.move(leader, followers)
        it.moved_at = now
        self.seen.count(it, it.outstanding, now)

    def answered(self, it: InFlight, latency: float, now: float) -> tuple[Change, ...]:
        """Take note of an answer, ``latency`` seconds after it was sent: what it needed was alive then."""
        seen = self.seen
        sent = it.sent_at.popleft() if it.sent_at else now - latency
        held = False
        if it.leader is not None:
            connection = seen.connection(it)
            held = sent < connection.held_to
            if (took := seen.silence(connection, now)) > _ONE_REQUEST_S:
                self._weigh(it, took, now)
            if sent >= connection.answered_to:
                connection.answered_to, connection.answered_in = sent, latency
            connection.given_up = None
            seen.restart(connection, now)
            seen.held_up = tuple(c for c in seen.held_up if c is not connection)
            connection.settle(it)
        for subject in it.brokers:
            b = seen.state(subject)
            b.outstanding = max(0, b.outstanding - (not it.is_aside))
            self.circuits.acknowledged(b, sent, latency, now, held=held)
        itself = seen.partitions.get(it.itself)
        if itself is not None:
            itself.outstanding = max(0, itself.outstanding - it.is_aside)
            self.circuits.acknowledged(itself, sent, latency, now)
        return self._done(now)

    def failed(self, it: InFlight, now: float) -> tuple[Change, ...]:
        """Take note of a record that the client gave up: no sign of life, nothing to wait for any more."""
        if it.sent_at:
            connection = None if it.leader is None else self.seen.connection(it)
            if connection is not None and it in connection.waiting and connection.head is it:
                connection.given_up = it
            it.sent_at.popleft()
            self.seen.discount(it, 1, now, failed=True)
        for b in self.seen.needed(it):
            self.circuits.announce(b, now)
            if b.probing and not b.outstanding:
                b.probing = False
                if b.trust is Trust.PROBATION:  # else it rests already, because the probe took too long
                    self.circuits.enter(b, Trust.SUSPECT, now)
                    self.circuits.renew()
        return self._done(now)

    def unreachable(self, broker: int, now: float) -> tuple[Change, ...]:
        """Take note that the client lost its connection to a broker, which may hold up what others lead."""
        leader, replica = self.seen.leader(broker), self.seen.state(Subject(Role.REPLICA, broker))
        leader.down_until = now + self.seen.policy.down_for
        is_news = not leader.is_bad
        self.circuits.suspect(leader, Suspicion.UNREACHABLE, now)
        if is_news and (replica.answered_to > -math.inf or replica.outstanding):
            self.circuits.suspect(replica, Suspicion.UNREACHABLE, now)
        self.circuits.renew()
        return self._done(now)

    def snapshot(
        self, brokers: Collection[int], now: float, needed: Collection[Subject] | None = None
    ) -> tuple[Change, ...]:
        """Forget the brokers that metadata no longer lists.

        A bad one that is not ``needed`` is trusted again: nothing could probe it. None: all may be needed.
        """
        seen = self.seen
        for b in tuple(seen.states.values()):
            is_listed = b.subject.id in brokers
            if b.is_bad and not (is_listed and (needed is None or b.subject in needed)):
                self.circuits.clear(b, Clearance.LEFT, now)
            if not is_listed:
                del seen.states[b.subject]
        seen.connections = {key: c for key, c in seen.connections.items() if c.broker in brokers}
        seen.held_up = tuple(c for c in seen.held_up if c.broker in brokers)
        for broker in brokers:
            seen.leader(broker)
        self.circuits.renew()
        return self._done(now)

    def forget(self, it: InFlight) -> None:
        """Forget what is known of a partition that is gone."""
        self.seen.partitions.pop(it.itself, None)
        self.seen.aside.pop(it, None)
        self.circuits.partitions_changed = True

    def polled(self, now: float) -> tuple[Change, ...]:
        """Draw conclusions, after all delivery reports that had come in were noted."""
        seen, circuits = self.seen, self.circuits
        seen.poll(now)
        find_stalls(circuits, now)
        uneasy = bool(self.avoidance or seen.ambiguous or seen.held_up)
        for b in seen.states.values():
            if b.outstanding or b.rests or b.trust is not Trust.TRUSTED:
                circuits.let_time_pass(b, now)
                uneasy = uneasy or b.trust is not Trust.TRUSTED
        if not self._round:
            self._round.extend(seen.partitions.values())
        for _ in range(min(_PARTITIONS_A_POLL, len(self._round))):
            circuits.let_time_pass(self._round.popleft(), now)
        if uneasy or circuits.partitions_changed:
            circuits.readmit_if_needed(now)
            circuits.renew()
        return self._done(now)

    def _weigh(self, it: InFlight, took: float, now: float) -> None:
        """Count how long a connection worked on a request; suspect what nearly all long ones needed."""
        needed, leader = self.seen.needed(it), it.leader
        if leader is None or it.is_aside or any(b.is_bad and b.reason is Suspicion.SLOW for b in needed):
            return
        long = took > self.seen.soon(self.seen.least_slow, *needed)
        known = [b.subject.id for b in needed if b.reason is Suspicion.SLOW and b.rests]
        slow = self._slowness.note(it, leader, now, long=long, known=known)
        for subject in slow:
            b = self.seen.state(subject)
            b.rests = max(b.rests, _SLOW_RESTS)
            self.circuits.suspect(b, Suspicion.SLOW, now)
            # It may be suspect as silent already: what it answers now does not make that a false alarm.
            b.reason = Suspicion.SLOW
        if slow:
            self.circuits.renew()

    def _done(self, now: float) -> tuple[Change, ...]:
        """Derive what others read, if it may have changed; return what is to be announced."""
        seen, circuits = self.seen, self.circuits
        if circuits.changed and circuits.partitions_changed:
            bad = [b for b in seen.partitions.values() if b.is_bad]
            self._bad_partitions = frozenset(b.subject.id for b in bad)
            self._partitions_to_try = any(b.trust is Trust.PROBATION for b in bad)
            circuits.partitions_changed = False
        if circuits.changed:
            circuits.changed = False
            new, self.handle = what_to_avoid(seen, self._bad_partitions, self.standbys, now)
            if new != self.avoidance:
                self.avoidance = new or NOTHING
            states = seen.states.values()
            self.probing = (
                self._partitions_to_try
                or any(s.role is Role.REPLICA for s in seen.ambiguous)
                or any(b.trust is Trust.PROBATION or may_be_refused(seen, b, now) for b in states)
            )
        changes, circuits.announced = tuple(circuits.announced), []
        return changes
