"""When the poller asks, and what becomes of answers that are late, odd, or do not come."""

import threading
import time
from typing import cast

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.metadata.state import COMING_S
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import Hang, ScriptedSource, observe
from tests.poller_kit import BROKERS, WAIT_S, Pollers, Table, eventually, orders


class TestFetches:
    def test_a_hanging_fetch_delays_close_by_no_more_than_its_limit(self, make: Pollers) -> None:
        hang = Hang(orders(1))
        source = ScriptedSource(hang)
        poller = make(source, clock=None)
        poller.start()
        hang.wait_entered()
        began = time.monotonic()
        poller.close(timeout=0.1)
        assert time.monotonic() - began < 5
        assert source.closed == 0, "not while its fetch is running"
        hang.release()
        eventually(lambda: source.closed == 1)
        assert poller.cluster is None, "an answer after close is not published"

    def test_nor_is_the_source_closed_under_a_fetch_on_the_users_thread(self, make: Pollers) -> None:
        hang = Hang(orders(1))
        source = ScriptedSource(hang)
        poller = make(source)
        user = threading.Thread(target=poller.poll_once)
        user.start()
        hang.wait_entered()
        poller.close(timeout=0.1)
        assert source.closed == 0
        hang.release()
        user.join(WAIT_S)
        assert source.closed == 1

    def test_polls_take_turns(self, make: Pollers) -> None:
        """So no answer is taken in after one to a later request, and a closed source is asked no more."""
        hang = Hang(orders(1))
        source = ScriptedSource(hang, orders(2))
        poller = make(source)
        users = [threading.Thread(target=poller.poll_once) for _ in range(2)]
        users[0].start()
        hang.wait_entered()
        users[1].start()
        users[1].join(0.05)
        assert (users[1].is_alive(), len(source.asked)) == (True, 1)
        hang.release()
        for user in users:
            user.join(WAIT_S)
        assert (poller.health.polls, len(source.asked)) == (2, 2)

    def test_requests_during_a_fetch_are_served_by_one_more(self, make: Pollers, clock: ManualClock) -> None:
        hang = Hang(orders(1))
        source = ScriptedSource(hang, orders(2))
        poller = make(source)
        poller.start()
        hang.wait_entered()
        for _ in range(10):
            assert not poller.refresh()
        hang.release()
        clock.wait_for_waiters()
        assert poller.health.polls == 1, "not before the least interval has passed"
        clock.advance(0.25)
        eventually(lambda: poller.health.polls == 2)
        clock.wait_for_waiters()
        clock.advance(20)
        clock.wait_for_waiters()
        assert len(source.asked) == 2

    def test_a_request_waits_for_a_poll_that_began_after_it(self, make: Pollers, clock: ManualClock) -> None:
        hang, answer = Hang(orders(1)), Hang(orders(2))
        poller = make(hang, answer)
        poller.start()
        hang.wait_entered()
        outcome: list[bool] = []
        asking = threading.Thread(target=lambda: outcome.append(poller.refresh(wait=WAIT_S)))
        asking.start()
        eventually(lambda: poller._soon)
        hang.release()
        clock.wait_for_waiters()
        clock.advance(0.25)
        answer.wait_entered()
        assert not outcome, "the fetch that was in flight does not count"
        answer.release()
        asking.join(WAIT_S)
        assert outcome == [True]
        assert poller.cluster is not None
        assert poller.cluster.by_topic["orders"].partitions[0].leader == 2

    def test_a_request_gives_up_in_time(self, make: Pollers) -> None:
        hang = Hang(orders(1))
        poller = make(hang)
        poller.start()
        hang.wait_entered()
        assert not poller.refresh(wait=0.01)
        hang.release()

    def test_without_a_thread_the_caller_polls(self, make: Pollers) -> None:
        poller = make(orders(1))
        assert not poller.refresh()
        assert poller.cluster is None
        assert poller.refresh(wait=0.0)
        assert poller.cluster is not None

    def test_the_thread_polls_by_the_interval(self, make: Pollers, clock: ManualClock) -> None:
        source = ScriptedSource(orders(1))
        poller = make(source, interval=30.0)
        poller.start()
        for polls in range(1, 5):
            clock.wait_for_waiters()
            assert len(source.asked) == polls
            clock.advance(26.9)
            clock.wait_for_waiters()
            assert len(source.asked) == polls
            clock.advance(6.2)
            eventually(lambda polls=polls: len(source.asked) == polls + 1)  # type: ignore[misc]

    def test_an_answer_that_makes_no_sense_is_an_outage_not_an_end(self, make: Pollers) -> None:
        nonsense = cast("Observation", None)

        class Odd(ScriptedSource):
            def fetch(self, topics: frozenset[str] | None, /, *, timeout: float) -> Observation:
                answer = super().fetch(topics, timeout=timeout)
                return nonsense if len(self.asked) == 2 else answer

        poller = make(Odd(orders(1), orders(2)))
        listener = RecordingListener()
        registration = poller.register(listener)
        before = (poller.poll_once(), poller.cluster)[1]
        (unavailable,) = poller.poll_once()
        assert unavailable.kind == "metadata_unavailable"
        assert poller.cluster is before
        assert poller.health.internal_errors == 1
        assert [e.kind for e in poller.poll_once()] == ["metadata_recovered", "leader_changed"]
        assert registration.wait_synced(WAIT_S)
        assert [e.sequence for e in listener.events] == list(range(1, 8))


