"""What producers hear of their records, by partition and broker. No client, no sleep."""

import threading
from collections.abc import Collection
from functools import partial

import pytest

from kafka_partition_events import BrokerSuspected, Event, Suspicion
from kafka_partition_events.health.circuits import Change
from kafka_partition_events.health.detector import FailureDetector
from kafka_partition_events.health.in_flight import MAIN, STANDBY, BrokerConnection, Subject
from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.health.tracker import LEAST_INTERVAL_S, DeliveryTracker
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.metadata.events import Role
from kafka_partition_events.partitioners.adaptive import TopicPace
from kafka_partition_events.routing.table import Route, compile_routes
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from tests.threads_kit import together

LEADERS = [1, 2, 3, 1, 2, 3]
CLUSTER = cluster_of({"t": list(LEADERS), "u": [2, 2]}, brokers=[1, 2, 3])
HALF_SECOND = DetectorPolicy(shortest_stall=0.5, longest_stall=0.5, first_rest=1.0, down_for=0.0)


class Front:
    """DeliveryTracker of one partitioner, and a producer that reports to them."""

    def __init__(self, policy: DetectorPolicy = HALF_SECOND, start: float = 100.0) -> None:
        self.clock = ManualClock(start)
        self.changed = 0
        self.paces: dict[str, TopicPace] = {}
        self.deliveries = DeliveryTracker(self._note_change, policy, self.clock.monotonic, lambda: "p")
        self.deliveries.snapshot(CLUSTER)

    def _note_change(self) -> None:
        self.changed += 1

    def sent(self, *partitions: int, topic: str = "t") -> None:
        for partition in partitions:
            self.deliveries.sent(topic, partition, CLUSTER.by_topic[topic].partitions[partition].leader)

    def answered(self, *partitions: int, latency: float = 0.005, topic: str = "t") -> list[Event]:
        return [e for p in partitions for e in self.deliveries.answered(topic, p, latency)]

    def listen(self, seconds: float) -> list[Event]:
        events: list[Event] = []
        for _ in range(round(seconds * 100)):
            self.clock.advance(0.01)
            events += self.deliveries.polled()
        return events

    def turn_began(self, topic: str = "t") -> None:
        self.paces.setdefault(topic, TopicPace()).turn_began(self.deliveries.tracked(topic))

    def backlogs(self, partitions: Collection[int]) -> list[int]:
        return self.paces.setdefault("t", TopicPace()).backlogs(self.deliveries, "t", partitions)

    def outstanding(self) -> dict[tuple[str, int], int]:
        return {tp: count for tp, count in self.deliveries.stats.outstanding.items() if count}

    def learn(self) -> None:
        """Let each broker answer a few records as usual."""
        for partition in (0, 1, 2):
            self.sent(*[partition] * 8)
            self.clock.advance(0.005)
            self.answered(*[partition] * 8)
            self.deliveries.polled()

    def suspect(self, *stuck: int) -> list[Event]:
        """Let broker 1 fall silent with these records outstanding, or two, while broker 2 answers."""
        self.sent(*(stuck or (0, 3)))
        self.listen(0.1)
        self.sent(1)
        self.listen(0.01)
        self.answered(1)
        return self.listen(0.5)


@pytest.fixture
def front() -> Front:
    return Front()


def route(front: Front, topic: str = "t") -> Route:
    return compile_routes(CLUSTER)[topic].avoiding(front.deliveries.avoidance)


def test_records_are_outstanding_from_sent_to_answered_failed_or_withdrawn(front: Front) -> None:
    front.sent(0, 0, 0, 1, 4)
    assert front.outstanding() == {("t", 0): 3, ("t", 1): 1, ("t", 4): 1}
    front.answered(0)
    front.deliveries.failed("t", 0)
    front.deliveries.withdrawn("t", 0)
    assert front.outstanding() == {("t", 1): 1, ("t", 4): 1}


def test_reports_of_records_that_nobody_tracks_change_nothing(front: Front) -> None:
    front.answered(0, 0)
    front.deliveries.failed("t", 9)
    front.deliveries.withdrawn("nosuch", 0)
    assert front.outstanding() == {}
    front.sent(0)
    front.answered(0, 0, 0)
    front.sent(0)
    assert front.outstanding() == {("t", 0): 1}


