"""Each broker's circuit breaker: what opens it, what closes it again, and what of that is announced. Pure."""

import math

from attrs import define, evolve, field

from kafka_partition_events.health.broker_state import BrokerState, Trust
from kafka_partition_events.health.observations import Observations
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.metadata.events import BrokerCleared, BrokerSuspected, Clearance, Role, Suspicion

Change = BrokerSuspected | BrokerCleared
"""What is announced; the partitioner's name is filled in later."""

_FALSE_ALARM = 2.0  # who answers within so many times our patience was only late; patience is to grow by that
_LAST_HOPE = 2.0  # with no other left, a doubted broker is waited for so many times our patience
_TOO_OFTEN = 4  # who had to rest so many times of late is announced, however short its silences are


def _in_ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


@define(eq=False)
class Circuits:
    """Suspects brokers and trusts them again. A suspicion is one episode, in however many roles."""

    seen: Observations
    begun: dict[int, float] = field(factory=dict)  # the episode of each suspect
    unannounced: dict[int, BrokerSuspected] = field(factory=dict)  # it may still be a hiccup
    announced: list[Change] = field(factory=list)  # and not taken yet
    changed: bool = False  # so that what to avoid has to be derived again
    partitions_changed: bool = False  # a partition by itself was suspected, or trusted again

    def renew(self) -> None:
        """Take note of who is suspect now: patience with the others depends on it."""
        self.seen.suspects = frozenset(b.subject.id for b in self.seen.states.values() if b.is_bad)
        self.changed = True

    def enter(self, b: BrokerState, trust: Trust, now: float) -> None:
        """Change what a broker or partition is trusted."""
        b.enter(trust, now, self.seen.policy)
        self.partitions_changed |= b.subject.role is None

    def suspect(self, b: BrokerState, reason: Suspicion, now: float, silence: float | None = None,
                waiting: tuple[TopicPartition, ...] = ()) -> None:  # fmt: skip
        """Open a circuit; on probation it opens again, and the episode goes on."""
        if (before := b.trust) is Trust.SUSPECT:
            return
        self.enter(b, Trust.SUSPECT, now)
        if before is Trust.PROBATION:
            return
        b.reason, b.probes = reason, 0
        role, broker = b.subject
        if role is None or not isinstance(broker, int) or broker in self.begun:
            return
        if silence is None:
            silence = self.seen.silence(b, now) if b.outstanding else 0.0
        self.begun[broker] = now
        event = BrokerSuspected(
            broker=broker, role=role, reason=reason, outstanding=b.outstanding, silence_ms=silence * 1000,
            usual_ms=_in_ms(b.latencies.median), waiting=waiting, partitioner="",
        )  # fmt: skip
        if reason is not Suspicion.UNREACHABLE and silence < self.seen.policy.announce_after:
            self.unannounced[broker] = event
        else:
            self.announced.append(event)

    def announce(self, b: BrokerState, now: float) -> None:
        """Announce that a broker is suspect, if it still is and that has not been announced."""
        _, broker = b.subject
        if b.is_bad and isinstance(broker, int) and (event := self.unannounced.pop(broker, None)):
            silence_ms = max(event.silence_ms, self.seen.silence(b, now) * 1000)
            self.announced.append(evolve(event, outstanding=b.outstanding, silence_ms=silence_ms))

    def clear(self, b: BrokerState, reason: Clearance, now: float) -> None:
        """Trust a broker or partition again; its episode ends with its last role, a hiccup unsaid."""
        self.enter(b, Trust.TRUSTED, now)
        for it in [it for it in self.seen.aside if it.itself == b.subject]:
            self.seen.put_aside(it, now, aside=False)
        _, broker = b.subject
        if not isinstance(broker, int) or any(other.is_bad for other in self.seen.roles(b)):
            return
        lasted_ms = (now - self.begun.pop(broker)) * 1000
        if self.unannounced.pop(broker, None) is None:
            event = BrokerCleared(
                broker=broker, reason=reason, suspected_ms=lasted_ms, probes=b.probes,
                usual_ms=_in_ms(b.latencies.median), partitioner="",
            )  # fmt: skip
            self.announced.append(event)

    def let_time_pass(self, b: BrokerState, now: float) -> None:
        """Change what time alone changes; announce a suspicion that is no hiccup."""
        stalled = b.subject in self.seen.awaited
        if b.subject.role is None:
            stalled = b.outstanding > 0 and self.seen.silence(b, now) > self.seen.patience(b)
        due = b.let_time_pass(now, self.seen.policy, stalled=stalled)
        if due is Trust.TRUSTED and b.is_bad:
            self.clear(b, Clearance.LEFT, now)
        elif due is not b.trust:
            self.enter(b, due, now)
        # What waits for other suspects as well is no sign: they may be to blame for all of it.
        waits = self.seen.waited_for.get(b.subject.id, 0.0)
        if waits >= self.seen.policy.announce_after or b.rests >= _TOO_OFTEN:
            self.announce(b, now)

    def acknowledged(
        self, b: BrokerState, sent: float, latency: float, now: float, *, held: bool = False
    ) -> None:
        """Take note that a broker has done its part; ``held``: while the connection waited for a suspect."""
        seen = self.seen
        b.answered_to = max(b.answered_to, sent)
        b.latencies.note_floor(latency, now)
        b.down_until = -math.inf
        silence = seen.silence(b, now)
        seen.restart(b, now)
        patience = seen.patience(b)
        # What was sent before the broker came back shows how long the fault took, not what is usual.
        usual = b.trust is not Trust.SUSPECT and sent >= b.back_at
        # But a probe's answer counts: the broker may be slow for good, and this is how we learn it. The first
        # answer is its own. And one that is well: what stood behind a suspect's record shows that suspect.
        if (usual or b.probing or latency <= _FALSE_ALARM * patience) and (b.is_bad or not held):
            b.latencies.learn(latency)
        b.probing = False
        is_late = b.reason is Suspicion.SILENT and not b.probes and now - b.suspected_at <= patience
        if b.trust is Trust.DOUBTED:
            self._give_benefit_of_doubt(now)
        elif b.trust is Trust.PROBATION:
            if b.reason is Suspicion.SLOW:
                patience = seen.soon(seen.least_slow, *seen.roles(b))
            if max(silence, latency) <= patience and b.is_cleared_by_good_answer(now, seen.policy):
                self.clear(b, Clearance.ANSWERED, now)
                self.renew()
        elif b.trust is Trust.SUSPECT and is_late:
            b.latencies.note_false_alarm(silence, seen.policy, now, seen.polled_at)
            if not b.outstanding:
                b.rests -= 1
                self.clear(b, Clearance.ANSWERED, now)
                self.renew()

    def _give_benefit_of_doubt(self, now: float) -> None:
        """Trust all that are doubted: one of them answers after a silence that they had in common.

        Else after an outage the first to answer would be the witness against the second. A connection gets it
        once, until it has answered: others to its broker may answer all the time, and it waits for a suspect.
        """
        for b in self.seen.of(Role.LEADER):
            if b.trust is Trust.DOUBTED:
                self.enter(b, Trust.TRUSTED, now)
                self.seen.restart(b, now)
                for connection in self.seen.connections.values():
                    if connection.broker == b.subject.id and not connection.excused:
                        self.seen.restart(connection, now)
                        connection.excused = True
        self.renew()

    def readmit_if_needed(self, now: float) -> None:
        """Where none is trusted in a role, trust those that nothing is stuck on or that have answered since.

        On a machine that is so busy that all seem silent it is no reason to wait for the one that is.
        """
        seen = self.seen
        for role in (Role.LEADER, Role.REPLICA):
            states = list(seen.of(role))
            if any(b.trust is Trust.TRUSTED or self._is_last_hope(b, now) for b in states):
                continue
            for b in states:
                is_alive = b.answered_to > b.suspected_at or (role is Role.LEADER and not b.outstanding)
                if b.is_bad and is_alive and b.down_until <= now:
                    self.clear(b, Clearance.NEEDED, now)

    def _is_last_hope(self, b: BrokerState, now: float) -> bool:
        return b.trust is Trust.DOUBTED and self.seen.silence(b, now) <= _LAST_HOPE * self.seen.patience(b)
