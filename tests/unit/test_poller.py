"""The poller as a whole: who is told what and when, and what disturbs nobody."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from kafka_partition_events.errors import ConfigurationError, MetadataFetchError, PollerClosedError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.listener import ClusterAdopter, PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import Hang, ScriptedSource, Step, observe

WAIT_S = 10.0
DOWN = MetadataFetchError("down")
BROKERS = [1, 2, 3]
Make = Callable[..., MetadataPoller]


def orders(*leaders: int | None, **more: Any) -> Observation:
    return observe({"orders": leaders}, brokers=BROKERS, **more)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make(clock: ManualClock) -> Iterator[Make]:
    """Make pollers from steps or a source; whatever the test does, they are closed and no fetch hangs on."""
    pollers: list[MetadataPoller] = []
    hangs: list[Hang] = []

    def make_one(*script: Step | ScriptedSource, **options: Any) -> MetadataPoller:
        source = script[0] if isinstance(script[0], ScriptedSource) else ScriptedSource(*cast("Any", script))
        hangs.extend(step for step in script if isinstance(step, Hang))
        pollers.append(MetadataPoller(source, clock=options.pop("clock", clock), **options))
        return pollers[-1]

    yield make_one
    for hang in hangs:
        hang.release()
    for poller in pollers:
        poller.close()


class Table(PartitionChangeListener, ClusterAdopter):
    """A partitioner, as far as the poller is concerned."""

    def __init__(self, *found_out: ev.Event, error: Exception | None = None) -> None:
        self.adopted: list[Cluster | None] = []
        self.found_out, self.error = found_out, error

    def adopt(self, cluster: Cluster | None) -> tuple[ev.Event, ...]:
        self.adopted.append(cluster)
        if self.error is not None:
            raise self.error
        return self.found_out if cluster is not None else ()


class Stuck(PartitionChangeListener):
    """Blocks for ever, as far as the test is concerned."""

    def __init__(self) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()

    def on_event(self, event: ev.Event) -> None:
        self.entered.set()
        self.let_go.wait(60)


class OnFirst(RecordingListener):
    """Does something of its own in the first callback."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self.action, self.outcome = action, cast("object", None)

    def on_event(self, event: ev.Event) -> None:
        if not self.events:
            try:
                self.outcome = self.action()
            except Exception as error:  # noqa: BLE001 - the test looks at it
                self.outcome = error
        super().on_event(event)


class TestConfiguration:
    @pytest.mark.parametrize("name", ["interval", "max_age", "fetch_timeout", "min_interval"])
    @pytest.mark.parametrize("value", [0, -1.0, float("nan")])
    def test_a_time_that_is_none_is_named(self, name: str, value: float) -> None:
        with pytest.raises(ConfigurationError, match=name):
            MetadataPoller(ScriptedSource(DOWN), **{name: value})  # type: ignore[arg-type]

    def test_one_text_is_not_a_list_of_topics(self) -> None:
        with pytest.raises(ConfigurationError, match="topics"):
            MetadataPoller(ScriptedSource(DOWN), topics="orders")

    def test_a_snapshot_may_not_turn_stale_between_two_polls(self) -> None:
        with pytest.raises(ConfigurationError, match="max_age"):
            MetadataPoller(ScriptedSource(DOWN), interval=600, max_age=300)
        MetadataPoller(ScriptedSource(DOWN), interval=600)
        MetadataPoller(ScriptedSource(DOWN), interval=float("inf"))

    def test_capacity(self, make: Make) -> None:
        with pytest.raises(ConfigurationError, match="capacity"):
            make(orders(1)).register(RecordingListener(), capacity=0)

    def test_nothing_is_asked_before_start(self, make: Make) -> None:
        source = ScriptedSource(orders(1))
        poller = make(source)
        assert poller.cluster is None
        assert source.asked == []


