"""One mailbox: what a listener is handed, whatever it does."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import changed_partitions, diff
from kafka_partition_events.metadata.dispatch import FAILURES_BEFORE_PAUSE, Batch, Mailbox
from kafka_partition_events.metadata.events import Event, MetadataStale, Resync
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import cluster_of

WAIT_S = 10.0
Open = Callable[..., Mailbox]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_mailbox(clock: ManualClock) -> Iterator[Open]:
    opened: list[Mailbox] = []

    def make(listener: PartitionChangeListener, capacity: int = 1024, **options: Any) -> Mailbox:
        mailbox = Mailbox(listener, capacity=capacity, clock=clock, **options)
        opened.append(mailbox)
        return mailbox

    yield make
    for mailbox in opened:
        mailbox.close(wait=WAIT_S)


class Blocking(RecordingListener):
    """Blocks in its first event until the test lets it go."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.let_go = threading.Event(), threading.Event()

    def on_event(self, event: Event) -> None:
        self.entered.set()
        assert self.let_go.wait(WAIT_S)
        super().on_event(event)


class Failing(RecordingListener):
    """Raises on its first ``times`` events."""

    def __init__(self, times: int = 1, error: BaseException | None = None) -> None:
        super().__init__()
        self.times, self.error = times, error or ZeroDivisionError("the listener's own trouble")

    def on_event(self, event: Event) -> None:
        if self.times > 0:
            self.times -= 1
            raise self.error
        super().on_event(event)


class Settling(Blocking):
    """Also keeps what it was told to be settled, among the events; blocks in its first event."""

    def __init__(self, *, times_to_fail: int = 0) -> None:
        super().__init__()
        self.heard: list[object] = []
        self.times_to_fail = times_to_fail

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        self.heard.append(event.sequence)

    def on_settled(self, cluster: Cluster, looked_at: datetime | None) -> None:
        if self.times_to_fail > 0:
            self.times_to_fail -= 1
            raise ZeroDivisionError("the listener's own trouble")
        self.heard.append((cluster.generation, looked_at))


def news(*sequences: int, cluster: Cluster = EMPTY) -> Batch:
    return Batch(cluster, tuple(MetadataStale(sequence=n, age_s=0, limit_s=0) for n in sequences))


def sequences(listener: RecordingListener) -> list[int]:
    return [event.sequence for event in listener.events]


def state(leaders: list[int | None], generation: int = 1) -> Batch:
    cluster = cluster_of({"orders": leaders}, brokers=[1, 2, 3], generation=generation)
    events = diff(EMPTY, cluster)
    return Batch(cluster, events, changed_partitions(events))


class TestDelivery:
    def test_in_order_one_at_a_time_on_a_thread_of_its_own(self, open_mailbox: Open) -> None:
        listener = RecordingListener(name="mine")
        mailbox = open_mailbox(listener)
        mailbox.put(news(1, 2))
        mailbox.put(news(3))
        assert mailbox.wait_synced(WAIT_S)
        assert sequences(listener) == [1, 2, 3]
        assert [t.name for t in threading.enumerate() if t.name.startswith("kpe-")] == ["kpe-listener-mine"]
        assert mailbox.stats.delivered == 3

    def test_a_listener_that_hears_nothing_costs_no_thread(self, open_mailbox: Open) -> None:
        mailbox = open_mailbox(PartitionChangeListener())
        mailbox.put(news(1))
        assert mailbox.wait_synced(0)
        assert not [t for t in threading.enumerate() if t.name.startswith("kpe-")]

    def test_a_method_set_on_the_object_is_called(self, open_mailbox: Open) -> None:
        heard: list[Event] = []
        listener = PartitionChangeListener()
        listener.on_event = heard.append  # type: ignore[method-assign, assignment]
        mailbox = open_mailbox(listener)
        mailbox.put(news(1))
        assert mailbox.wait_synced(WAIT_S)
        assert [event.sequence for event in heard] == [1]

    def test_kip_34_is_called_before_the_typed_events(self, open_mailbox: Open) -> None:
        order: list[str] = []

        class Both(PartitionChangeListener):
            def on_partitions_change(self, cluster: Cluster, partitions_changed: object) -> None:
                order.append("on_partitions_change")

            def on_event(self, event: Event) -> None:
                order.append(event.kind)

        mailbox = open_mailbox(Both())
        mailbox.put(state([1]))
        assert mailbox.wait_synced(WAIT_S)
        assert order == ["on_partitions_change", *["broker_added"] * 3, "topic_added"]


