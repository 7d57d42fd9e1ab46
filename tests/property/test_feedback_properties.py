"""The failure detector, whatever happens to it, and whatever the clock says."""

from collections import Counter, deque

from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafka_partition_events.health.avoiding import due_probes
from kafka_partition_events.health.broker_state import BrokerState, Trust
from kafka_partition_events.health.circuits import Change
from kafka_partition_events.health.detector import FailureDetector
from kafka_partition_events.health.in_flight import MAIN, InFlight, Subject
from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.metadata.events import BrokerSuspected, Role
from tests.feedback_simulator import Dead, Fault, Frozen, Simulation, Slow, noisy
from tests.property.examples import scaled

BROKERS = (1, 2, 3)
EXCLUDED = {Trust.SUSPECT, Trust.PROBATION}
broker_ids = st.sampled_from(BROKERS)
SHORT = DetectorPolicy(longest_rest=1.0, down_for=1.0)
BACK_WITHIN_S = 4.0
"""The longest rest, a lost connection before it, a probe that is late, and three that are not."""
STAYS_S = 2.0
"""The longest rest, and a lost connection before it: who was trusted too soon is suspect again by then."""
FORGOTTEN_WITHIN_S = 13
"""The longest rest, a lost connection before it, and the time in which somebody may be tried."""