def test_a_lost_connection_is_told_at_once_and_routes_are_made_anew_once(front: Front) -> None:
    (event,) = front.deliveries.unreachable(3)
    assert isinstance(event, BrokerSuspected)
    assert (event.reason, event.silence_ms, event.usual_ms) == (Suspicion.UNREACHABLE, 0, None)
    assert event.partitioner == "p"
    assert front.changed == 1
    assert front.deliveries.unreachable(3) == ()
    assert front.changed == 1
    assert (front.deliveries.suspects(), front.deliveries.stats.exclusions) == (frozenset({3}), 1)


def test_routes_are_told_without_the_lock(front: Front) -> None:
    entered: list[bool] = []

    def enter() -> None:
        thread = threading.Thread(target=lambda: entered.append(front.deliveries.stuck() == {}))
        thread.start()
        thread.join(5)

    front.deliveries._on_change = enter
    front.deliveries.unreachable(1)
    assert entered == [True]


class TestProbes:
    def test_go_to_a_topic_that_the_suspect_broker_leads_partitions_of(self, front: Front) -> None:
        front.deliveries.unreachable(1)
        front.listen(1.1)
        assert front.deliveries.probing
        assert front.deliveries.take_probe("u", route(front, "u")) is None
        assert front.deliveries.take_probe("t", route(front)) in {0, 3}

    def test_are_taken_by_one_thread_only(self, front: Front) -> None:
        front.deliveries.unreachable(1)
        front.listen(1.1)
        taken: list[int | None] = []
        there = route(front)
        together(*[lambda: taken.append(front.deliveries.take_probe("t", there))] * 8)
        assert sum(probe is not None for probe in taken) == 1

    def test_with_a_key_go_by_the_first_handle_unless_that_is_blocked(self, front: Front) -> None:
        there = route(front)
        assert front.deliveries.take_keyed_probe("t", there, 0) is None
        front.deliveries.unreachable(1)
        front.listen(1.1)
        there = route(front)
        detector = front.deliveries._detector
        detector.handle = STANDBY
        assert front.deliveries.take_keyed_probe("t", there, 1) is None, "it needs no suspect"
        assert front.deliveries.take_keyed_probe("t", there, 0) == MAIN
        front.listen(0.06)
        detector.handle, detector.seen.held_up = STANDBY, (BrokerConnection(MAIN, 1),)
        assert front.deliveries.take_keyed_probe("t", there, 0) == STANDBY

    @pytest.mark.parametrize("what_happens", ["refused for its size", "taken back as the queue is full"])
    def test_that_are_not_sent_are_not_waited_for(self, front: Front, what_happens: str) -> None:
        deliveries, first = front.deliveries, None
        front.learn()
        front.suspect(0)
        assert deliveries.suspects() == {1}
        for _ in range(2_000):
            front.listen(0.01)
            front.sent(1)
            front.answered(1)
            if not deliveries.probing or (probe := deliveries.take_probe("t", route(front))) is None:
                continue
            if first is None:
                first = probe
                if what_happens != "refused for its size":
                    front.sent(probe)
                    deliveries.withdrawn("t", probe)
                continue
            front.sent(probe)
            front.clock.advance(0.005)
            front.answered(probe)
        assert deliveries.suspects() == frozenset()


