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
  good answers in a row clear it, a probe without an answer sends it back to rest.

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
from collections.abc import Collection, Iterable
from typing import Any

from attrs import evolve

from kafka_partition_events.metadata.events import Clearance, Role, Suspicion
from kafka_partition_events.routing.charges import Charge, Charges, most_named
from kafka_partition_events.routing.judgement import (
    NOTHING,
    Avoidance,
    Change,
    Cleared,
    Policy,
    Suspected,
)
from kafka_partition_events.routing.lanes import MAIN, STANDBY, Connection, Lane, Subject
from kafka_partition_events.routing.ledger import Account, Standing

_FALSE_ALARM = 2.0
"""A suspect that answers within so many times our patience was only late; patience is to grow by that."""

_LESSON = 1.25
"""After a false alarm patience is this many times the silence that was one, and half of that 5 s later."""

_LAST_HOPE = 2.0
"""With nobody else left, a doubted broker is waited for so many times our patience."""

_APART = 0.8
"""Good answers count when they are this much of a probe interval apart: probes' own answers vary a little."""

_MOST_MORE_PROBES = 7
"""A broker that was suspect before needs one good answer more each time, but not more than this."""

_TOO_OFTEN = 4
"""Who has had to rest so many times lately is told, however short his silences are."""

_SLOW_RESTS = 2
"""Who is slow rests the first time as if it were the third."""

_LAG_S = 0.01
"""A leader may be behind by so much at least; what it has is not worth a look sooner."""


