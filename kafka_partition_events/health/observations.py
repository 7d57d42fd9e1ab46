"""What the failure detector has seen, and concluded: brokers, connections, the time it listened. Pure.

Silence is measured in time that we *listened*: however long the process was stopped between two polls of
delivery reports, that counts as `DetectorPolicy.longest_gap` at most, and no broker seems unresponsive by it.
"""

import math
import statistics
from collections import Counter
from collections.abc import Container, Iterable

from attrs import define, field

from kafka_partition_events.health.broker_state import BrokerState, Trust
from kafka_partition_events.health.in_flight import BrokerConnection, InFlight, Subject, SubjectId
from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.metadata.events import Role

BESIDE = 2.0
"""A broker is slow beside the others when it takes this many times what they take."""
CONNECTING = 4
"""A broker that has not answered yet gets this many times the longest stall: TCP, TLS and the login take four
round trips before the first record is sent."""


@define(eq=False)
class Observations:
    """All that is judged by. Not thread-safe."""

    policy: DetectorPolicy
    states: dict[Subject, BrokerState] = field(factory=dict)  # of brokers
    partitions: dict[Subject, BrokerState] = field(factory=dict)  # that were aside; there may be thousands
    connections: dict[tuple[int, int], BrokerConnection] = field(factory=dict)  # by handle and broker
    aside: dict[InFlight, None] = field(factory=dict)  # counted against their partitions
    polled_at: float = -math.inf
    common: float = 0.0  # what answers of all leaders usually take beyond linger: the median of their medians
    _listened: float = 0.0
    suspects: frozenset[SubjectId] = frozenset()  # brokers that are bad in some role, see `Circuits.renew`

    # What the latest poll has concluded:
    ambiguous: frozenset[Subject] = frozenset()  # named equally often: avoided, not suspected
    ambiguous_since: float = math.inf
    awaited: frozenset[Subject] = frozenset()  # which the heads of stalled connections need
    waited_for: dict[SubjectId, float] = field(factory=dict)  # how long, where it is the only suspect
    held_up: tuple[BrokerConnection, ...] = ()  # that wait for a suspect
    alone: frozenset[BrokerConnection] = frozenset()  # stalled, and nothing in flight can bear witness
    silent: Counter[int] = field(factory=Counter)  # by handle: connections that are silent, or gave up

    def state(self, subject: Subject) -> BrokerState:
        """Return what is known of a broker or partition; nothing is known of a new one."""
        states = self.partitions if subject.role is None else self.states
        if subject not in states:
            states[subject] = BrokerState(subject)
        return states[subject]

    def leader(self, broker: int) -> BrokerState:
        """Return what is known of a broker as a leader."""
        return self.state(Subject(Role.LEADER, broker))

    def of(self, role: Role) -> Iterable[BrokerState]:
        """Return the brokers in a role."""
        return (b for b in self.states.values() if b.subject.role is role)

    def roles(self, b: BrokerState) -> list[BrokerState]:
        """Return a broker in both roles, as far as it was seen in them."""
        return [other for role in Role if (other := self.states.get(Subject(role, b.subject.id)))]

    def needed(self, it: InFlight) -> tuple[BrokerState, ...]:
        """Return what records of a partition count against: the brokers that they need, or the partition."""
        return tuple(self.state(subject) for subject in ((it.itself,) if it.is_aside else it.brokers))

    def connection(self, it: InFlight) -> BrokerConnection:
        """Return the connection that records of a partition that has a leader go by."""
        assert it.leader is not None  # noqa: S101 - callers have checked
        key = it.handle, it.leader
        if key not in self.connections:
            self.connections[key] = BrokerConnection(*key)
        return self.connections[key]

    def is_ambiguous(self, b: BrokerState) -> bool:
        """Return whether a broker is named along with others, for more than a moment: it may still answer."""
        lasts = self.polled_at - self.ambiguous_since > self.policy.linger + self.policy.shortest_stall
        return lasts and b.subject in self.ambiguous

    def count(self, it: InFlight, records: int, now: float) -> None:
        """Count records that wait from now on."""
        if not records:
            return
        for b in self.needed(it):
            if not b.outstanding:
                self.restart(b, now)
            b.outstanding += records
        if it.leader is not None and not it.is_aside:
            connection = self.connection(it)
            if not connection.waiting:
                self.restart(connection, now)
                if (given_up := connection.given_up) and not any(b.is_bad for b in self.needed(given_up)):
                    connection.given_up = None
            connection.enter(it)

    def discount(
        self, it: InFlight, records: int, now: float, *, failed: bool = False, leaves: bool = False
    ) -> None:
        """Count records no more; all of the partition's when it leaves. What failed ends no silence."""
        if not records:
            return
        for b in self.needed(it):
            b.outstanding = max(0, b.outstanding - records)
            if not b.outstanding and not failed:
                b.probing = False
                self.restart(b, now)
        if it.leader is not None and not it.is_aside:
            connection = self.connection(it)
            connection.settle(it, leaves=leaves)
            if not connection.waiting and not failed:
                self.restart(connection, now)

    def put_aside(self, it: InFlight, now: float, *, aside: bool) -> None:
        """Count a partition's records against the partition from now on, or against its brokers again."""
        self.discount(it, it.outstanding, now, leaves=True)
        it.is_aside = aside
        self.aside.pop(it, None)
        if aside:
            self.aside[it] = None
        self.count(it, it.outstanding, now)

    def poll(self, now: float) -> None:
        """Take note that all delivery reports that had come in were noted."""
        self._listened += self._since_poll(now)
        self.polled_at = now
        self.common = max(0.0, (_median(self.of(Role.LEADER)) or 0.0) - self.policy.linger)

    def _since_poll(self, now: float) -> float:
        return min(self.policy.longest_gap, max(0.0, now - self.polled_at))

    def restart(self, waiting: BrokerState | BrokerConnection, now: float) -> None:
        """Let a silence begin now."""
        if isinstance(waiting, BrokerConnection):
            waiting.asked_at, waiting.excused = now, False
        waiting.silent_from = self._listened + self._since_poll(now)

    def silence(self, waiting: BrokerState | BrokerConnection, now: float) -> float:
        """Return how many listened seconds a silence lasts; what a broker throttles for a quota is none."""
        silence = max(0.0, self._listened + self._since_poll(now) - waiting.silent_from)
        if isinstance(waiting, BrokerConnection):
            throttled = self.leader(waiting.broker).throttled_until
            if now - throttled < silence:
                return max(0.0, now - throttled)
        return silence

    def patience(self, b: BrokerState, besides: Container[SubjectId] = ()) -> float:
        """Return the listened seconds after which a broker is silent for too long.

        The more brokers are suspect, the likelier the cause is ours (a busy machine, the network), so each
        adds as much again; but for those ``besides``, which may be the cause of this very silence.
        """
        others = sum(id_ != b.subject.id and id_ not in besides for id_ in self.suspects)
        return self.patience_alone(b) * (1 + others)

    def patience_alone(self, b: BrokerState) -> float:
        """Return what patience with a broker is while no other one is suspect.

        Slow is slow beside the others: distance, or a full uplink of ours, makes all answers late alike. And
        a broker that has always been far away (its soonest answers took long) is not slow by that.
        """
        policy, floor = self.policy, b.latencies.floor
        if b.latencies.median is None:
            return policy.linger + CONNECTING * max(policy.longest_stall, BESIDE * self.common)
        expected = b.latencies.expected(policy, self.polled_at) - policy.linger
        most = max(policy.longest_stall, BESIDE * self.common, BESIDE * (floor - policy.linger))
        return policy.linger + min(most, max(self.least_slow, expected))

    @property
    def least_slow(self) -> float:
        """What is slow at least, in seconds beyond linger: more than others take."""
        return max(self.policy.shortest_stall, BESIDE * self.common)

    def soon(self, least: float, *needed: BrokerState) -> float:
        """Return within what time an answer comes when nothing queues up at the brokers that it needs."""
        floor = max(b.latencies.floor for b in needed)
        return self.policy.linger + max(least, self.policy.median_factor * floor)

    @property
    def usual(self) -> float | None:
        """How many seconds trusted leaders usually take to answer (their median); None: not known yet."""
        return _median(b for b in self.of(Role.LEADER) if b.trust is Trust.TRUSTED)


def _median(states: Iterable[BrokerState]) -> float | None:
    known = [b.latencies.median for b in states if b.latencies.median is not None]
    return statistics.median_low(known) if known else None