class TestFollow:
    def test_moves_what_is_outstanding_to_the_new_leader(self, front: Front) -> None:
        front.learn()
        front.suspect()
        assert front.deliveries.stuck() == {(0, "t", 0): 1, (0, "t", 3): 1}
        moved = cluster_of({"t": [2, 2, 3, 1, 2, 3], "u": [2, 2]}, brokers=[1, 2, 3])
        front.deliveries.snapshot(moved)
        assert front.deliveries.stuck() == {(0, "t", 3): 1}
        assert front.outstanding() == {("t", 0): 1, ("t", 3): 1}
        front.answered(0)
        assert front.outstanding() == {("t", 3): 1}

    def test_takes_what_is_outstanding_off_a_partition_that_went_offline(self, front: Front) -> None:
        front.learn()
        front.suspect()
        front.deliveries.snapshot(cluster_of({"t": [None, 2, 3, None, 2, 3]}, brokers=[1, 2, 3]))
        assert front.deliveries.stuck() == {}
        front.deliveries.failed("t", 0)
        assert front.outstanding() == {("t", 3): 1}

    def test_forgets_the_partitions_of_topics_that_are_gone_once_they_are_settled(self, front: Front) -> None:
        front.sent(0, 1, topic="u")
        front.answered(0, topic="u")
        gone = cluster_of({"t": list(LEADERS)}, brokers=[1, 2, 3])
        front.deliveries.snapshot(gone)
        assert front.deliveries.stats.outstanding == {("u", 1): 1}
        front.answered(1, topic="u")
        front.deliveries.snapshot(gone)
        assert front.deliveries.stats.outstanding == {}

    def test_forgets_them_for_each_producer(self, front: Front) -> None:
        producer = front.deliveries.new_producer()
        front.deliveries.sent("u", 0, 2, producer=producer)
        front.deliveries.answered("u", 0, 0.005, producer=producer)
        assert front.deliveries._by_producer[producer]
        front.deliveries.snapshot(cluster_of({"t": list(LEADERS)}, brokers=[1, 2, 3]))
        assert not front.deliveries._by_producer[producer]


def test_a_replica_is_told_with_those_that_wait_for_it_each_once(front: Front) -> None:
    front.deliveries.serve(acks_all=True, standbys=1)
    front.learn()
    followed_by_3 = frozenset({3})
    for partition, leader, way in ((0, 1, MAIN), (0, 1, STANDBY), (1, 2, MAIN)):
        front.deliveries.sent("t", partition, leader, followed_by_3, way)
    front.listen(0.1)
    front.deliveries.sent("t", 4, 2, frozenset(), STANDBY)
    front.listen(0.01)
    front.deliveries.answered("t", 4, 0.01, STANDBY)
    (event,) = front.listen(0.6)
    assert isinstance(event, BrokerSuspected)
    assert (event.broker, event.role, event.reason) == (3, Role.REPLICA, Suspicion.SILENT)
    assert event.waiting == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert event.outstanding == 3


def refused() -> Front:
    """Return a front where partition 0 takes nothing, although its leader answers for partition 3."""
    front = Front(DetectorPolicy())
    front.learn()
    front.sent(0)
    front.listen(0.03)
    front.sent(3)
    front.answered(3)
    front.listen(0.01)
    assert front.deliveries.avoidance.partitions == {("t", 0)}
    return front


def test_a_partition_that_refused_is_trusted_untried_when_only_keys_write_its_topic() -> None:
    """No unkeyed record would ever try it: keyed ones would be sampled for good, for nothing."""
    front = refused()
    front.deliveries.failed("t", 0)
    front.listen(9)
    assert front.deliveries.avoidance.partitions == {("t", 0)}
    front.listen(3)
    assert not front.deliveries.avoidance
    front.sent(0)
    front.listen(0.1)
    assert front.deliveries.avoidance.leaders == {1}, "what is sent there counts against its brokers again"


def test_a_partition_that_refused_counts_again_on_every_handle() -> None:
    front = Front(DetectorPolicy())
    front.deliveries.serve(standbys=1)
    front.learn()
    for handle in (MAIN, STANDBY):
        front.deliveries.sent("t", 0, 1, handle=handle)
        front.listen(0.03)
        front.deliveries.sent("t", 3, 1, handle=handle)
        front.deliveries.answered("t", 3, 0.005, handle)
        front.listen(0.01)
        front.deliveries.failed("t", 0, handle)
    front.listen(12)
    assert not front.deliveries.avoidance
    assert not front.deliveries._detector.seen.aside


def test_what_is_remembered_of_a_connection_does_not_grow_with_the_records(front: Front) -> None:
    """Of a producer that waits for each: nothing is in flight when the next one comes."""
    for _ in range(1_000):
        front.sent(0)
        front.answered(0)
    assert max(len(c._oldest) for c in front.deliveries._detector.seen.connections.values()) <= 1