class TestOverflow:
    def test_collapses_to_one_resync_with_the_exact_number(self, open_mailbox: Open) -> None:
        listener = Blocking()
        mailbox = open_mailbox(listener, capacity=3)
        mailbox.put(news(1))
        assert listener.entered.wait(WAIT_S)  # the worker has taken 1; the backlog begins with 2
        for n in range(2, 5):
            mailbox.put(news(n))
        assert mailbox.stats.lag == 3
        last = cluster_of({"orders": [1]}, generation=4)
        mailbox.put(news(5, 6, cluster=last))
        assert (mailbox.stats.lag, mailbox.stats.dropped) == (1, 5)
        mailbox.put(news(7))
        listener.let_go.set()
        assert mailbox.wait_synced(WAIT_S)
        first, resync, after = listener.events
        assert isinstance(resync, Resync)
        assert (first.sequence, resync.sequence, after.sequence) == (1, 6, 7)
        assert (resync.dropped, resync.cluster) == (5, last)

    def test_a_second_overflow_counts_on(self, open_mailbox: Open) -> None:
        listener = Blocking()
        mailbox = open_mailbox(listener, capacity=2)
        mailbox.put(news(1))
        assert listener.entered.wait(WAIT_S)
        for n in range(2, 101):
            mailbox.put(news(n))
        listener.let_go.set()
        assert mailbox.wait_synced(WAIT_S)
        resync = next(e for e in listener.events if isinstance(e, Resync))
        heard = len(listener.events) - 1
        assert resync.dropped + heard == 100
        assert mailbox.stats.dropped == resync.dropped
        assert sequences(listener)[-1] == 100

    def test_a_batch_of_any_size_fits_an_empty_mailbox(self, open_mailbox: Open) -> None:
        listener = RecordingListener()
        mailbox = open_mailbox(listener, capacity=1)
        mailbox.put(news(*range(1, 501)))
        assert mailbox.wait_synced(WAIT_S)
        assert len(listener.events) == 500
        assert mailbox.stats.dropped == 0

    def test_kip_34_hears_at_once_of_all_that_changed_in_a_dropped_backlog(self, open_mailbox: Open) -> None:
        listener = Blocking()
        mailbox = open_mailbox(listener, capacity=1)
        old = cluster_of({"orders": [1, 1, 1], "gone": [1]}, brokers=[1, 2])
        mailbox.put(Batch(old, news(1).events))
        assert listener.entered.wait(WAIT_S)
        middle = cluster_of({"orders": [2, 1, 1], "gone": [2]}, brokers=[1, 2], generation=2)
        new = cluster_of({"orders": [2, None, 1]}, brokers=[1, 2], generation=3)
        for before, after in ((old, middle), (middle, new)):
            events = diff(before, after)
            mailbox.put(Batch(after, events, changed_partitions(events)))
        listener.let_go.set()
        assert mailbox.wait_synced(WAIT_S)
        ((cluster, changed),) = listener.changes
        assert cluster is new
        assert {tp: p.leader for tp, p in changed.items()} == {("orders", 0): 2, ("orders", 1): None}
        assert listener.replayed(old) == new


def at(second: int) -> datetime:
    return datetime(2026, 11, 20, 10, 0, second, tzinfo=UTC)


def settled(generation: int, second: int, *sequences: int) -> Batch:
    """A batch that leads to this generation, found by the look that began in this second."""
    return Batch(cluster_of(generation=generation), news(*sequences).events, looked_at=at(second))