class TestNews:
    def test_state_first_news_second(self, make: Make) -> None:
        poller = make(*(orders(n % 3 + 1) for n in range(50)))
        table = Table()
        views: list[tuple[int, int, int]] = []

        class Reader(PartitionChangeListener):
            def on_event(self, event: ev.Event) -> None:
                assert poller.cluster is not None
                adopted = cast("Cluster", table.adopted[-1])
                views.append((event.generation, poller.cluster.generation, adopted.generation))

        poller.register(table)
        reader = poller.register(Reader())
        for _ in range(50):
            poller.poll_once()
        assert reader.wait_synced(WAIT_S)
        assert len(views) == 3 + 50
        assert all(told <= cluster and told <= table for told, cluster, table in views)

    def test_kip_34_is_told_once_per_accepted_change_and_only_what_changed(self, make: Make) -> None:
        poller = make(orders(1, 2, 3), orders(1, 2, 3), orders(1, None, 3), orders(1, None, 3, 2), DOWN)
        listener = RecordingListener()
        registration = poller.register(listener)
        for _ in range(5):
            poller.poll_once()
        assert registration.wait_synced(WAIT_S)
        told = [{tp.partition: p.leader for tp, p in changed.items()} for _, changed in listener.changes]
        assert told == [{0: 1, 1: 2, 2: 3}, {1: None}, {3: 2}]
        assert [cluster.generation for cluster, _ in listener.changes] == [1, 2, 3]
        assert listener.replayed() == poller.cluster

    def test_a_late_listener_is_told_what_is(self, make: Make) -> None:
        poller = make(orders(1, None), orders(1, 2))
        events = poller.poll_once()
        listener = RecordingListener()
        registration = poller.register(listener)
        (online,) = poller.poll_once()
        assert registration.wait_synced(WAIT_S)
        *replay, live = listener.events
        assert [e.kind for e in replay] == [e.kind for e in events]
        assert all(e.initial and e.sequence == events[-1].sequence for e in replay)
        assert live is online
        assert live.sequence == events[-1].sequence + 1
        assert not live.initial
        assert len(listener.changes) == 2

    def test_a_late_listener_may_do_without(self, make: Make) -> None:
        poller = make(orders(1), orders(2))
        poller.poll_once()
        listener = RecordingListener()
        registration = poller.register(listener, replay=False)
        poller.poll_once()
        assert registration.wait_synced(WAIT_S)
        assert listener.kinds() == ["leader_changed"]

    def test_emitted_events_join_the_stream(self, make: Make) -> None:
        poller = make(orders(1), orders(2))
        listener = RecordingListener()
        registration = poller.register(listener)
        poller.poll_once()
        poller.emit(ev.CapLifted(topic="orders", partitions=1, partitioner="sticky"))
        poller.poll_once()
        assert registration.wait_synced(WAIT_S)
        assert [e.sequence for e in listener.events] == list(range(1, 7))
        lifted = listener.of(ev.CapLifted)[0]
        assert (lifted.generation, lifted.cluster_id) == (1, "test")

    def test_events_are_stamped_with_the_time_and_the_last_good_look(
        self, make: Make, clock: ManualClock
    ) -> None:
        poller = make(orders(1), DOWN, observe(brokers=[]), orders(2))
        first = poller.poll_once()[0]
        looked = clock.now()
        assert first.previous_at is None
        for _ in range(2):
            clock.advance(10)
            poller.poll_once()
        clock.advance(10)
        recovered, changed = poller.poll_once()
        assert changed.previous_at == recovered.previous_at == looked, "the others saw nothing"
        assert (changed.wall_time, changed.observed_at) == (clock.now(), clock.monotonic())

    def test_a_broken_stream_of_adoption_leaves_no_gap(self, make: Make) -> None:
        cap = ev.CapReached(topic="orders", partitions=2, admitted=(0,), limit=1, partitioner="mine")
        poller = make(orders(1), orders(2))
        listener = RecordingListener()
        registration = poller.register(listener)
        poller.poll_once()
        poller.register(Table(cap))
        poller.poll_once()
        assert registration.wait_synced(WAIT_S)
        assert listener.kinds()[-3:] == ["cap_reached", "leader_changed", "cap_reached"]
        assert [e.sequence for e in listener.events] == list(range(1, 8))