class DetectorMachine(RuleBasedStateMachine):
    """A detector, and who is suspect by what it tells."""

    def __init__(self) -> None:
        super().__init__()
        self.detector = FailureDetector(SHORT)
        self.now = 50.0
        self.episodes: set[int] = set()

    def note(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            if isinstance(change, BrokerSuspected):
                assert change.broker not in self.episodes, "suspected twice"
                assert change.silence_ms >= 0
                self.episodes.add(change.broker)
            else:
                assert change.broker in self.episodes, "cleared without a suspicion"
                assert change.suspected_ms >= 0
                self.episodes.remove(change.broker)


class FeedbackMachine(DetectorMachine):
    """Records are sent to anybody (keyed ones are), and answered, lost and moved in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.flying: dict[int, deque[tuple[float, bool]]] = {b: deque() for b in BROKERS}
        self.in_flight = {b: InFlight("t", b, leader=b) for b in BROKERS}
        self.detector.snapshot(BROKERS, self.now)

    @rule(broker=broker_ids, count=st.integers(1, 5))
    def send(self, broker: int, count: int) -> None:
        self.detector.sent(self.in_flight[broker], self.now, count)
        self.flying[broker].extend([(self.now, False)] * count)

    @rule(broker=broker_ids, count=st.integers(1, 5))
    def answer(self, broker: int, count: int) -> None:
        for _ in range(min(count, len(self.flying[broker]))):
            sent_at, _ = self.flying[broker].popleft()
            self.note(self.detector.answered(self.in_flight[broker], self.now - sent_at, self.now))

    @rule(broker=broker_ids)
    def fail(self, broker: int) -> None:
        if self.flying[broker]:
            self.flying[broker].popleft()
            self.note(self.detector.failed(self.in_flight[broker], self.now))

    @rule(broker=broker_ids)
    def refuse(self, broker: int) -> None:
        if self.flying[broker]:
            self.flying[broker].pop()
            self.detector.withdrawn(self.in_flight[broker], self.now)

    @rule(before=broker_ids, after=broker_ids)
    def move(self, before: int, after: int) -> None:
        moved = self.flying[before]
        if moved and before != after:
            self.detector.withdrawn(self.in_flight[before], self.now, len(moved))
            self.detector.sent(self.in_flight[after], self.now, len(moved))
            self.flying[after].extend((sent_at, False) for sent_at, _ in moved)
            moved.clear()

    @rule(broker=broker_ids)
    def lose_connection(self, broker: int) -> None:
        self.note(self.detector.unreachable(broker, self.now))

    @precondition(lambda self: any(not q for q in self.flying.values()))
    @rule(data=st.data())
    def leave_and_come_back(self, data: st.DataObject) -> None:
        idle = [b for b in BROKERS if not self.flying[b]]
        gone = data.draw(st.sampled_from(idle))
        self.note(self.detector.snapshot([b for b in BROKERS if b != gone], self.now))
        assert gone not in self.episodes
        self.note(self.detector.snapshot(BROKERS, self.now))

    @rule(steps=st.integers(1, 100))
    def listen(self, steps: int) -> None:
        for _ in range(steps):
            self.now += 0.004
            self.note(self.detector.polled(self.now))
            self.probe()

    @rule(seconds=st.floats(0.01, 5))
    def stop(self, seconds: float) -> None:
        trusted = [b for b in BROKERS if self.trust(b) is Trust.TRUSTED]
        recent = [b for b in trusted if self.detector.seen.silence(self.state(b), self.now) < 0.001]
        self.now += seconds
        self.note(self.detector.polled(self.now))
        for broker in recent:
            assert self.trust(broker) is Trust.TRUSTED, "our stop is not its silence"

    def probe(self) -> None:
        for b in due_probes(self.detector.seen, self.now):
            broker = int(str(b.subject.id))
            if self.flying[broker] and self.trust(broker) is Trust.SUSPECT:
                continue  # another partition of its would tell, and there is none
            assert not self.flying[broker], "a probe goes to a broker that nothing is outstanding on"
            self.detector.probed(b.subject, self.now)
            assert b not in due_probes(self.detector.seen, self.now)
            self.detector.sent(self.in_flight[broker], self.now)
            self.flying[broker].append((self.now, True))

    def trust(self, broker: int) -> Trust:
        return self.state(broker).trust

    def state(self, broker: int) -> BrokerState:
        return self.detector.seen.state(Subject(Role.LEADER, broker))

    @invariant()
    def what_is_outstanding_is_what_was_sent(self) -> None:
        for broker, flying in self.flying.items():
            it = self.in_flight[broker]
            assert self.state(broker).outstanding == it.outstanding == len(flying)
            assert it.is_aside or bool(flying) == (it in self.detector.seen.connection(it).waiting)

    @invariant()
    def there_is_one_probe_at_a_time(self) -> None:
        for flying in self.flying.values():
            assert sum(probe for _, probe in flying) <= 1

    @invariant()
    def what_is_avoided_is_what_is_known(self) -> None:
        avoidance = self.detector.avoidance
        trusts = {b: self.trust(b) for b in BROKERS}
        trusted = {b for b, trust in trusts.items() if trust is Trust.TRUSTED}
        assert not avoidance.suspect & trusted
        suspect = {b for b, s in trusts.items() if s in EXCLUDED}
        assert suspect == set(self.detector.circuits.begun)
        assert self.episodes == suspect - set(self.detector.circuits.unannounced)
        assert suspect <= avoidance.suspect
        assert avoidance.down <= avoidance.suspect
        assert {it.partition for it in self.detector.stuck(self.now)} <= avoidance.suspect
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
            self.note(self.detector.polled(self.now))
            self.probe()
            for broker in set(BROKERS) - self.detector.avoidance.suspect:
                self.send(broker, 1)
        assert not self.episodes
        assert not self.detector.avoidance


FeedbackMachine.TestCase.settings = settings(max_examples=scaled(60), stateful_step_count=40, deadline=None)
TestFeedback = FeedbackMachine.TestCase


def test_what_a_false_alarm_held_up_is_free_at_once() -> None:
    machine = FeedbackMachine()
    machine.send(broker=3, count=1)
    machine.listen(steps=253)  # it may be connecting
    machine.send(broker=1, count=1)
    machine.answer(broker=1, count=1)
    machine.listen(steps=1)  # the first to answer is the witness
    assert machine.detector.avoidance.blocked
    machine.answer(broker=3, count=1)
    machine.what_is_avoided_is_what_is_known()


PLACES = ((1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2), (1, 3, 4), (2, 1, 4))
partitions = st.integers(0, len(PLACES) - 1)
handles = st.integers(0, 2)


class ReplicaMachine(DetectorMachine):
    """Partitions with followers, three handles to their leaders; records meet any fate, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.detector.standbys = 2
        self.in_flight = {
            (handle, p): InFlight("t", p, handle, leader, frozenset(followers))
            for handle in (0, 1, 2)
            for p, (leader, *followers) in enumerate(PLACES)
        }
        self.detector.snapshot(range(1, 5), self.now)

    @rule(handle=handles, partition=partitions, count=st.integers(1, 3))
    def send(self, handle: int, partition: int, count: int) -> None:
        self.detector.sent(self.in_flight[handle, partition], self.now, count)

    @rule(handle=handles, partition=partitions)
    def answer(self, handle: int, partition: int) -> None:
        it = self.in_flight[handle, partition]
        if it.sent_at:
            self.note(self.detector.answered(it, self.now - it.sent_at[0], self.now))

    @rule(handle=handles, partition=partitions)
    def fail(self, handle: int, partition: int) -> None:
        if self.in_flight[handle, partition].sent_at:
            self.note(self.detector.failed(self.in_flight[handle, partition], self.now))

    @rule(handle=handles, partition=partitions)
    def refuse(self, handle: int, partition: int) -> None:
        self.detector.withdrawn(self.in_flight[handle, partition], self.now)

    @rule(partition=partitions, turn=st.integers(0, 3), in_sync=st.integers(1, 3))
    def move(self, partition: int, turn: int, in_sync: int) -> None:
        """Another replica leads, or none; some are out of sync."""
        isr = (PLACES[partition] * 2)[turn : turn + in_sync] if turn < 3 else ()
        leader, followers = (isr[0], frozenset(isr[1:])) if isr else (None, frozenset[int]())
        for handle in (0, 1):
            self.detector.moved(self.in_flight[handle, partition], leader, followers, self.now)

    @rule(broker=st.integers(1, 4))
    def lose_connection(self, broker: int) -> None:
        self.note(self.detector.unreachable(broker, self.now))

    @rule()
    def hear_of_needs(self) -> None:
        needed = {subject for it in self.in_flight.values() for subject in it.brokers}
        self.note(self.detector.snapshot(range(1, 5), self.now, needed))

    @rule(steps=st.integers(1, 60))
    def listen(self, steps: int) -> None:
        for _ in range(steps):
            self.now += 0.004
            self.note(self.detector.polled(self.now))

    @rule(seconds=st.floats(0.01, 5))
    def stop(self, seconds: float) -> None:
        """Nobody is suspected for what happened while we were stopped."""
        self.note(self.detector.polled(self.now))
        quiet = all(
            self.detector.seen.silence(c, self.now) < 0.001 for c in self.detector.seen.connections.values()
        )
        before = set(self.episodes)
        self.now += seconds
        self.note(self.detector.polled(self.now))
        assert not quiet or self.episodes <= before

    @invariant()
    def accounts_are_sums_over_lanes(self) -> None:
        sums: Counter[Subject] = Counter()
        for it in self.in_flight.values():
            for subject in (it.itself,) if it.is_aside else it.brokers:
                sums[subject] += it.outstanding
        for a in (*self.detector.seen.states.values(), *self.detector.seen.partitions.values()):
            assert a.outstanding == sums[a.subject], a.subject
        for connection in self.detector.seen.connections.values():
            assert all(it.sent_at and it.leader == connection.broker for it in connection.waiting)
            assert not connection.waiting or connection.head.leader == connection.broker

    @invariant()
    def what_is_avoided_is_what_is_known(self) -> None:
        avoidance = self.detector.avoidance
        states = (*self.detector.seen.states.values(), *self.detector.seen.partitions.values())
        bad = {a.subject for a in states if a.is_bad}
        brokers = {s.id for s in bad if s.role is not None}
        assert brokers == set(self.detector.circuits.begun)
        assert self.episodes == brokers - set(self.detector.circuits.unannounced)
        assert {s.id for s in bad if s.role is Role.REPLICA} <= avoidance.replicas
        assert {s.id for s in bad if s.role is None} == avoidance.partitions
        assert avoidance.down <= avoidance.leaders
        leaders = {s: a for s, a in self.detector.seen.states.items() if s.role is Role.LEADER}
        well = any(a.trust in (Trust.TRUSTED, Trust.PROBATION) for a in leaders.values())
        assert not well or avoidance.replicas or self.detector.handle == MAIN

    def teardown(self) -> None:
        """All faults end, everybody gets records again: within a time all are trusted, and stay so."""
        for p, (leader, *followers) in enumerate(PLACES):
            for handle in (0, 1):
                self.detector.moved(self.in_flight[handle, p], leader, frozenset(followers), self.now)
        end = self.now + BACK_WITHIN_S + 2
        while self.now < end and not self._all_is_well():
            self._everybody_answers()
        end = self.now + STAYS_S
        while self.now < end:
            self._everybody_answers()
        assert self._all_is_well(), (self.episodes, self.detector.avoidance, self.detector.handle)

    def _everybody_answers(self) -> None:
        self.now += 0.004
        for it in self.in_flight.values():
            while it.sent_at:
                self.note(self.detector.answered(it, self.now - it.sent_at[0], self.now))
        self.note(self.detector.polled(self.now))
        for it in self.in_flight.values():
            self.detector.sent(it, self.now)

    def _all_is_well(self) -> bool:
        return not self.episodes and not self.detector.avoidance and self.detector.handle == MAIN


ReplicaMachine.TestCase.settings = settings(max_examples=scaled(40), stateful_step_count=40, deadline=None)
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
        st.sampled_from(
            ["sent", "sent", "answered", "answered", "failed", "unreachable", "polled", "polled"]
        ),
        broker_ids,
        st.sampled_from([0, 1, 3, 10, 50, 300]),
        st.sampled_from([1, 5, 60, 400]),
    ),
    max_size=80,
)