class TestSettled:
    """`on_settled`: everything up to this snapshot has been told."""

    @pytest.fixture
    def listener(self) -> Settling:
        listener = Settling()
        listener.let_go.set()
        return listener

    def test_comes_after_the_last_event_of_each_batch(self, open_mailbox: Open, listener: Settling) -> None:
        mailbox = open_mailbox(listener)
        mailbox.put(settled(1, 10, 1, 2))
        mailbox.put(settled(2, 20, 3))
        assert mailbox.wait_synced(WAIT_S)
        assert listener.heard == [1, 2, (1, at(10)), 3, (2, at(20))]
        assert mailbox.stats.delivered == 3, "it is no event"

    def test_comes_after_a_look_without_news_too(self, open_mailbox: Open, listener: Settling) -> None:
        mailbox = open_mailbox(listener)
        mailbox.put(settled(1, 10))
        assert mailbox.wait_synced(WAIT_S)
        assert listener.heard == [(1, at(10))]

    def test_is_enough_for_a_listener_to_be_heard(self, open_mailbox: Open) -> None:
        heard: list[int] = []

        class Saver(PartitionChangeListener):
            def on_settled(self, cluster: Cluster, looked_at: datetime | None) -> None:
                heard.append(cluster.generation)

        mailbox = open_mailbox(Saver())
        assert mailbox.wants_settled
        mailbox.put(settled(7, 10, 1))
        assert mailbox.wait_synced(WAIT_S)
        assert heard == [7]

    def test_one_that_does_not_override_it_does_not_ask_for_it(self, open_mailbox: Open) -> None:
        assert not open_mailbox(RecordingListener()).wants_settled

    def test_looks_without_news_that_wait_become_one(self, open_mailbox: Open) -> None:
        listener = Settling()
        mailbox = open_mailbox(listener, capacity=1)
        mailbox.put(settled(1, 10, 1))
        assert listener.entered.wait(WAIT_S)
        for second in range(11, 30):
            mailbox.put(settled(1, second))
        mailbox.put(settled(2, 30, 2))
        mailbox.put(settled(2, 31))
        listener.let_go.set()
        assert mailbox.wait_synced(WAIT_S)
        assert listener.heard == [1, (1, at(10)), (1, at(29)), 2, (2, at(30)), (2, at(31))]

    def test_a_look_without_news_drops_nobodys_backlog(self, open_mailbox: Open) -> None:
        listener = Settling()
        mailbox = open_mailbox(listener, capacity=1)
        mailbox.put(settled(1, 10, 1))
        assert listener.entered.wait(WAIT_S)
        mailbox.put(settled(2, 20, 2, 3, 4))  # more than the capacity, but nothing waits before it
        mailbox.put(settled(2, 30))
        listener.let_go.set()
        assert mailbox.wait_synced(WAIT_S)
        assert sequences(listener) == [1, 2, 3, 4]
        assert mailbox.stats.dropped == 0

    def test_comes_after_a_resync_with_the_snapshot_that_it_brought(self, open_mailbox: Open) -> None:
        listener = Settling()
        mailbox = open_mailbox(listener, capacity=1)
        mailbox.put(settled(1, 10, 1))
        assert listener.entered.wait(WAIT_S)
        mailbox.put(settled(2, 20, 2))
        mailbox.put(settled(3, 30, 3))
        listener.let_go.set()
        assert mailbox.wait_synced(WAIT_S)
        assert isinstance(listener.events[-1], Resync)
        assert listener.heard[-1] == (3, at(30))
        assert (2, at(20)) not in listener.heard

    def test_one_that_raises_is_counted_and_hears_of_the_next_one(self, open_mailbox: Open) -> None:
        listener = Settling(times_to_fail=1)
        listener.let_go.set()
        mailbox = open_mailbox(listener)
        mailbox.put(settled(1, 10, 1))
        mailbox.put(settled(2, 20, 2))
        assert mailbox.wait_synced(WAIT_S)
        assert listener.heard == [1, 2, (2, at(20))]
        assert (mailbox.stats.delivered, mailbox.stats.failures) == (2, 1)
        assert "the listener's own trouble" in str(mailbox.stats.last_error)

    @pytest.mark.parametrize("events", [(1, 2), (1,)], ids=["before the last event", "during it"])
    def test_is_not_told_after_a_close_that_cuts_the_batch_short(
        self, open_mailbox: Open, events: tuple[int, ...]
    ) -> None:
        listener = Settling()
        mailbox = open_mailbox(listener)
        mailbox.put(settled(1, 10, *events))
        assert listener.entered.wait(WAIT_S)
        mailbox.close()
        listener.let_go.set()
        mailbox.close(wait=WAIT_S)
        assert listener.heard == [1]

    def test_is_told_of_what_a_close_delivers_first(self, open_mailbox: Open) -> None:
        listener = Settling()
        mailbox = open_mailbox(listener)
        mailbox.put(settled(1, 10, 1))
        mailbox.put(settled(2, 20, 2))
        mailbox.close(drain=True)
        listener.let_go.set()
        mailbox.close(wait=WAIT_S)
        assert listener.heard == [1, (1, at(10)), 2, (2, at(20))]


