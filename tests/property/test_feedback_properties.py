"""The judge of brokers, whatever happens to it, and whatever the clock says."""

from collections import Counter, deque
from typing import Any

from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafka_partition_events.metadata.events import Role
from kafka_partition_events.routing.feedback import Feedback
from kafka_partition_events.routing.judgement import Change, Policy, Suspected
from kafka_partition_events.routing.lanes import MAIN, Lane, Subject
from kafka_partition_events.routing.ledger import Standing
from tests.feedback_simulator import Dead, Fault, Frozen, Simulation, Slow, noisy

BROKERS = (1, 2, 3)
EXCLUDED = {Standing.SUSPECT, Standing.PROBATION}
broker_ids = st.sampled_from(BROKERS)
SHORT = Policy(longest_rest=1.0, down_for=1.0)
BACK_WITHIN_S = 4.0
"""The longest rest, a lost connection before it, a probe that is late, and three that are not."""
STAYS_S = 2.0
"""The longest rest, and a lost connection before it: who was trusted too soon is suspect again by then."""
FORGOTTEN_WITHIN_S = 13
"""The longest rest, a lost connection before it, and the time in which somebody may be tried."""


class FeedbackMachine(RuleBasedStateMachine):
    """Records are sent to anybody (keyed ones are), and answered, lost and moved in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.feedback = Feedback(SHORT)
        self.now = 50.0
        self.flying: dict[int, deque[tuple[float, bool]]] = {b: deque() for b in BROKERS}
        self.episodes: set[int] = set()
        self.listed = set(BROKERS)
        self.lanes = {b: Lane("t", b, leader=b) for b in BROKERS}
        self.feedback.follow(BROKERS, self.now)

    def note(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            if isinstance(change, Suspected):
                assert change.broker not in self.episodes, "suspected twice"
                assert change.silence >= 0
                self.episodes.add(change.broker)
            else:
                assert change.broker in self.episodes, "cleared without a suspicion"
                assert change.lasted >= 0
                self.episodes.remove(change.broker)

    @rule(broker=broker_ids, count=st.integers(1, 5))
    def send(self, broker: int, count: int) -> None:
        self.feedback.sent(self.lanes[broker], self.now, count)
        self.flying[broker].extend([(self.now, False)] * count)

    @rule(broker=broker_ids, count=st.integers(1, 5))
    def answer(self, broker: int, count: int) -> None:
        for _ in range(min(count, len(self.flying[broker]))):
            sent_at, _ = self.flying[broker].popleft()
            self.note(self.feedback.answered(self.lanes[broker], self.now - sent_at, self.now))

    @rule(broker=broker_ids)
    def fail(self, broker: int) -> None:
        if self.flying[broker]:
            self.flying[broker].popleft()
            self.note(self.feedback.failed(self.lanes[broker], self.now))

    @rule(broker=broker_ids)
    def refuse(self, broker: int) -> None:
        if self.flying[broker]:
            self.flying[broker].pop()
            self.feedback.withdrawn(self.lanes[broker], self.now)

    @rule(before=broker_ids, after=broker_ids)
    def move(self, before: int, after: int) -> None:
        moved = self.flying[before]
        if moved and before != after:
            self.feedback.withdrawn(self.lanes[before], self.now, len(moved))
            self.feedback.sent(self.lanes[after], self.now, len(moved))
            self.flying[after].extend((sent_at, False) for sent_at, _ in moved)
            moved.clear()

    @rule(broker=broker_ids)
    def lose_connection(self, broker: int) -> None:
        self.note(self.feedback.unreachable(broker, self.now))

    @precondition(lambda self: any(not q for q in self.flying.values()))
    @rule(data=st.data())
    def leave_and_come_back(self, data: st.DataObject) -> None:
        idle = [b for b in BROKERS if not self.flying[b]]
        gone = data.draw(st.sampled_from(idle))
        self.note(self.feedback.follow([b for b in BROKERS if b != gone], self.now))
        assert gone not in self.episodes
        self.note(self.feedback.follow(BROKERS, self.now))

    @rule(steps=st.integers(1, 100))
    def listen(self, steps: int) -> None:
        for _ in range(steps):
            self.now += 0.004
            self.note(self.feedback.heard(self.now))
            self.probe()

    @rule(seconds=st.floats(0.01, 5))
    def stop(self, seconds: float) -> None:
        trusted = [b for b in BROKERS if self.feedback.standing(b) is Standing.TRUSTED]
        recent = [b for b in trusted if self.feedback._silence(self.account(b), self.now) < 0.001]
        self.now += seconds
        self.note(self.feedback.heard(self.now))
        for broker in recent:
            assert self.feedback.standing(broker) is Standing.TRUSTED, "our stop is not its silence"

    def probe(self) -> None:
        for subject in self.feedback.due_for_a_probe(self.now):
            broker = int(str(subject.id))
            if self.flying[broker] and self.feedback.standing(broker) is Standing.SUSPECT:
                continue  # another partition of its would tell, and there is none
            assert not self.flying[broker], "a probe goes to a broker that nothing is outstanding on"
            self.feedback.probed(subject, self.now)
            assert subject not in self.feedback.due_for_a_probe(self.now)
            self.feedback.sent(self.lanes[broker], self.now)
            self.flying[broker].append((self.now, True))

    def account(self, broker: int) -> Any:
        return self.feedback._of(Subject(Role.LEADER, broker))

    @invariant()
    def what_is_outstanding_is_what_was_sent(self) -> None:
        for broker, flying in self.flying.items():
            lane = self.lanes[broker]
            assert self.account(broker).outstanding == lane.outstanding == len(flying)
            assert lane.aside or bool(flying) == (lane in self.feedback._connection(lane).lanes)

    @invariant()
    def there_is_one_probe_at_a_time(self) -> None:
        for flying in self.flying.values():
            assert sum(probe for _, probe in flying) <= 1

    @invariant()
    def what_is_avoided_is_what_is_known(self) -> None:
        avoidance = self.feedback.avoidance
        standings = {b: self.feedback.standing(b) for b in BROKERS}
        trusted = {b for b, standing in standings.items() if standing is Standing.TRUSTED}
        assert not avoidance.suspect & trusted
        suspect = {b for b, s in standings.items() if s in EXCLUDED}
        assert suspect == set(self.feedback._episodes)
        assert self.episodes == suspect - set(self.feedback._untold)
        assert suspect <= avoidance.suspect
        assert avoidance.down <= avoidance.suspect
        for broker, lane in self.lanes.items():
            assert not self.feedback.is_stuck(lane) or broker in avoidance.suspect
        assert bool(avoidance) == bool(avoidance.suspect)
        if avoidance.suspect >= set(BROKERS):
            assert not trusted, "never all, as long as one is trusted"

    def teardown(self) -> None:
        """All faults end; steady traffic; within a time everybody is trusted again, and stays so."""
        end = self.now + BACK_WITHIN_S
        while self.now < end:
            self.now += 0.004
            for broker in BROKERS:
                self.answer(broker, len(self.flying[broker]))
            self.note(self.feedback.heard(self.now))
            self.probe()
            for broker in set(BROKERS) - self.feedback.avoidance.suspect:
                self.send(broker, 1)
        assert not self.episodes
        assert not self.feedback.avoidance


FeedbackMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestFeedback = FeedbackMachine.TestCase


def test_what_a_false_alarm_held_up_is_free_at_once() -> None:
    machine = FeedbackMachine()
    machine.send(broker=3, count=1)
    machine.listen(steps=83)
    machine.send(broker=1, count=1)
    machine.answer(broker=1, count=1)
    machine.listen(steps=1)  # the first to answer is the witness
    assert machine.feedback.avoidance.blocked
    machine.answer(broker=3, count=1)
    machine.what_is_avoided_is_what_is_known()


PLACES = ((1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2), (1, 3, 4), (2, 1, 4))
partitions = st.integers(0, len(PLACES) - 1)
ways = st.integers(0, 2)


class ReplicaMachine(RuleBasedStateMachine):
    """Partitions with followers, three ways to their leaders; records meet any fate, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.feedback = Feedback(SHORT)
        self.feedback.standbys = 2
        self.now = 50.0
        self.lanes = {
            (way, p): Lane("t", p, way, leader, frozenset(followers))
            for way in (0, 1, 2)
            for p, (leader, *followers) in enumerate(PLACES)
        }
        self.episodes: set[int] = set()
        self.feedback.follow(range(1, 5), self.now)

    def note(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            if isinstance(change, Suspected):
                assert change.broker not in self.episodes, "suspected twice"
                self.episodes.add(change.broker)
            else:
                self.episodes.remove(change.broker)

    @rule(way=ways, partition=partitions, count=st.integers(1, 3))
    def send(self, way: int, partition: int, count: int) -> None:
        self.feedback.sent(self.lanes[way, partition], self.now, count)

    @rule(way=ways, partition=partitions)
    def answer(self, way: int, partition: int) -> None:
        lane = self.lanes[way, partition]
        if lane.sent_at:
            self.note(self.feedback.answered(lane, self.now - lane.sent_at[0], self.now))

    @rule(way=ways, partition=partitions)
    def fail(self, way: int, partition: int) -> None:
        if self.lanes[way, partition].sent_at:
            self.note(self.feedback.failed(self.lanes[way, partition], self.now))

    @rule(way=ways, partition=partitions)
    def refuse(self, way: int, partition: int) -> None:
        self.feedback.withdrawn(self.lanes[way, partition], self.now)

    @rule(partition=partitions, turn=st.integers(0, 3), in_sync=st.integers(1, 3))
    def move(self, partition: int, turn: int, in_sync: int) -> None:
        """Another replica leads, or none; some are out of sync."""
        isr = (PLACES[partition] * 2)[turn : turn + in_sync] if turn < 3 else ()
        leader, followers = (isr[0], frozenset(isr[1:])) if isr else (None, frozenset[int]())
        for way in (0, 1):
            self.feedback.move(self.lanes[way, partition], leader, followers, self.now)

    @rule(broker=st.integers(1, 4))
    def lose_connection(self, broker: int) -> None:
        self.note(self.feedback.unreachable(broker, self.now))

    @rule()
    def hear_of_needs(self) -> None:
        needed = {subject for lane in self.lanes.values() for subject in lane.brokers}
        self.note(self.feedback.follow(range(1, 5), self.now, needed))

    @rule(steps=st.integers(1, 60))
    def listen(self, steps: int) -> None:
        for _ in range(steps):
            self.now += 0.004
            self.note(self.feedback.heard(self.now))

    @rule(seconds=st.floats(0.01, 5))
    def stop(self, seconds: float) -> None:
        """Nobody is suspected for what happened while we were stopped."""
        self.note(self.feedback.heard(self.now))
        quiet = all(self.feedback._silence(c, self.now) < 0.001 for c in self.feedback._connections.values())
        before = set(self.episodes)
        self.now += seconds
        self.note(self.feedback.heard(self.now))
        assert not quiet or self.episodes <= before

    @invariant()
    def accounts_are_sums_over_lanes(self) -> None:
        sums: Counter[Subject] = Counter()
        for lane in self.lanes.values():
            for subject in (lane.own,) if lane.aside else lane.brokers:
                sums[subject] += lane.outstanding
        for a in self.feedback._accounts.values():
            assert a.outstanding == sums[a.subject], a.subject
        for connection in self.feedback._connections.values():
            assert all(lane.sent_at and lane.leader == connection.broker for lane in connection.lanes)
            assert not connection.lanes or connection.head.leader == connection.broker

    @invariant()
    def what_is_avoided_is_what_is_known(self) -> None:
        avoidance = self.feedback.avoidance
        bad = {a.subject for a in self.feedback._accounts.values() if a.is_bad}
        brokers = {s.id for s in bad if s.role is not None}
        assert brokers == set(self.feedback._episodes)
        assert self.episodes == brokers - set(self.feedback._untold)
        assert {s.id for s in bad if s.role is Role.REPLICA} <= avoidance.replicas
        assert {s.id for s in bad if s.role is None} == avoidance.partitions
        assert avoidance.down <= avoidance.leaders
        leaders = {s: a for s, a in self.feedback._accounts.items() if s.role is Role.LEADER}
        well = any(a.standing in (Standing.TRUSTED, Standing.PROBATION) for a in leaders.values())
        assert not well or avoidance.replicas or self.feedback.way == MAIN

    def teardown(self) -> None:
        """All faults end, everybody gets records again: within a time all are trusted, and stay so."""
        for p, (leader, *followers) in enumerate(PLACES):
            for way in (0, 1):
                self.feedback.move(self.lanes[way, p], leader, frozenset(followers), self.now)
        end = self.now + BACK_WITHIN_S + 2
        while self.now < end and not self._all_is_well():
            self._everybody_answers()
        end = self.now + STAYS_S
        while self.now < end:
            self._everybody_answers()
        assert self._all_is_well(), (self.episodes, self.feedback.avoidance, self.feedback.way)

    def _everybody_answers(self) -> None:
        self.now += 0.004
        for lane in self.lanes.values():
            while lane.sent_at:
                self.note(self.feedback.answered(lane, self.now - lane.sent_at[0], self.now))
        self.note(self.feedback.heard(self.now))
        for lane in self.lanes.values():
            self.feedback.sent(lane, self.now)

    def _all_is_well(self) -> bool:
        return not self.episodes and not self.feedback.avoidance and self.feedback.way == MAIN


ReplicaMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestReplicas = ReplicaMachine.TestCase


@frozen
class Happening:
    """One thing that happens, ``gap`` ms (1/1024 s: sums are exact) after the one before."""

    what: str
    broker: int
    gap: int
    latency: int


happenings = st.lists(
    st.builds(
        Happening,
        st.sampled_from(["sent", "sent", "answered", "answered", "failed", "unreachable", "heard", "heard"]),
        broker_ids,
        st.sampled_from([0, 1, 3, 10, 50, 300]),
        st.sampled_from([1, 5, 60, 400]),
    ),
    max_size=80,
)


def note(feedback: Feedback, lane: Lane, happening: Happening, now: float) -> tuple[Change, ...]:
    match happening.what:
        case "sent":
            feedback.sent(lane, now)
            return ()
        case "answered":
            return feedback.answered(lane, happening.latency / 1024, now)
        case "failed":
            return feedback.failed(lane, now)
        case "unreachable":
            return feedback.unreachable(happening.broker, now)
        case _:
            return feedback.heard(now)


def played(story: list[Happening], start: float) -> list[object]:
    feedback, now, told = Feedback(), start, list[object]()
    lanes = {b: Lane("t", b, leader=b) for b in BROKERS}
    for happening in story:
        now += happening.gap / 1024
        told += note(feedback, lanes[happening.broker], happening, now)
        if happening.what == "heard":
            for subject in feedback.due_for_a_probe(now):
                feedback.probed(subject, now)
                feedback.sent(lanes[int(str(subject.id))], now)
                told.append(("probe", subject))
        told.append(feedback.avoidance)
        told.append([feedback.threshold(broker) for broker in BROKERS])
    return told


@given(happenings, st.sampled_from([-(2.0**20), -1.0, 1.0, 2.0**20]))
def test_what_the_clock_says_at_the_beginning_makes_no_difference(
    story: list[Happening], shift: float
) -> None:
    assert played(story, 0.0) == played(story, shift)


@given(happenings)
def test_when_nothing_is_written_any_more_nobody_is_suspect_for_good(story: list[Happening]) -> None:
    feedback, now = Feedback(SHORT), 0.0
    lanes = {b: Lane("t", b, leader=b) for b in BROKERS}
    for happening in story:
        now += happening.gap / 1024
        note(feedback, lanes[happening.broker], happening, now)
    for lane in lanes.values():
        while lane.sent_at:
            feedback.failed(lane, now)
    for _ in range(20 * FORGOTTEN_WITHIN_S):
        now += 0.05
        feedback.heard(now)
    assert not feedback.avoidance.suspect


faults = st.one_of(
    st.builds(
        Frozen,
        since=st.floats(0.5, 1),
        stopped=st.floats(0.05, 0.4),
        period=st.floats(0.45, 1),
        until=st.just(3.0),
    ),
    st.builds(Slow, since=st.floats(0.5, 1), more=st.floats(0.02, 0.3), until=st.just(3.0)),
)


@settings(max_examples=15)
@given(st.integers(0, 1000), st.dictionaries(broker_ids, faults, max_size=3))
def test_after_all_faults_everybody_gets_records_again_and_nobody_starves(
    seed: int, faults: dict[int, Fault]
) -> None:
    """Two seconds of faults, then eight without; the last three are looked at."""
    outcome = Simulation(seed=seed, seconds=11, rate=1000, faults=faults, policy=evolve(SHORT)).run()
    last = Counter({b: sum(outcome.by_broker_and_second[b, s] for s in (8, 9, 10)) for b in BROKERS})
    assert min(last.values()) > 800, "of 1,000 each"
    assert not outcome.suspects


@settings(max_examples=10)
@given(st.integers(0, 1000), broker_ids)
def test_healthy_brokers_get_records_all_the_time_whatever_another_one_does(seed: int, dead: int) -> None:
    outcome = Simulation(
        seed=seed,
        seconds=6,
        rate=1000,
        faults={dead: Dead(since=1, told_after=None)},
        latency=noisy(spikes=0),
    ).run()
    for broker in set(BROKERS) - {dead}:
        assert all(outcome.by_broker_and_second[broker, second] > 50 for second in range(6))