class Feedback(Charges):
    """The judge: takes what was sent, answered and heard, and says whom to avoid. Not thread-safe.

    Every method takes ``now``, in seconds of one monotonic clock, and returns what has changed by it.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__(policy)
        self.avoidance = NOTHING
        self.probing = False
        """Whether somebody has rested, or is accused for long, so that a probe may be due."""
        self.has_standby = False
        """Whether the client has a second way, with connections of its own."""
        self.on_standby = False
        """Whether records that need nobody suspect are to take it: on the first one they may stand behind
        others that wait. When the second one is blocked itself, and the first no more, they are to return."""
        self._awaited: frozenset[Subject] = frozenset()  # whom the heads of silent connections need
        # Whom silent connections wait for, and for nobody else who is bad; for how long.
        self._kept: dict[int | tuple[str, int], float] = {}
        self._held_up: tuple[Connection, ...] = ()  # those that are silent because of somebody bad
        self._stalled = (0, 0)  # how many connections of each way are silent, or hold what was given up
        self._episodes: dict[int, float] = {}  # brokers that are suspect in some role, and since when
        self._untold: dict[int, Suspected] = {}  # those of them whose silence may still be a hiccup

    def standing(self, broker: int, role: Role = Role.LEADER) -> Standing:
        """Return what is known of a broker."""
        return self._of(Subject(role, broker)).standing

    def is_bad(self, subject: Subject) -> bool:
        """Tell whether somebody is suspect or on probation."""
        a = self._accounts.get(subject)
        return a is not None and a.is_bad

    def is_avoided(self, subject: Subject) -> bool:
        """Tell whether somebody is bad, or named along with others."""
        return subject in self._accused or self.is_bad(subject)

    def may_be_tried(self, subject: Subject) -> bool:
        """Tell whether somebody is on probation, so that a record may go there."""
        a = self._accounts.get(subject)
        return a is not None and a.standing is Standing.PROBATION

    def is_stuck(self, lane: Lane) -> bool:
        """Tell whether what is outstanding in a lane waits for a suspect, or behind something that does."""
        if not lane.sent_at:
            return False
        if any(self.is_bad(subject) for subject in (*lane.brokers, lane.own)):
            return True
        return any(c.broker == lane.leader and c.way == lane.way for c in self._held_up)

    def lagging(self, now: float) -> frozenset[int]:
        """Return the leaders whose oldest record waits longer than answers take when nothing queues up.

        A link that is slow still answers all the time, and never falls silent; but a queue grows there.
        """
        return frozenset(
            c.broker
            for c in self._connections.values()
            if c.way == self.on_standby and c.lanes and self._lags(c, now)
        )

    def _lags(self, connection: Connection, now: float) -> bool:
        head = connection.head
        leader = self._of(Subject(Role.LEADER, connection.broker))
        return not head.sent_at or now - head.sent_at[0] > self._soon(_LAG_S, leader)

    def _soon(self, least: float, *needed: Account) -> float:
        """Return within what time an answer comes when nothing queues up at those whom it needs."""
        floor = max(a.floor for a in needed)
        return self.policy.linger + max(least, self.policy.silence_factor * floor)

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
        if lane.leader is not None:
            connection = self._connection(lane)
            if (took := self._silence(connection, now)) > 0:
                changes = self._weigh(lane, took, now)
            connection.answered_to = max(connection.answered_to, sent)
            connection.given_up = None
            self._restart(connection, now)
            connection.move_on(lane)
        for subject in lane.brokers:
            a = self._of(subject)
            a.outstanding = max(0, a.outstanding - (not lane.aside))
            changes += self._acknowledged(a, sent, latency, now)
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
        for a in tuple(self._accounts.values()):
            if needed is not None and a.is_bad and a.subject.role is not None:
                changes += () if a.subject in needed else self._clear(a, Clearance.LEFT, now)
            if a.subject.role is not None and a.subject.id not in brokers:
                if a.is_bad:
                    changes += self._clear(a, Clearance.LEFT, now)
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
        uneasy = bool(self.avoidance)
        changes = self._try_charges(now)
        uneasy = uneasy or bool(self._accused or self._held_up)
        for a in self._accounts.values():
            if a.outstanding or a.rests or a.standing is not Standing.TRUSTED:
                self._look_at(a, now)
                uneasy = uneasy or a.standing is not Standing.TRUSTED
                if self._untold and self._is_no_hiccup(a):
                    changes += self._tell(a, now)
        if uneasy:
            changes += self._readmit_if_needed(now)
            self._judge(now)
        return changes

    def due_for_a_probe(self, now: float) -> tuple[Subject, ...]:
        """Return to whom one record each should be sent, to see whether they answer.

        Whoever does so calls `probed` before, and `sent` as for any record.
        """
        interval = self.policy.probe_interval
        return tuple(
            a.subject
            for a in self._accounts.values()
            if now - a.probed_at >= interval
            and (self._is_on_trial(a) or self._is_to_show_itself(a, now) or self._may_be_refused(a, now))
        )

    def _is_on_trial(self, a: Account) -> bool:
        return a.standing is Standing.PROBATION and not (a.outstanding and self._is_under_way(a))

    def _is_to_show_itself(self, a: Account, now: float) -> bool:
        """Tell whether a replica is named along with others: they are all avoided, so no answer would tell.

        One record that needs nobody else of them does, whether it is answered or not: unless it stands behind
        others of a connection that was about to fall silent, so there may be another one later.
        """
        if not self._accusations_last or a.subject not in self._accused or a.subject.role is not Role.REPLICA:
            return False
        return not a.probing or now - a.probed_at > self._patience(a)

    def _may_be_refused(self, a: Account, now: float) -> bool:
        """Tell whether one partition is all that waits for a suspect leader, which has rested.

        Then it may be the partition that takes nothing (too few in-sync replicas), while the leader is well.
        One record to another partition of its tells: once that is answered, the one is overtaken.
        """
        if a.subject.role is not Role.LEADER or a.standing is not Standing.SUSPECT or a.probing:
            return False
        lanes = [lane for c in self._connections.values() if c.broker == a.subject.id for lane in c.lanes]
        return now >= max(a.rest_until, a.down_until) and len({lane.own for lane in lanes}) == 1

    def _is_under_way(self, a: Account) -> bool:
        """Tell whether something that needs a broker may be answered any moment, which is as good as a probe.

        What stands behind others that wait may not.
        """
        return a.subject.role is None or any(
            a.subject in lane.brokers
            for c in self._connections.values()
            if c not in self._held_up
            for lane in c.lanes
        )

    def probed(self, subject: Subject, now: float) -> None:
        """Note that the next record that needs somebody is a probe."""
        a = self._of(subject)
        a.probing, a.probed_at, a.probes = True, now, a.probes + 1

    # -- who is to blame -----------------------------------------------------------------------------

    def _try_charges(self, now: float) -> tuple[Change, ...]:
        """Suspect, or at least accuse, whom the silent connections have in common."""
        waiting = [
            (c, self._accusable(c, c.head), self._is_silent(c, now)) for c in self._waiting_connections(now)
        ]
        charges = [self._charge(c, accused) for c, accused, silent in waiting if silent]
        changes, accused = self._verdict([charge for charge in charges if charge is not None], now)
        if not accused:
            self._accused_since = math.inf
        elif not self._accused:
            self._accused_since = now
        self._accused = accused
        # What waits for a suspect goes on doing so, although patience with all others has grown.
        waited_for = [
            (c, [a for a in accused if silent or a.standing is Standing.SUSPECT])
            for c, accused, silent in waiting
        ]
        self._awaited = frozenset(a.subject for _, awaited in waited_for for a in awaited)
        self._kept = {}
        for c, awaited in waited_for:
            bad = {a.subject.id for a in awaited if a.is_bad}
            if len(bad) == 1:
                (alone,) = bad
                self._kept[alone] = max(self._kept.get(alone, 0.0), self._silence(c, now))
        self._held_up = tuple(c for c, awaited in waited_for if any(map(self._holds_up, awaited)))
        gave_up = (c for c in self._connections.values() if c.given_up is not None)
        stalled = [c.way for c in {c for c, *_ in waiting}.union(gave_up)]
        self._stalled = (stalled.count(MAIN), stalled.count(STANDBY))
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
                charges = [c for c in charges if c not in explained and self._is_silent(c.connection, now)]
            elif witnessed or in_common:
                return changes, accused
            else:  # all are silent, with nobody in common: it is us
                break
        return changes, frozenset()

    def _blame(
        self, broker: int | tuple[str, int], charges: Collection[Charge], now: float
    ) -> tuple[Change, ...]:
        """Suspect a broker in each role in which it was accused, or has not shown itself since."""
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
            if a is not None and (a.subject in accused or a.answered_to <= proven):
                changes += self._suspect(a, Suspicion.SILENT, now, waiting, silence)
        return changes

    def _weigh(self, lane: Lane, took: float, now: float) -> tuple[Change, ...]:
        """Take into account how long a connection was at a request; suspect whom nearly all long ones needed.

        Nobody is silent where a link has too little bandwidth: everything is answered in the end, and what
        stands behind it late. Patience grows along with that, up to its bound.
        """
        needed = self._needed(lane)
        if lane.aside or any(a.is_bad and a.reason is Suspicion.SLOW for a in needed):
            return ()
        long = took > self._soon(self.policy.least_silence, *needed)
        brokers = [a.subject.id for a in needed if isinstance(a.subject.id, int)]
        known = [a.subject.id for a in needed if a.reason is Suspicion.SLOW and a.rests]
        slow = self._waits.note(brokers, now, long=long, known=known)
        changes: tuple[Change, ...] = ()
        if slow is None:
            return changes
        for role in (Role.REPLICA, Role.LEADER):
            if (a := self._accounts.get(Subject(role, slow))) is not None:
                # Single records pass soon, whatever the link lets through: it is not tried again so soon.
                a.rests = max(a.rests, _SLOW_RESTS)
                changes += self._suspect(a, Suspicion.SLOW, now)
                # It may be suspect as silent, too: what it answers now does not make that a false alarm.
                a.reason = Suspicion.SLOW
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

    # -- standing ------------------------------------------------------------------------------------

    def _look_at(self, a: Account, now: float) -> None:
        if a.subject.role is None:
            silent = a.outstanding > 0 and self._silence(a, now) > self._patience(a)
        else:
            silent = a.subject in self._awaited
        match a.standing:
            case Standing.DOUBTED if not silent:  # what was outstanding has failed or was withdrawn
                a.standing = Standing.TRUSTED
            case Standing.TRUSTED if a.rests and now - a.well_from >= self.policy.forgiven_after:
                a.rests, a.well_from = a.rests - 1, now
            case Standing.SUSPECT if not silent and now >= max(a.rest_until, a.down_until):
                a.standing, a.good, a.back_at = Standing.PROBATION, 0, now
            case Standing.PROBATION if silent:
                self._rest(a, now)

    def _acknowledged(self, a: Account, sent: float, latency: float, now: float) -> tuple[Change, ...]:
        """Note that somebody has done his part of a record that was answered."""
        a.answered_to = max(a.answered_to, sent)
        a.sound(latency, now)
        a.down_until = -math.inf
        silence = self._silence(a, now)
        self._restart(a, now)
        patience = self._patience(a)
        # What was sent before the broker came back tells how long the fault took, not what is usual.
        usual = a.standing is not Standing.SUSPECT and sent >= a.back_at
        # But of a probe: it may be slow for good, and this is how we learn that. The first answer is its own.
        if usual or a.probing or latency <= _FALSE_ALARM * patience:
            a.learn(latency)
        a.probing = False
        if a.standing is Standing.DOUBTED:
            self._give_the_benefit_of_the_doubt(now)
        elif a.standing is Standing.PROBATION:
            in_time = self._soon(self.policy.least_silence, a) if a.reason is Suspicion.SLOW else patience
            if max(silence, latency) <= in_time:
                return self._count_good(a, now)
        elif a.standing is Standing.SUSPECT and now - a.suspected_at <= patience:
            return self._take_back(a, silence, now)
        return ()

    def _suspect(
        self,
        a: Account,
        reason: Suspicion,
        now: float,
        waiting: tuple[tuple[str, int], ...] = (),
        silence: float | None = None,
    ) -> tuple[Change, ...]:
        if a.standing is Standing.PROBATION:
            self._rest(a, now)
            return ()
        if a.standing is Standing.SUSPECT:
            return ()
        if silence is None:
            silence = self._silence(a, now) if a.outstanding else 0.0
        a.suspected_at, a.reason, a.probes = now, reason, 0
        self._rest(a, now)
        role, broker = a.subject
        if role is None or not isinstance(broker, int) or broker in self._episodes:
            return ()
        self._episodes[broker] = now
        news = Suspected(
            broker=broker,
            role=role,
            reason=reason,
            outstanding=a.outstanding,
            silence=silence,
            usual=a.usual,
            waiting=waiting,
        )
        if reason is not Suspicion.UNREACHABLE and silence < self.policy.told_after:
            self._untold[broker] = news
            return ()
        return (news,)

    def _is_no_hiccup(self, a: Account) -> bool:
        # What waits for others as well is no sign: they may be to blame for all of it.
        return self._kept.get(a.subject.id, 0.0) >= self.policy.told_after or a.rests >= _TOO_OFTEN

    def _tell(self, a: Account, now: float) -> tuple[Change, ...]:
        """Tell that somebody is suspect, if he still is and nobody has been told."""
        _, broker = a.subject
        if not a.is_bad or not isinstance(broker, int) or broker not in self._untold:
            return ()
        news = self._untold.pop(broker)
        return (evolve(news, outstanding=a.outstanding, silence=max(news.silence, self._silence(a, now))),)

    def _rest(self, a: Account, now: float) -> None:
        policy = self.policy
        a.standing = Standing.SUSPECT
        a.rest_until = now + min(policy.longest_rest, policy.first_rest * 2.0 ** min(a.rests, 30))
        a.rests += 1

    def _clear(self, a: Account, reason: Clearance, now: float) -> tuple[Change, ...]:
        a.standing, a.well_from, a.back_at = Standing.TRUSTED, now, now
        role, broker = a.subject
        if role is None or not isinstance(broker, int):
            return ()
        other = self._accounts.get(Subject(Role.LEADER if role is Role.REPLICA else Role.REPLICA, broker))
        if other is not None and other.is_bad:
            return ()  # the episode goes on
        lasted = now - self._episodes.pop(broker)
        if self._untold.pop(broker, None) is not None:
            return ()
        return (Cleared(broker=broker, reason=reason, lasted=lasted, probes=a.probes, usual=a.usual),)

    def _count_good(self, a: Account, now: float) -> tuple[Change, ...]:
        # Keyed records may answer by the hundred in one moment; that is one good sign, not a hundred.
        if now - a.good_at < _APART * self.policy.probe_interval:
            return ()
        a.good, a.good_at = a.good + 1, now
        if a.good < self.policy.probes_to_clear + min(a.rests - 1, _MOST_MORE_PROBES):
            return ()
        changes = self._clear(a, Clearance.ANSWERED, now)
        self._judge(now)
        return changes

    def _take_back(self, a: Account, silence: float, now: float) -> tuple[Change, ...]:
        """Clear a broker that was only a little later than we waited: it was a false alarm."""
        if a.probes or a.reason is not Suspicion.SILENT:
            return ()
        if _LESSON * silence > self._wanted(a):
            a.lesson, a.lesson_at = _LESSON * silence, now
        if a.outstanding:
            return ()
        a.rests -= 1
        changes = self._clear(a, Clearance.ANSWERED, now)
        self._judge(now)
        return changes

    def _give_the_benefit_of_the_doubt(self, now: float) -> None:
        """Trust all that are doubted: one of them answers after a silence that they had in common.

        Without this, after a network outage the first broker to answer would be the witness against the
        second, whose answer comes a moment later.
        """
        for a in self._leaders():
            if a.standing is Standing.DOUBTED:
                a.standing = Standing.TRUSTED
                self._restart(a, now)
                for connection in self._connections.values():
                    if connection.broker == a.subject.id:
                        self._restart(connection, now)
        self._judge(now)

    def _readmit_if_needed(self, now: float) -> tuple[Change, ...]:
        """Trust suspects again on which nothing is stuck, if there is no trusted leader left."""
        leaders = tuple(self._leaders())
        for a in leaders:
            last_hope = _LAST_HOPE * self._patience(a)
            hopeful = a.standing is Standing.DOUBTED and self._silence(a, now) <= last_hope
            if a.standing is Standing.TRUSTED or hopeful:
                return ()
        changes: tuple[Change, ...] = ()
        for a in leaders:
            if a.is_bad and not a.outstanding and a.down_until <= now:
                changes += self._clear(a, Clearance.NEEDED, now)
        return changes

    def _judge(self, now: float) -> None:
        """Renew what others read."""
        standings = {a.standing for a in self._leaders()}
        avoided = {Standing.SUSPECT, Standing.PROBATION}
        if Standing.TRUSTED in standings:
            avoided.add(Standing.DOUBTED)
        bad: dict[Role | None, set[Any]] = {role: set() for role in (*Role, None)}
        for a in self._accounts.values():
            if a.standing in avoided or a.subject in self._accused:
                bad[a.subject.role].add(a.subject.id)
        self._blamed = frozenset(
            a.subject.id
            for a in self._accounts.values()
            if a.standing in avoided and a.subject.role is not None
        )
        lost = {a.subject.id for a in self._leaders() if a.down_until > now}
        replicas = [a for a in self._accounts.values() if a.subject.role is Role.REPLICA]
        # Where all are silent the second way tells whether it is us: its connections are new.
        nobody_answers = bool(replicas) and not standings & {Standing.TRUSTED, Standing.PROBATION}
        in_trouble = nobody_answers or any(
            (a.is_bad or self._held_up) and a.subject.id in bad[Role.REPLICA] for a in replicas
        )
        # Somebody else may fall silent while records take the second way: then it is the first that is free.
        self.on_standby = self.has_standby and in_trouble and self._stalled[STANDBY] <= self._stalled[MAIN]
        new = Avoidance(
            leaders=frozenset(bad[Role.LEADER]),
            replicas=frozenset(bad[Role.REPLICA]),
            blocked=frozenset(c.broker for c in self._held_up if c.way == self.on_standby),
            down=frozenset(bad[Role.LEADER] & lost),
            partitions=frozenset(bad[None]),
        )
        if new != self.avoidance:
            self.avoidance = new or NOTHING
        self.probing = any(s.role is Role.REPLICA for s in self._accused) or any(
            a.standing is Standing.PROBATION or self._may_be_refused(a, now) for a in self._accounts.values()
        )