def test_what_stays_refused_for_long_does_not_keep_the_poller_busy(make: Pollers, clock: ManualClock) -> None:
    denied = observe({}, brokers=[1], errors={"secret": "TOPIC_AUTHORIZATION_FAILED"})
    poller = make(denied, interval=100.0)
    poller.poll_once()
    assert poller.health.next_delay < 1
    for _ in range(70):
        poller.poll_once()
    assert poller.health.next_delay > 80


def test_a_topic_to_come_is_looked_for_soon_but_not_for_ever(make: Pollers, clock: ManualClock) -> None:
    """A producer has just begun to write it, and brokers create it by that."""
    poller = make(observe({"orders": [1]}, brokers=[1], requested={"orders", "new"}), interval=100.0)
    for seconds, soon in ((0, True), (COMING_S - 1, True), (1, False)):
        clock.advance(seconds)
        poller.poll_once()
        assert (poller.health.next_delay < 10) is soon


class TestWhatProducersWrite:
    def test_is_asked_for(self, make: Pollers) -> None:
        written = ["orders"]
        source = ScriptedSource(orders(1))
        poller = make(source, topics=["audit"])
        poller.join(DefaultPartitioner(), lambda: written)
        poller.join(DefaultPartitioner(), lambda: ("payments",))
        poller.poll_once()
        written.append("new")
        poller.poll_once()
        before = frozenset({"audit", "orders", "payments"})
        assert source.asked == [before, before | {"new"}]

    def test_is_forgotten_when_nobody_writes_it_any_more(self, make: Pollers) -> None:
        """No event tells that it has ended: it has not. Listeners get the state that is left."""
        both = observe({"orders": [1], "replies": [1, 2]}, brokers=BROKERS)
        poller = make(both, orders(1), both, topics=["orders"])
        partitioner, heard = DefaultPartitioner(), RecordingListener()
        follower = poller.join(partitioner, lambda: ("replies", "orders"))
        poller.register(heard)
        poller.poll_once()
        follower.leave(1.0)
        other = DefaultPartitioner()
        again: list[str] = []
        poller.join(other, lambda: again)
        assert other.route("replies") is not None
        poller.poll_once()
        assert other.route("replies") is None
        assert other.route("orders") is not None
        heard.wait_for(lambda events: bool(events) and isinstance(events[-1], ev.Resync), WAIT_S)
        assert cast("ev.Resync", heard.events[-1]).cluster.by_topic.keys() == {"orders"}
        again.append("replies")
        poller.poll_once()
        heard.wait_for(lambda events: isinstance(events[-1], ev.TopicAdded), WAIT_S)
        assert heard.events[-1].initial, "it is seen, not created"

    def test_is_forgotten_before_what_partitioners_find_out_by_that(self, make: Pollers) -> None:
        found_out = ev.CapLifted(topic="orders", partitions=1, partitioner="mine")
        poller = make(observe({"orders": [1], "replies": [1]}, brokers=BROKERS), topics=["orders"])
        follower = poller.join(DefaultPartitioner(), lambda: ("replies",))
        heard = RecordingListener()
        poller.register(heard)
        poller.register(Table(found_out))
        poller.poll_once()
        follower.leave(1.0)
        poller.poll_once()
        heard.wait_for(lambda events: any(isinstance(event, ev.Resync) for event in events), WAIT_S)
        forgotten = heard.kinds().index("resync")
        assert heard.kinds()[forgotten : forgotten + 2] == ["resync", "cap_lifted"]
        assert [event.sequence for event in heard.events] == list(range(1, len(heard.events) + 1))

    def test_is_looked_for_soon_if_it_is_new(self, make: Pollers) -> None:
        poller = make(orders(1), topics=[])
        follower = poller.join(DefaultPartitioner(), lambda: ("orders",))
        poller.poll_once()
        follower.ask_for("orders")
        assert not poller._soon
        follower.ask_for("new")
        assert poller._soon
        poller.close()
        follower.ask_for("another")

    def test_is_given_what_a_fetch_has_found_before_its_partitioner_is(self, make: Pollers) -> None:
        poller = make(orders(1), RuntimeError("no broker"), topics=["orders"])
        partitioner = DefaultPartitioner()
        found: list[tuple[list[str], bool]] = []
        poller.join(
            partitioner,
            lambda: (),
            lambda topics: found.append(([*topics], partitioner.route("orders") is not None)),
        )
        poller.poll_once()
        poller.poll_once()
        assert found == [(["orders"], False), ([], True)]

    def test_means_nothing_where_all_topics_are_asked_for(self, make: Pollers) -> None:
        source = ScriptedSource(orders(1))
        poller = make(source)
        follower = poller.join(DefaultPartitioner(), lambda: ("new",))
        follower.ask_for("new")
        assert not poller._soon
        poller.poll_once()
        assert source.asked == [None]
