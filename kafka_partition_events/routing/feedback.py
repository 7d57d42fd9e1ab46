"""What deliveries tell before metadata does: for whom records wait. Pure: time is an argument.

Kafka goes on naming a dead leader for the whole broker session (9 s by default), and it never names a slow
one. Whoever has records outstanding there knows sooner. Brokers are judged in two roles, as leaders and as
in-sync replicas of what others lead, because with ``acks=all`` a write needs both. What is known of one is

- *trusted*: it answers, or nothing is outstanding on it;
- *doubted*: it is silent for too long, but so may be we: nobody who was asked later has answered yet.
  Others are tried first. If they are silent too, it was we who paused, or the network: nobody is suspected;
- *suspect*: records wait for it, and for nobody else as far as answers tell; or the client lost the
  connection. It rests, twice as long each time, and is told when its silence lasts;
- *on probation*: it has rested and nothing is stuck on it. Single records probe it, one at a time; enough
  good answers in a row clear it, a probe without an answer sends it back to rest. One that
  nothing needs that is written here is trusted untried after a while: nothing could clear it.

Whom a silent connection waits for: its *head* (see ``lanes.py``) waits for its leader or for a replica, but
not for one that has acknowledged something that was sent later. What remains is the connection's charge.
Several charges have the sick broker in common; as long as more than one is named equally often, or nobody who
was asked later has answered, those are *accused*: avoided, and not suspected.

A partition may be to blame by itself: it takes nothing although its leader has answered what was sent to it
later (too few in-sync replicas, or the client looks for its new leader). It is suspected as a broker is, but
not told.

Silence is measured in time that we *listened*: however long the process was stopped or did something else
between two looks at the delivery reports, that counts as `Policy.longest_gap` at most. So a garbage
collection or a stolen processor makes nobody look silent.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable

from kafka_partition_events.metadata.events import Clearance, Role, Suspicion
from kafka_partition_events.routing.charges import Charge, most_named
from kafka_partition_events.routing.judgement import Change
from kafka_partition_events.routing.lanes import Connection, Lane, Subject
from kafka_partition_events.routing.ledger import Standing
from kafka_partition_events.routing.standings import Standings

_SLOW_RESTS = 2
"""Who is slow rests the first time as if it were the third."""

_ONE_REQUEST_S = 0.001
"""What a connection answers closer together was one request, or several that came soon."""

_LAG_S = 0.01
"""A leader may be behind by so much at least; what it has is not worth a look sooner."""


class Feedback(Standings):
    """The judge: takes what was sent, answered and heard, and says whom to avoid. Not thread-safe.

    Every method takes ``now``, in seconds of one monotonic clock, and returns what has changed by it.
    """

    def standing(self, broker: int, role: Role = Role.LEADER) -> Standing:
        """Return what is known of a broker."""
        return self._of(Subject(role, broker)).standing

    def is_avoided(self, subject: Subject) -> bool:
        """Tell whether somebody is bad, or named along with others."""
        return subject in self._accused or self.is_bad(subject)

    def may_be_tried(self, subject: Subject) -> bool:
        """Tell whether somebody is on probation, so that a record may go there."""
        a = self._accounts.get(subject)
        return a is not None and a.standing is Standing.PROBATION

    def is_stuck(self, lane: Lane) -> bool:
        """Tell whether what is outstanding in a lane waits for a suspect, or behind something that does."""
        return bool(lane.sent_at) and (
            any(self.is_bad(subject) for subject in (*lane.brokers, lane.own))
            or any(c.broker == lane.leader and c.way == lane.way for c in self._held_up)
        )

    def lagging(self, now: float) -> frozenset[int]:
        """Return the leaders whose oldest record waits longer than answers take when nothing queues up.

        A link that is slow still answers all the time, and never falls silent; but a queue grows there.
        """
        return frozenset(
            c.broker
            for c in self._connections.values()
            if c.way == self.way and c.lanes and self._lags(c, now)
        )

    def _lags(self, connection: Connection, now: float) -> bool:
        head = connection.head
        leader = self._of(Subject(Role.LEADER, connection.broker))
        return not head.sent_at or now - head.sent_at[0] > self._soon(_LAG_S, leader)

    # -- what happens --------------------------------------------------------------------------------

    def sent(self, lane: Lane, now: float, count: int = 1) -> None:
        """Note records that were sent."""
        lane.sent_at.extend([now] * count)
        self._count(lane, count, now)

    def withdrawn(self, lane: Lane, now: float, count: int = 1) -> None:
        """Note that the latest records were not sent after all."""
        count = min(count, lane.outstanding)
        for _ in range(count):
            lane.sent_at.pop()
        self._discount(lane, count, now)

    def move(self, lane: Lane, leader: int | None, followers: frozenset[int], now: float) -> None:
        """Note that another broker leads, or others follow: records outstanding go along."""
        if (leader, followers) == (lane.leader, lane.followers):
            return
        self._discount(lane, lane.outstanding, now, leaving=True)
        if lane.leader is not None and (connection := self._connection(lane)).given_up is lane:
            connection.given_up = None  # who waited for it has been told, too
        lane.leader, lane.followers, lane.moved_at = leader, followers, now
        self._count(lane, lane.outstanding, now)

    def answered(self, lane: Lane, latency: float, now: float) -> tuple[Change, ...]:
        """Note a record that was answered, well or not, ``latency`` seconds after it was sent.

        It proves that all whom it needed were alive when it was sent.
        """
        changes: tuple[Change, ...] = ()
        sent = lane.sent_at.popleft() if lane.sent_at else now - latency
        held = False
        if lane.leader is not None:
            connection = self._connection(lane)
            held = sent < connection.held_to
            if (took := self._silence(connection, now)) > _ONE_REQUEST_S:
                changes = self._weigh(lane, took, now)
            connection.answered_to = max(connection.answered_to, sent)
            connection.given_up = None
            self._restart(connection, now)
            self._held_up = tuple(c for c in self._held_up if c is not connection)
            connection.move_on(lane)
        for subject in lane.brokers:
            a = self._of(subject)
            a.outstanding = max(0, a.outstanding - (not lane.aside))
            changes += self._acknowledged(a, sent, latency, now, held=held)
        own = self._accounts.get(lane.own)
        if own is not None:
            own.outstanding = max(0, own.outstanding - lane.aside)
            changes += self._acknowledged(own, sent, latency, now)
            if not own.is_bad:
                self._bring_back(lane, now)
        return changes

    def failed(self, lane: Lane, now: float) -> tuple[Change, ...]:
        """Note a record that the client gave up: no sign of life, and nothing to wait for any more."""
        if lane.sent_at:
            connection = None if lane.leader is None else self._connection(lane)
            if connection is not None and lane in connection.lanes and connection.head is lane:
                connection.given_up = lane
            lane.sent_at.popleft()
            self._discount(lane, 1, now, failed=True)
        changes: tuple[Change, ...] = ()
        for a in self._needed(lane):
            changes += self._tell(a, now)
            if a.probing and not a.outstanding:
                a.probing = False
                if a.standing is Standing.PROBATION:  # else it rests already, because the probe took too long
                    self._rest(a, now)
                    self._judge(now)
        return changes

    def unreachable(self, broker: int, now: float) -> tuple[Change, ...]:
        """Note that the client lost its connection to a broker, or could not make one.

        Whoever is dead holds up what others lead, too. If only the connection is, answers soon tell.
        """
        leader, replica = (self._of(Subject(role, broker)) for role in (Role.LEADER, Role.REPLICA))
        leader.down_until = now + self.policy.down_for
        is_news = not leader.is_bad
        changes = self._suspect(leader, Suspicion.UNREACHABLE, now)
        if is_news and (replica.answered_to > -math.inf or replica.outstanding):
            changes += self._suspect(replica, Suspicion.UNREACHABLE, now)
        self._judge(now)
        return changes

    def follow(
        self, brokers: Collection[int], now: float, needed: Collection[Subject] | None = None
    ) -> tuple[Change, ...]:
        """Forget the brokers that metadata no longer lists.

        Whoever is bad and not among the ``needed`` ones is trusted again: there is nothing to probe it by,
        and metadata says by itself whom to avoid. None: all may be needed.
        """
        changes: tuple[Change, ...] = ()
        for a in [a for a in self._accounts.values() if a.subject.role is not None]:
            is_listed = a.subject.id in brokers
            if a.is_bad and not (is_listed and (needed is None or a.subject in needed)):
                changes += self._clear(a, Clearance.LEFT, now)
            if not is_listed:
                del self._accounts[a.subject]
        for way, broker in tuple(self._connections):
            if broker not in brokers:
                del self._connections[way, broker]
        self._held_up = tuple(c for c in self._held_up if c.broker in brokers)
        for broker in brokers:
            self._of(Subject(Role.LEADER, broker))
        self._judge(now)
        return changes

    def forget(self, lane: Lane) -> None:
        """Forget what is known of a partition that is gone."""
        self._accounts.pop(lane.own, None)

    def heard(self, now: float) -> tuple[Change, ...]:
        """Look at everybody, after all delivery reports that had come in were noted."""
        self._listened += self._since_heard(now)
        self._heard_at = now
        changes = self._try_charges(now)
        uneasy = bool(self.avoidance or self._accused or self._held_up)
        for a in self._accounts.values():
            if a.outstanding or a.rests or a.standing is not Standing.TRUSTED:
                changes += self._look_at(a, now)
                uneasy = uneasy or a.standing is not Standing.TRUSTED
                if self._untold and self._is_no_hiccup(a):
                    changes += self._tell(a, now)
        if uneasy:
            changes += self._readmit_if_needed(now)
            self._judge(now)
        return changes

    # -- who is to blame -----------------------------------------------------------------------------

    def _try_charges(self, now: float) -> tuple[Change, ...]:
        """Suspect, or at least accuse, whom the silent connections have in common."""
        waiting = [(c, self._accusable(c, c.head)) for c in self._waiting_connections(now)]
        silent = {c for c, accused in waiting if self._is_silent(c, accused, now)}
        charges = [self._charge(c, accused) for c, accused in waiting if c in silent]
        changes, accused = self._verdict([charge for charge in charges if charge is not None], now)
        if not accused:
            self._accused_since = math.inf
        elif not self._accused:
            self._accused_since = now
        self._accused = accused
        # What waits for a suspect goes on doing so, although patience with all others has grown.
        waited_for = [
            (c, [a for a in needed if c in silent or a.standing is Standing.SUSPECT]) for c, needed in waiting
        ]
        self._awaited = frozenset(a.subject for _, awaited in waited_for for a in awaited)
        self._kept = {}
        for c, awaited in waited_for:
            bad = {a.subject.id for a in awaited if a.is_bad}
            if len(bad) == 1:
                (alone,) = bad
                self._kept[alone] = max(self._kept.get(alone, 0.0), self._silence(c, now))
        self._held_up = tuple(c for c, awaited in waited_for if any(map(self._holds_up, awaited)))
        for c in self._held_up:
            c.held_to = now
        gave_up = (c for c in self._connections.values() if c.given_up is not None)
        self._stalled = Counter(c.way for c in {c for c, _ in waiting}.union(gave_up))
        return changes

    def _waiting_connections(self, now: float) -> Iterable[Connection]:
        """Yield the connections that wait for longer than usual; look for single partitions in the others."""
        for connection in self._connections.values():
            if connection.lanes:
                leader = self._of(Subject(Role.LEADER, connection.broker))
                if self._silence(connection, now) > self._patience_with_one(leader):
                    yield connection
                else:
                    self._set_overtaken_aside(connection, self._patience(leader), now)

    def _verdict(self, charges: list[Charge], now: float) -> tuple[tuple[Change, ...], frozenset[Subject]]:
        """Suspect whom the most charges name, one after the other; return who remains accused."""
        changes: tuple[Change, ...] = ()
        while charges:
            named, accused = most_named(charges)
            in_common = len(named) == 1 and len(charges) > 1
            if len(named) > 1:  # who is charged alone is to blame anyway
                alone = [id_ for id_ in named if any(c.witnessed and c.names_only(id_) for c in charges)]
                named = alone[:1] or named
            explained = [charge for charge in charges if any(map(charge.names, named))]
            witnessed = any(charge.witnessed for charge in explained)
            if len(named) == 1 and witnessed:
                changes += self._blame(named[0], explained, now)
                charges = [
                    c for c in charges if c not in explained and self._is_silent(c.connection, c.accused, now)
                ]
            elif witnessed or in_common:
                return changes, accused
            else:  # all are silent, with nobody in common: it is us
                break
        return changes, frozenset()

    def _blame(
        self, broker: int | tuple[str, int], charges: Collection[Charge], now: float
    ) -> tuple[Change, ...]:
        """Suspect a broker in each role in which it was accused, or has not shown itself of late.

        What it did in the other role right after the silence began does not count for long: on a busy machine
        a broker may be late with one answer, and die a moment later.
        """
        changes: tuple[Change, ...] = ()
        proven = min(self._proven_from(charge.connection) for charge in charges)
        accused = {a.subject for charge in charges for a in charge.accused if a.subject.id == broker}
        # Both ways to a partition may be silent.
        heads = (charge.connection.head for charge in charges)
        waiting = tuple(dict.fromkeys((head.topic, head.partition) for head in heads))
        silence = max(self._silence(charge.connection, now) for charge in charges)
        roles = sorted((Role.LEADER, Role.REPLICA), key=lambda role: Subject(role, broker) not in accused)
        for role in roles:  # it is told as what it was accused of
            a = self._accounts.get(Subject(role, broker))
            if a is None:
                continue
            if a.subject in accused or a.answered_to <= max(proven, now - self._patience(a)):
                changes += self._suspect(a, Suspicion.SILENT, now, waiting, silence)
        return changes

    def _weigh(self, lane: Lane, took: float, now: float) -> tuple[Change, ...]:
        """Take into account how long a connection was at a request; suspect whom nearly all long ones needed.

        Nobody is silent where a link has too little bandwidth: everything is answered in the end, and what
        stands behind it late. Patience grows along with that, up to its bound.
        """
        needed, leader = self._needed(lane), lane.leader
        if leader is None or lane.aside or any(a.is_bad and a.reason is Suspicion.SLOW for a in needed):
            return ()
        long = took > self._soon(self.policy.least_silence, *needed)
        known = [a.subject.id for a in needed if a.reason is Suspicion.SLOW and a.rests]
        slow = self._waits.note(lane, leader, now, long=long, known=known)
        changes: tuple[Change, ...] = ()
        for subject in slow:
            a = self._of(subject)
            # Single records pass soon, whatever the link lets through: it is not tried again so soon.
            a.rests = max(a.rests, _SLOW_RESTS)
            changes += self._suspect(a, Suspicion.SLOW, now)
            # It may be suspect as silent, too: what it answers now does not make that a false alarm.
            a.reason = Suspicion.SLOW
        if slow:
            self._judge(now)
        return changes

    def _set_overtaken_aside(self, connection: Connection, patience: float, now: float) -> None:
        """Suspect the partitions that take nothing while their leader answers what was sent later."""
        for lane in tuple(connection.lanes):
            if connection.answered_to > max(lane.sent_at[0], lane.moved_at) + patience:
                if connection.given_up is lane:
                    connection.given_up = None
                self._discount(lane, lane.outstanding, now, leaving=True)
                lane.aside = True
                self._count(lane, lane.outstanding, now)
                self._suspect(self._of(lane.own), Suspicion.SILENT, now)

    def _bring_back(self, lane: Lane, now: float) -> None:
        if lane.aside:
            self._discount(lane, lane.outstanding, now, leaving=True)
            lane.aside = False
            self._count(lane, lane.outstanding, now)