def note(detector: FailureDetector, it: InFlight, happening: Happening, now: float) -> tuple[Change, ...]:
    match happening.what:
        case "sent":
            detector.sent(it, now)
            return ()
        case "answered":
            return detector.answered(it, happening.latency / 1024, now)
        case "failed":
            return detector.failed(it, now)
        case "unreachable":
            return detector.unreachable(happening.broker, now)
        case _:
            return detector.polled(now)


def played(story: list[Happening], start: float) -> list[object]:
    detector, now, told = FailureDetector(), start, list[object]()
    in_flight = {b: InFlight("t", b, leader=b) for b in BROKERS}
    for happening in story:
        now += happening.gap / 1024
        told += note(detector, in_flight[happening.broker], happening, now)
        if happening.what == "polled":
            for b in due_probes(detector.seen, now):
                detector.probed(b.subject, now)
                detector.sent(in_flight[int(str(b.subject.id))], now)
                told.append(("probe", b.subject))
        told.append(detector.avoidance)
        told.append(
            [detector.seen.patience(detector.seen.state(Subject(Role.LEADER, broker))) for broker in BROKERS]
        )
    return told


@given(happenings, st.sampled_from([-(2.0**20), -1.0, 1.0, 2.0**20]))
def test_what_the_clock_says_at_the_beginning_makes_no_difference(
    story: list[Happening], shift: float
) -> None:
    assert played(story, 0.0) == played(story, shift)