class TestPartitioners:
    def test_has_its_table_when_register_returns(self, make: Make) -> None:
        poller = make(orders(1))
        early, late = Table(), Table()
        poller.register(early)
        poller.poll_once()
        poller.register(late)
        assert early.adopted == [None, poller.cluster]
        assert late.adopted == [poller.cluster]

    def test_a_stale_snapshot_is_taken_away_and_given_back(self, make: Make, clock: ManualClock) -> None:
        poller = make(orders(1), DOWN, DOWN, orders(1), max_age=100)
        table, listener = Table(), RecordingListener()
        poller.register(table)
        registration = poller.register(listener)
        poller.poll_once()
        for _ in range(2):
            clock.advance(60)
            poller.poll_once()
        assert poller.health.stale
        assert table.adopted[-1] is None
        assert poller.cluster is not None, "it stays readable"
        poller.poll_once()
        assert not poller.health.stale
        assert table.adopted == [None, poller.cluster, None, poller.cluster]
        assert registration.wait_synced(WAIT_S)
        assert listener.kinds()[-3:] == ["metadata_unavailable", "metadata_stale", "metadata_recovered"]

    def test_one_that_registers_while_all_is_stale_gets_no_table(
        self, make: Make, clock: ManualClock
    ) -> None:
        poller = make(orders(1), DOWN, max_age=100)
        poller.poll_once()
        clock.advance(100)
        poller.poll_once()
        table = Table()
        poller.register(table)
        assert table.adopted == [None]

    def test_one_whose_adoption_fails_disturbs_nobody(self, make: Make) -> None:
        poller = make(orders(1), orders(2))
        broken, healthy, listener = Table(error=ZeroDivisionError()), Table(), RecordingListener()
        registration = poller.register(broken)
        poller.register(healthy)
        heard = poller.register(listener)
        poller.poll_once()
        poller.poll_once()
        assert heard.wait_synced(WAIT_S)
        assert healthy.adopted == [None, *[c for c, _ in listener.changes]]
        assert poller.health.internal_errors == 3
        registration.close()

    def test_one_that_leaves_does_not_trust_its_table(self, make: Make) -> None:
        poller = make(orders(1), orders(2))
        table = Table()
        registration = poller.register(table)
        poller.poll_once()
        registration.close()
        poller.poll_once()
        assert table.adopted == [None, *table.adopted[1:2], None]

    def test_a_closed_poller_takes_every_table_away(self, make: Make) -> None:
        poller = make(orders(1))
        table = Table()
        poller.register(table)
        poller.poll_once()
        poller.close()
        assert table.adopted[-1] is None


class TestListenersThatMisbehave:
    @pytest.fixture
    def bystander(self) -> RecordingListener:
        return RecordingListener()

    def test_raises(self, make: Make, bystander: RecordingListener) -> None:
        class Raising(PartitionChangeListener):
            def on_event(self, event: ev.Event) -> None:
                raise ZeroDivisionError

        poller = make(orders(1), orders(2))
        bad = poller.register(Raising())
        poller.register(bystander)
        poller.poll_once()
        poller.poll_once()
        bystander.wait_for(5)
        assert bystander.replayed() == poller.cluster
        assert poller.health.failures == 0
        bad.close()

    def test_blocks_for_ever(self, make: Make, bystander: RecordingListener) -> None:
        poller = make(*(orders(n % 3 + 1) for n in range(200)))
        stuck = Stuck()
        registration = poller.register(stuck, capacity=10)
        poller.register(bystander)
        for _ in range(200):
            poller.poll_once()  # returns: nobody waits for the stuck one
        bystander.wait_for(203)
        assert registration.stats.lag <= 10
        assert registration.stats.dropped > 150
        began = time.monotonic()
        poller.close(timeout=0.2)
        assert time.monotonic() - began < 5
        stuck.let_go.set()

    def test_unregisters_itself_and_another(self, make: Make, bystander: RecordingListener) -> None:
        poller = make(orders(1), orders(2))
        other = RecordingListener()
        other_registration = poller.register(other)

        def leave() -> None:
            registration.close(wait=WAIT_S)
            other_registration.close()

        leaving = OnFirst(leave)
        registration = poller.register(leaving)
        poller.register(bystander)
        poller.poll_once()
        leaving.wait_for(1)
        poller.poll_once()
        bystander.wait_for(5)
        assert leaving.kinds() == ["broker_added"]
        assert "leader_changed" not in other.kinds()

    def test_registers_another(self, make: Make) -> None:
        poller = make(orders(1), orders(2))
        new = RecordingListener()
        inviting = OnFirst(lambda: poller.register(new))
        poller.register(inviting)
        poller.poll_once()
        new.wait_for(4)
        poller.poll_once()
        new.wait_for(5)
        assert new.replayed() == poller.cluster
        assert [e.sequence for e in new.events[-2:]] == [4, 5], "no gap, no double"

    def test_registers_itself_again(self, make: Make) -> None:
        poller = make(orders(1))
        again = OnFirst(lambda: poller.register(again))
        poller.register(again)
        poller.poll_once()
        again.wait_for(4)
        assert isinstance(again.outcome, ConfigurationError)

    def test_refreshes_and_waits(self, make: Make) -> None:
        poller = make(orders(1), orders(2), clock=None, min_interval=0.001)
        asking = OnFirst(lambda: poller.refresh("a callback", wait=WAIT_S))
        poller.register(asking)
        poller.start()
        asking.wait_for(5)
        assert asking.outcome is True

    def test_closes_the_poller(self, make: Make, bystander: RecordingListener) -> None:
        source = ScriptedSource(orders(1))
        poller = make(source)
        closing = OnFirst(lambda: poller.close(timeout=WAIT_S))
        poller.register(closing)
        poller.register(bystander)
        poller.start()
        bystander.wait_for(4)
        closing.wait_for(4)
        with pytest.raises(PollerClosedError):
            poller.poll_once()
        assert (bystander.closed, source.closed) == (1, 1)