class TestAProducerThatEnds:
    def test_takes_along_what_it_has_in_flight_and_nothing_else_then_or_later(self, front: Front) -> None:
        mine, theirs = front.deliveries.new_producer(), front.deliveries.new_producer()
        for producer, records in ((mine, 3), (theirs, 2)):
            for _ in range(records):
                front.deliveries.sent("t", 0, 1, producer=producer)
        front.deliveries.answered("t", 0, 0.005, producer=mine)
        front.deliveries.withdrawn("t", 0, producer=mine)
        front.deliveries.producer_ended(mine)
        front.deliveries.answered("t", 0, 0.005, producer=mine)
        assert front.outstanding() == {("t", 0): 2}
        front.deliveries.failed("t", 0, producer=theirs)
        front.deliveries.producer_ended(theirs)
        assert front.outstanding() == {}
        front.deliveries.producer_ended(theirs)

    def test_leaves_no_broker_suspect_by_what_nothing_is_reported_of(self) -> None:
        front = Front(DetectorPolicy())
        front.learn()
        producer = front.deliveries.new_producer()
        front.deliveries.sent("t", 0, 1, producer=producer)
        front.deliveries.sent("t", 3, 1)
        front.listen(0.02)
        front.deliveries.producer_ended(producer)
        front.sent(1)
        front.listen(0.01)
        front.answered(1)
        assert not front.deliveries.avoidance, "what remains is waited for from then on"
        front.answered(3)
        assert front.deliveries._detector.seen.state(Subject(Role.LEADER, 1)).outstanding == 0

    def test_may_send_while_it_closes_and_that_is_not_waited_for(self, front: Front) -> None:
        """librdkafka's close serves callbacks, which may produce again; no report of that comes."""
        front.learn()
        mine = front.deliveries.new_producer()
        front.deliveries.producer_ended(mine)
        front.deliveries.sent("t", 0, 1, producer=mine)
        assert front.outstanding() == {}

    def test_takes_nothing_from_brokers_for_a_topic_that_is_gone(self, front: Front) -> None:
        producer = front.deliveries.new_producer()
        front.deliveries.sent("u", 0, 2, producer=producer)
        front.deliveries.failed("u", 0)  # by another one, which knows no number
        front.deliveries.snapshot(cluster_of({"t": list(LEADERS)}, brokers=[1, 2, 3]))
        front.sent(1)
        front.deliveries.producer_ended(producer)
        assert front.outstanding() == {("t", 1): 1}
        assert front.deliveries._detector.seen.state(Subject(Role.LEADER, 2)).outstanding == 1


class TestBacklogs:
    def test_are_counted_in_turns_not_in_records(self, front: Front) -> None:
        front.learn()
        for _ in range(10):
            front.turn_began()
            front.sent(*[0] * 100)
        front.answered(*[0] * 550)
        assert front.backlogs(range(3)) == [3, 0, 0]  # 450 less what is usual, 150

    def test_what_a_turn_holds_is_of_this_topic_and_of_lately(self, front: Front) -> None:
        """A rate that was high for hours, or that another topic has, must not hide what is stuck now."""
        for _ in range(1000):
            for topic in ("t", "busy"):
                front.turn_began(topic)
                for _ in range(100):
                    front.deliveries.sent(topic, 0, 1)
                    front.deliveries.answered(topic, 0, 0.005)
        for _ in range(60):
            front.turn_began()
            front.sent(1)
            front.answered(1)
        for _ in range(20):
            front.turn_began()
            front.sent(0)
        (behind, *others) = front.backlogs(range(3))
        assert behind > 15
        assert others == [0, 0]


def test_conclusions_are_two_milliseconds_apart_at_least() -> None:
    class Counting(FailureDetector):
        conclusions = 0

        def polled(self, now: float) -> tuple[Change, ...]:
            self.conclusions += 1
            return super().polled(now)

    front = Front()
    front.deliveries._detector = detector = Counting()
    for _ in range(100):
        front.deliveries.polled()
        front.clock.advance(LEAST_INTERVAL_S / 10)
    assert detector.conclusions in {9, 10, 11}


def test_the_longest_linger_counts(front: Front) -> None:
    front.deliveries.serve(linger=0.02)
    front.deliveries.serve(linger=0.005)
    assert front.deliveries.linger == 0.02


def test_threads_that_send_and_report_lose_nothing(front: Front) -> None:
    def work(partition: int) -> None:
        for _ in range(2000):
            front.sent(partition)
            front.deliveries.polled()
            front.answered(partition)

    together(*[partial(work, partition) for partition in (0, 1, 0, 3)])
    assert front.outstanding() == {}
    assert front.deliveries._detector.seen.state(Subject(Role.LEADER, 1)).outstanding == 0