class TestFailures:
    def test_a_listener_that_raises_loses_that_event_only(self, open_mailbox: Open) -> None:
        listener = Failing(times=1)
        mailbox = open_mailbox(listener)
        mailbox.put(news(1, 2, 3))
        assert mailbox.wait_synced(WAIT_S)
        assert sequences(listener) == [2, 3]
        stats = mailbox.stats
        assert (stats.delivered, stats.failures, stats.paused) == (2, 1, False)
        assert "the listener's own trouble" in str(stats.last_error)

    def test_repeated_failures_pause_it_for_a_growing_time(
        self, open_mailbox: Open, clock: ManualClock
    ) -> None:
        listener = Failing(times=FAILURES_BEFORE_PAUSE + 2)
        mailbox = open_mailbox(listener)
        mailbox.put(news(*range(1, 11)))
        for number, pause in enumerate((1.0, 2.0, 4.0)):
            clock.wait_for_waiters()
            assert mailbox.stats.paused
            assert mailbox.stats.failures == FAILURES_BEFORE_PAUSE + number
            clock.advance(pause - 0.01)
            clock.wait_for_waiters()
            assert mailbox.stats.paused
            clock.advance(0.01)
        assert mailbox.wait_synced(WAIT_S)
        assert sequences(listener) == [8, 9, 10]
        assert not mailbox.stats.paused

    def test_a_pause_is_never_longer_than_a_minute(self, open_mailbox: Open, clock: ManualClock) -> None:
        mailbox = open_mailbox(Failing(times=1_000))
        mailbox.put(news(*range(40)))
        for number in range(30):
            clock.wait_for_waiters()
            assert mailbox.stats.failures == FAILURES_BEFORE_PAUSE + number
            clock.advance(60)

    def test_closing_ends_a_pause(self, open_mailbox: Open, clock: ManualClock) -> None:
        listener = Failing(times=FAILURES_BEFORE_PAUSE)
        mailbox = open_mailbox(listener)
        mailbox.put(news(*range(10)))
        clock.wait_for_waiters()
        mailbox.close(wait=WAIT_S)
        assert listener.closed == 1

    def test_one_that_exits_its_thread_ends_its_own_delivery(self, open_mailbox: Open) -> None:
        forgotten: list[Mailbox] = []
        listener = Failing(times=1, error=SystemExit(3))
        mailbox = open_mailbox(listener, on_closed=forgotten.append)
        mailbox.put(news(1, 2))
        assert mailbox.wait_synced(WAIT_S), "nobody waits for what is never delivered"
        mailbox.close(wait=WAIT_S)
        assert listener.events == ()
        assert listener.closed == 1
        assert forgotten
        mailbox.put(news(3))
        assert mailbox.stats.lag == 0

    def test_a_close_that_raises_stays_its_own_affair(self, open_mailbox: Open) -> None:
        class Stubborn(RecordingListener):
            def close(self) -> None:
                super().close()
                raise ZeroDivisionError

        listener = Stubborn()
        mailbox = open_mailbox(listener)
        mailbox.close(wait=WAIT_S)
        mailbox.close(wait=WAIT_S)
        assert listener.closed == 1


class TestClosing:
    def test_nothing_is_handed_over_after_a_close_that_waited(self, open_mailbox: Open) -> None:
        listener = Blocking()
        mailbox = open_mailbox(listener)
        mailbox.put(state([1]))
        assert listener.entered.wait(WAIT_S)
        mailbox.put(state([2], generation=2))
        mailbox.close()
        listener.let_go.set()
        mailbox.close(wait=WAIT_S)
        assert len(listener.events) == 1, "the one that was running"
        assert len(listener.changes) == 1
        assert listener.closed == 1

    def test_draining_delivers_what_is_queued_first(self, open_mailbox: Open) -> None:
        listener = Blocking()
        mailbox = open_mailbox(listener)
        for n in range(1, 6):
            mailbox.put(news(n))
        mailbox.close(drain=True)
        mailbox.put(news(6))
        listener.let_go.set()
        mailbox.close(wait=WAIT_S)
        assert sequences(listener) == [1, 2, 3, 4, 5]

    def test_a_listener_may_close_itself_inside_a_callback(self, open_mailbox: Open) -> None:
        class Leaving(RecordingListener):
            def on_event(self, event: Event) -> None:
                super().on_event(event)
                mailbox.close(wait=WAIT_S)

        listener = Leaving()
        mailbox = open_mailbox(listener)
        mailbox.put(news(1, 2, 3))
        listener.wait_for(1)
        mailbox.close(wait=WAIT_S)
        assert sequences(listener) == [1]
        assert listener.closed == 1

    def test_without_a_worker_close_still_tells_the_listener(self, open_mailbox: Open) -> None:
        listener = RecordingListener()
        open_mailbox(listener).close(wait=WAIT_S)
        assert listener.closed == 1

    def test_as_a_context_manager(self, open_mailbox: Open) -> None:
        listener = RecordingListener()
        with open_mailbox(listener) as mailbox:
            pass
        mailbox.close(wait=WAIT_S)
        assert listener.closed == 1


def test_wait_synced_gives_up_in_time(open_mailbox: Open) -> None:
    listener = Blocking()
    mailbox = open_mailbox(listener)
    mailbox.put(news(1))
    assert not mailbox.wait_synced(0.01)
    listener.let_go.set()
    assert mailbox.wait_synced(WAIT_S)