class TestFetches:
    def test_a_hanging_fetch_delays_close_by_no_more_than_its_limit(self, make: Make) -> None:
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
        _eventually(lambda: source.closed == 1)
        assert poller.cluster is None, "an answer after close is not published"

    def test_nor_is_the_source_closed_under_a_fetch_on_the_users_thread(self, make: Make) -> None:
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

    def test_requests_that_come_during_a_fetch_are_served_by_one_more(
        self, make: Make, clock: ManualClock
    ) -> None:
        hang = Hang(orders(1))
        source = ScriptedSource(hang, orders(2))
        poller = make(source)
        poller.start()
        hang.wait_entered()
        for n in range(10):
            assert not poller.refresh(f"request {n}")
        hang.release()
        clock.wait_for_waiters()
        assert poller.health.polls == 1, "not before the least interval has passed"
        clock.advance(0.25)
        _eventually(lambda: poller.health.polls == 2)
        clock.wait_for_waiters()
        clock.advance(20)
        clock.wait_for_waiters()
        assert len(source.asked) == 2

    def test_a_request_waits_for_a_poll_that_began_after_it(self, make: Make, clock: ManualClock) -> None:
        hang, answer = Hang(orders(1)), Hang(orders(2))
        poller = make(hang, answer)
        poller.start()
        hang.wait_entered()
        outcome: list[bool] = []
        asking = threading.Thread(target=lambda: outcome.append(poller.refresh("mine", wait=WAIT_S)))
        asking.start()
        _eventually(lambda: poller._wake)
        hang.release()
        clock.wait_for_waiters()
        clock.advance(0.25)
        answer.wait_entered()
        assert not outcome, "the fetch that was in flight does not count"
        answer.release()
        asking.join(WAIT_S)
        assert outcome == [True]
        assert poller.cluster is not None
        assert poller.cluster.leader_for_partition(("orders", 0)) == 2

    def test_a_request_gives_up_in_time(self, make: Make) -> None:
        hang = Hang(orders(1))
        poller = make(hang)
        poller.start()
        hang.wait_entered()
        assert not poller.refresh("too slow", wait=0.01)
        hang.release()

    def test_without_a_thread_the_caller_polls(self, make: Make) -> None:
        poller = make(orders(1))
        assert not poller.refresh("later")
        assert poller.cluster is None
        assert poller.refresh("now", wait=0.0)
        assert poller.cluster is not None

    def test_tracked_topics_are_asked_for_from_then_on(self, make: Make) -> None:
        source = ScriptedSource(observe({"a": [1], "b": [1], "c": [1]}))
        poller = make(source, topics=["a"])
        poller.poll_once()
        poller.track("a")
        poller.track("b", "a")
        poller.poll_once()
        assert source.asked == [frozenset("a"), frozenset("ab")]
        assert poller.cluster is not None
        assert poller.cluster.topics() == {"a", "b"}

    def test_tracking_adds_nothing_to_all_topics(self, make: Make) -> None:
        source = ScriptedSource(observe({"a": [1]}))
        poller = make(source)
        poller.track("b")
        poller.poll_once()
        assert source.asked == [None]

    def test_tracking_wakes_the_poller(self, make: Make, clock: ManualClock) -> None:
        source = ScriptedSource(observe({"a": [1], "b": [1]}))
        poller = make(source, topics=["a"])
        poller.start()
        clock.wait_for_waiters()
        poller.track("b")
        clock.advance(0.25)
        _eventually(lambda: len(source.asked) == 2)

    def test_the_thread_polls_by_the_interval(self, make: Make, clock: ManualClock) -> None:
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
            _eventually(lambda polls=polls: len(source.asked) == polls + 1)  # type: ignore[misc]

    def test_the_snapshot_turns_stale_between_two_polls(self, make: Make, clock: ManualClock) -> None:
        class Late(random.Random):
            def uniform(self, a: float, b: float) -> float:
                return b

        poller = make(orders(1), interval=60, max_age=60, rng=Late())
        listener = RecordingListener()
        poller.register(listener)
        poller.start()
        clock.wait_for_waiters()
        clock.advance(60)
        listener.wait_for(5)
        assert poller.health.polls == 1
        clock.wait_for_waiters()
        clock.advance(6)
        listener.wait_for(6)
        assert listener.kinds()[4:] == ["metadata_stale", "metadata_recovered"]

    def test_an_answer_that_makes_no_sense_is_an_outage_not_an_end(self, make: Make) -> None:
        nonsense = cast("Observation", None)

        class Odd(ScriptedSource):
            def fetch(
                self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float
            ) -> Observation:
                answer = super().fetch(topics, started_at=started_at, timeout=timeout)
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

    def test_a_bug_in_the_diff_is_contained_too(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        poller = make(orders(1), orders(2))
        poller.poll_once()
        before = poller.cluster
        with monkeypatch.context() as broken:
            broken.setattr("kafka_partition_events.metadata.publisher.diff", lambda *_, **__: 1 / 0)
            assert [e.kind for e in poller.poll_once()] == ["metadata_unavailable"]
        assert poller.cluster is before
        assert [e.kind for e in poller.poll_once()] == ["metadata_recovered", "leader_changed"]

    def test_a_slow_answer_loses_against_a_later_one(self, make: Make, clock: ManualClock) -> None:
        slow = Hang(orders(1))
        poller = make(slow, orders(2))
        events: list[ev.Event] = []
        first = threading.Thread(target=lambda: events.extend(poller.poll_once()))
        first.start()
        slow.wait_entered()
        clock.advance(1)
        poller.poll_once()
        slow.release()
        first.join(WAIT_S)
        (rejected,) = events
        assert isinstance(rejected, ev.MetadataRejected)
        assert rejected.reason is ev.Rejection.OUT_OF_ORDER
        assert poller.cluster is not None
        assert poller.cluster.leader_for_partition(("orders", 0)) == 2


class TestLife:
    def test_start_and_close_are_idempotent(self, make: Make) -> None:
        source = ScriptedSource(orders(1))
        poller = make(source)
        listener = RecordingListener()
        poller.register(listener)
        with poller:
            poller.start()
            listener.wait_for(4)
            assert [t.name for t in threading.enumerate()].count("kpe-poller") == 1
            assert poller.health.running
        poller.close()
        assert (source.closed, listener.closed) == (1, 1)
        assert not poller.health.running

    def test_close_without_start(self, make: Make) -> None:
        source = ScriptedSource(orders(1))
        make(source).close()
        assert source.closed == 1
        assert source.asked == []

    def test_a_closed_poller_stays_readable_and_learns_nothing(self, make: Make) -> None:
        poller = make(orders(1))
        poller.poll_once()
        poller.close()
        assert poller.cluster is not None
        assert poller.health.polls == 1
        poller.emit(ev.Event())
        for call in (
            poller.start,
            poller.poll_once,
            lambda: poller.refresh("late"),
            lambda: poller.register(RecordingListener()),
        ):
            with pytest.raises(PollerClosedError):
                call()

    def test_close_delivers_what_is_queued(self, make: Make) -> None:
        poller = make(*(orders(n % 3 + 1) for n in range(100)))
        listener = RecordingListener()
        poller.register(listener)
        for _ in range(100):
            poller.poll_once()
        poller.close()
        assert len(listener.events) == 103
        assert listener.closed == 1

    def test_a_listener_may_come_back(self, make: Make) -> None:
        poller = make(orders(1))
        listener = RecordingListener()
        poller.poll_once()
        poller.register(listener).close(wait=WAIT_S)
        registration = poller.register(listener)
        assert registration.wait_synced(WAIT_S)
        assert listener.replayed() == poller.cluster

    def test_a_source_that_cannot_be_closed_disturbs_nobody(self, make: Make) -> None:
        class Stubborn(ScriptedSource):
            def close(self) -> None:
                super().close()
                raise ZeroDivisionError

        source = Stubborn(orders(1))
        with make(source):
            pass
        assert source.closed == 1

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_poller_whose_thread_died_is_not_trusted_and_can_be_started_again(self, make: Make) -> None:
        class Exiting(ScriptedSource):
            def fetch(
                self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float
            ) -> Observation:
                if len(self.asked) == 1:
                    self.asked.append(topics)
                    raise KeyboardInterrupt
                return super().fetch(topics, started_at=started_at, timeout=timeout)

        poller = make(Exiting(orders(1)))
        table = Table()
        poller.register(table)
        poller.poll_once()
        poller.start()
        _eventually(lambda: not poller.health.running)
        assert poller.health.stale
        assert table.adopted[-1] is None
        poller.start()
        _eventually(lambda: table.adopted[-1] is not None)

    def test_health(self, make: Make, clock: ManualClock) -> None:
        poller = make(orders(1), DOWN, DOWN, observe(brokers=[]))
        assert poller.health.last_attempt is None
        poller.poll_once()
        clock.advance(5)
        poller.poll_once()
        poller.poll_once()
        health = poller.health
        assert (health.polls, health.failures, health.last_error) == (3, 2, "down")
        assert (health.last_success, health.last_attempt) == (0.0, 5.0)
        poller.poll_once()
        assert (poller.health.refused, poller.health.failures) == (1, 2)
        assert poller.health.refresh_reason is None
        poller.refresh("broker 1 is suspect")
        assert poller.health.refresh_reason == "broker 1 is suspect"

    def test_a_refresh_prints_nothing(self, make: Make, capsys: pytest.CaptureFixture[str]) -> None:
        """Without a configuration structlog prints every line to standard output, which is not ours."""
        make(orders(1)).refresh("test", wait=WAIT_S)
        assert capsys.readouterr().out == ""

    def test_before_the_first_answer_a_snapshot_is_none_and_a_view_empty(self, make: Make) -> None:
        poller = make(DOWN)
        listener = RecordingListener()
        registration = poller.register(listener)
        poller.poll_once()
        assert poller.cluster is None
        assert registration.wait_synced(WAIT_S)
        assert listener.replayed() == EMPTY


def _eventually(holds: Callable[[], bool]) -> None:
    """Wait for what another thread is about to do."""
    pause = threading.Event()
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(0.001)


class TestTopicsThatAreTrackedLater:
    def test_are_seen_not_created(self, make: Make) -> None:
        """A producer's topics become known one by one; none of that is news about the cluster."""
        both = observe({"orders": [1], "payments": [1, None]}, brokers=[1])
        poller = make(observe({"orders": [1]}), both, topics=["orders"])
        poller.poll_once()
        poller.track("payments")
        events = poller.poll_once()
        assert [(e.kind, e.initial, e.previous_at) for e in events] == [
            ("topic_added", True, None),
            ("partition_offline", True, None),
        ]

    def test_are_created_if_they_had_been_asked_for_in_vain(self, make: Make) -> None:
        missing = observe({}, brokers=[1], errors={"orders": "UNKNOWN_TOPIC_OR_PARTITION"})
        poller = make(missing, observe({"orders": [1]}), topics=["orders"])
        poller.poll_once()
        (added,) = poller.poll_once()
        assert (added.kind, added.initial) == ("topic_added", False)
        assert added.previous_at is not None


def test_what_stays_refused_for_long_does_not_keep_the_poller_busy(make: Make, clock: ManualClock) -> None:
    denied = observe({}, brokers=[1], errors={"secret": "TOPIC_AUTHORIZATION_FAILED"})
    poller = make(denied, interval=100.0)
    poller.poll_once()
    assert poller.health.next_delay < 1
    for _ in range(70):
        poller.poll_once()
    assert poller.health.next_delay > 80
