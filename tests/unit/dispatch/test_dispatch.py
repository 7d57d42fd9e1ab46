"""One mailbox: what a listener is handed, and what becomes of a backlog that does not fit."""

import threading

from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.metadata.events import Event, Resync
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.registration import Batch
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import cluster_of
from tests.unit.dispatch.mail import WAIT_S, Blocking, Open, news, sequences, state


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

    def test_a_batch_of_any_size_fits_an_empty_mailbox(self, open_mailbox: Open) -> None:
        listener = RecordingListener()
        mailbox = open_mailbox(listener, capacity=1)
        mailbox.put(news(*range(1, 501)))
        assert mailbox.wait_synced(WAIT_S)
        assert len(listener.events) == 500
        assert mailbox.stats.dropped == 0

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
        assert listener.replayed(old) == new
