"""What becomes of whoever is charged: he rests, is probed and cleared; and whom to avoid meanwhile. Pure.

What the standings mean is said at the top of ``feedback.py``.
"""

import math
from collections import Counter
from typing import Any

from attrs import evolve

from kafka_partition_events.metadata.events import Clearance, Role, Suspicion
from kafka_partition_events.routing.charges import Charges
from kafka_partition_events.routing.judgement import (
    NOTHING,
    Avoidance,
    Change,
    Cleared,
    Policy,
    Suspected,
)
from kafka_partition_events.routing.lanes import MAIN, STANDBY, Connection, Subject
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


class Standings(Charges):
    """What is known of everybody, and how it changes."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__(policy)
        self.avoidance = NOTHING
        self.probing = False
        """Whether somebody has rested, or is accused for long, so that a probe may be due."""
        self.standbys = 0
        """How many more ways the client has, each with connections of its own."""
        self.way = MAIN
        """Which one records that need nobody suspect are to take: on the first one they may stand behind
        others that wait."""
        self._awaited: frozenset[Subject] = frozenset()  # whom the heads of silent connections need
        # Whom silent connections wait for, and for nobody else who is bad; for how long.
        self._kept: dict[int | tuple[str, int], float] = {}
        self._held_up: tuple[Connection, ...] = ()  # those that are silent because of somebody bad
        # How many connections of each way are silent, or hold what was given up.
        self._stalled: Counter[int] = Counter()
        self._episodes: dict[int, float] = {}  # brokers that are suspect in some role, and since when
        self._untold: dict[int, Suspected] = {}  # those of them whose silence may still be a hiccup

    def is_bad(self, subject: Subject) -> bool:
        """Tell whether somebody is suspect or on probation."""
        a = self._accounts.get(subject)
        return a is not None and a.is_bad

    def _soon(self, least: float, *needed: Account) -> float:
        """Return within what time an answer comes when nothing queues up at those whom it needs."""
        floor = max(a.floor for a in needed)
        return self.policy.linger + max(least, self.policy.silence_factor * floor)

    # -- coming back ---------------------------------------------------------------------------------

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

    def probed(self, subject: Subject, now: float) -> None:
        """Note that the next record that needs somebody is a probe."""
        a = self._of(subject)
        a.probing, a.probed_at, a.probes = True, now, a.probes + 1

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

    # -- one's standing ------------------------------------------------------------------------------

    def _look_at(self, a: Account, now: float) -> tuple[Change, ...]:
        silent = a.subject in self._awaited
        if a.subject.role is None:
            silent = a.outstanding > 0 and self._silence(a, now) > self._patience(a)
        match a.standing:
            case Standing.DOUBTED if not silent:  # what was outstanding has failed or was withdrawn
                a.standing = Standing.TRUSTED
            case Standing.TRUSTED if a.rests and now - a.well_from >= self.policy.forgiven_after:
                a.rests, a.well_from = a.rests - 1, now
            case Standing.SUSPECT if not silent and now >= max(a.rest_until, a.down_until):
                a.standing, a.good, a.back_at = Standing.PROBATION, 0, now
            case Standing.PROBATION if silent:
                self._rest(a, now)
            case Standing.PROBATION if self._stays_untried(a, now):
                return self._clear(a, Clearance.LEFT, now)
        return ()

    def _stays_untried(self, a: Account, now: float) -> bool:
        """Tell whether a broker would be on probation for good, since no record comes that could clear it.

        It may lead only what nobody writes here: topics of other producers, partitions beyond a cap or a
        limit. As long as something waits for it, a keyed record beyond the cap say, it is needed.
        """
        idle = now - max(a.back_at, a.answered_to) >= self.policy.tried_within
        return idle and not a.outstanding and a.subject.role is not None

    def _acknowledged(
        self, a: Account, sent: float, latency: float, now: float, *, held: bool = False
    ) -> tuple[Change, ...]:
        """Note that somebody has done his part of a record that was answered.

        ``held``: it was sent while its connection waited for somebody bad.
        """
        a.answered_to = max(a.answered_to, sent)
        a.sound(latency, now)
        a.down_until = -math.inf
        silence = self._silence(a, now)
        self._restart(a, now)
        patience = self._patience(a)
        # What was sent before the broker came back tells how long the fault took, not what is usual.
        usual = a.standing is not Standing.SUSPECT and sent >= a.back_at
        # But of a probe: it may be slow for good, and this is how we learn that. The first answer is its own.
        # And of who is well: what stood behind a record that waited for a suspect tells of that one.
        if (usual or a.probing or latency <= _FALSE_ALARM * patience) and (a.is_bad or not held):
            a.learn(latency)
        a.probing = False
        if a.standing is Standing.DOUBTED:
            self._give_the_benefit_of_the_doubt(now)
        elif a.standing is Standing.PROBATION:
            if a.reason is Suspicion.SLOW:
                patience = self._soon(self.policy.least_silence, *self._roles(a))
            if max(silence, latency) <= patience:
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
        if any(other.is_bad for other in self._roles(a)):
            return ()  # the episode goes on
        lasted = now - self._episodes.pop(broker)
        if self._untold.pop(broker, None) is not None:
            return ()
        return (Cleared(broker=broker, reason=reason, lasted=lasted, probes=a.probes, usual=a.usual),)

    def _roles(self, a: Account) -> list[Account]:
        """Return a broker's accounts in both roles, as far as there are any."""
        both = (self._accounts.get(Subject(role, a.subject.id)) for role in Role)
        return [other for other in both if other is not None]

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

    # -- everybody's ---------------------------------------------------------------------------------

    def _give_the_benefit_of_the_doubt(self, now: float) -> None:
        """Trust all that are doubted: one of them answers after a silence that they had in common.

        Without this, after a network outage the first broker to answer would be the witness against the
        second, whose answer comes a moment later.

        A connection gets it once, until it has answered: the other ways to a broker answer all the time while
        each connection of this one waits for the same suspect, and would excuse that again and again.
        """
        for a in self._leaders():
            if a.standing is Standing.DOUBTED:
                a.standing = Standing.TRUSTED
                self._restart(a, now)
                for connection in self._connections.values():
                    if connection.broker == a.subject.id and not connection.excused:
                        self._restart(connection, now)
                        connection.excused = True
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
            a.subject.id for a in self._accounts.values() if a.is_bad and a.subject.role is not None
        )
        lost = {a.subject.id for a in self._leaders() if a.down_until > now}
        replicas = [a for a in self._accounts.values() if a.subject.role is Role.REPLICA]
        # Where all are silent the second way tells whether it is us: its connections are new.
        nobody_answers = bool(replicas) and not standings & {Standing.TRUSTED, Standing.PROBATION}
        in_trouble = nobody_answers or any(
            (a.is_bad or self._held_up) and a.subject.id in bad[Role.REPLICA] for a in replicas
        )
        self.way = self._free_way() if self.standbys and in_trouble else MAIN
        new = Avoidance(
            leaders=frozenset(bad[Role.LEADER]),
            replicas=frozenset(bad[Role.REPLICA]),
            blocked=frozenset(c.broker for c in self._held_up if c.way == self.way),
            down=frozenset(bad[Role.LEADER] & lost),
            partitions=frozenset(bad[None]),
        )
        if new != self.avoidance:
            self.avoidance = new or NOTHING
        self.probing = any(s.role is Role.REPLICA for s in self._accused) or any(
            a.standing is Standing.PROBATION or self._may_be_refused(a, now) for a in self._accounts.values()
        )

    def _free_way(self) -> int:
        """Return the way beside the first one on which the fewest connections wait for somebody bad.

        If the wrong one was suspected first, records that wait for the right one block the second way, too,
        and a third one helps. Somebody else may fall silent meanwhile: then it is the first that is free.
        """
        held_up = Counter(c.way for c in self._held_up)
        way = min(range(STANDBY, STANDBY + self.standbys), key=lambda way: (held_up[way], way))
        return way if self._stalled[way] <= self._stalled[MAIN] else MAIN
