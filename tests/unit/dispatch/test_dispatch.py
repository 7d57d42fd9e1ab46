"""One mailbox: what a listener is handed, what does not fit, one that fails, and the end."""

import threading
from typing import ClassVar

import pytest

from kafka_partition_events import DefaultPartitioner, PartitionChangeListener
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.metadata.events import Event, Resync
from kafka_partition_events.metadata.registration import Batch
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import cluster_of
from tests.replay import apply
from tests.unit.dispatch.mail import WAIT_S, Blocking, Failing, Open, news, sequences, state


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


def test_wait_synced_gives_up_in_time(open_mailbox: Open) -> None:
    listener = Blocking()
    mailbox = open_mailbox(listener)
    mailbox.put(news(1))
    assert not mailbox.wait_synced(0.01)
    listener.let_go.set()
    assert mailbox.wait_synced(WAIT_S)


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

    def test_a_resync_that_is_dropped_is_no_lost_event(self, open_mailbox: Open) -> None:
        listener = Blocking()
        mailbox = open_mailbox(listener, capacity=2)
        mailbox.put(news(1))
        assert listener.entered.wait(WAIT_S)
        mailbox.put(news(2, 3))
        mailbox.put(Batch(EMPTY, (Resync(cluster=EMPTY, sequence=4),)))
        assert mailbox.stats.dropped == 2
        listener.let_go.set()

    def test_kip_34_hears_of_all_partitions_in_place_of_a_dropped_backlog(self, open_mailbox: Open) -> None:
        listener = Blocking()
        mailbox = open_mailbox(listener, capacity=1)
        old = cluster_of({"orders": [1, 1, 1], "gone": [1]}, brokers=[1, 2])
        mailbox.put(Batch(old, news(1).events))
        assert listener.entered.wait(WAIT_S)
        middle = cluster_of({"orders": [2, 1, 1], "gone": [2]}, brokers=[1, 2], generation=2)
        new = cluster_of({"orders": [2, None, 1]}, brokers=[1, 2], generation=3)
        for before, after in ((old, middle), (middle, new)):
            mailbox.put(Batch(after, diff(before, after)))
        listener.let_go.set()
        assert mailbox.wait_synced(WAIT_S)
        ((cluster, changed),) = listener.changes
        assert cluster is new
        assert [p.leader for _, p in sorted(changed.items())] == [2, None, 1]
        assert apply(old, listener.events) == new


class TestFailures:
    @pytest.mark.parametrize("error", [ZeroDivisionError("own trouble"), SystemExit(3)])
    def test_a_listener_that_raises_loses_one_event(self, open_mailbox: Open, error: BaseException) -> None:
        listener = Failing(times=1, error=error)
        mailbox = open_mailbox(listener)
        mailbox.put(news(1, 2, 3))
        assert mailbox.wait_synced(WAIT_S)
        assert sequences(listener) == [2, 3]
        stats = mailbox.stats
        assert (stats.delivered, stats.failures) == (2, 1)
        assert stats.last_error == repr(error)

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

    def test_draining_delivers_what_was_queued_just_before(
        self, open_mailbox: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The worker has found nothing, and does not know yet that it is closed."""
        listener, at_once = RecordingListener(), [news(2)]
        mailbox = open_mailbox(listener)
        take = mailbox._take

        def interrupted() -> Batch | None:
            if (batch := take()) is None and at_once:
                mailbox.put(at_once.pop())
                mailbox.close(drain=True)
            return batch

        monkeypatch.setattr(mailbox, "_take", interrupted)
        mailbox.put(news(1))
        assert mailbox._closed.wait(WAIT_S)
        assert sequences(listener) == [1, 2]

    def test_after_it_nothing_is_waited_for(self, open_mailbox: Open) -> None:
        listener = Blocking()
        mailbox = open_mailbox(listener)
        for n in range(1, 4):
            mailbox.put(news(n))
        assert listener.entered.wait(WAIT_S)
        mailbox.close()
        listener.let_go.set()
        mailbox.close(wait=WAIT_S)
        assert mailbox.wait_synced(0.0), "what was dropped is not to be handled any more"


class Audited(PartitionChangeListener):
    """An application's own listener, which is mixed with what it likes."""

    closed = 0

    def close(self) -> None:
        self.closed += 1
        super().close()


class Held(DefaultPartitioner):
    released = False

    def close(self) -> None:
        self.released = True
        super().close()


class TestAPartitionerThatIsAListenerToo:
    def test_is_closed_in_each_of_its_classes_whatever_their_order(self, open_mailbox: Open) -> None:
        class Before(Audited, Held):
            pass

        class After(Held, Audited):
            pass

        for mixed in (Before(), After()):
            open_mailbox(mixed).close(wait=WAIT_S)
            assert (mixed.closed, mixed.released) == (1, True)

    def test_alone_it_costs_no_thread_and_with_a_hook_it_is_told(self, open_mailbox: Open) -> None:
        class Hooked(DefaultPartitioner):
            heard: ClassVar[list[int]] = []

            def on_event(self, event: Event) -> None:
                self.heard.append(event.sequence)

        open_mailbox(DefaultPartitioner()).put(news(1))
        assert not [t for t in threading.enumerate() if t.name.startswith("kpe-listener")]
        mailbox = open_mailbox(Hooked())
        mailbox.put(news(1))
        assert mailbox.wait_synced(WAIT_S)
        assert Hooked.heard == [1]