@given(happenings)
def test_when_nothing_is_written_any_more_nobody_is_suspect_for_good(story: list[Happening]) -> None:
    detector, now = FailureDetector(SHORT), 0.0
    in_flight = {b: InFlight("t", b, leader=b) for b in BROKERS}
    for happening in story:
        now += happening.gap / 1024
        note(detector, in_flight[happening.broker], happening, now)
    for it in in_flight.values():
        while it.sent_at:
            detector.failed(it, now)
    for _ in range(20 * FORGOTTEN_WITHIN_S):
        now += 0.05
        detector.polled(now)
    assert not detector.avoidance.suspect


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


@settings(max_examples=scaled(15))
@given(st.integers(0, 1000), st.dictionaries(broker_ids, faults, max_size=3))
def test_after_all_faults_everybody_gets_records_again_and_nobody_starves(
    seed: int, faults: dict[int, Fault]
) -> None:
    """Two seconds of faults, then eight without; the last three are looked at."""
    outcome = Simulation(seed=seed, seconds=11, rate=1000, faults=faults, policy=SHORT).run()
    last = Counter({b: sum(outcome.by_broker_and_second[b, s] for s in (8, 9, 10)) for b in BROKERS})
    assert min(last.values()) > 800, "of 1,000 each"
    assert not outcome.suspects


@settings(max_examples=scaled(10))
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
