"""What a process's own listeners, partitioners and producers do."""

import gc

from attrs import frozen

from kafka_partition_events import BufferBudget, DefaultPartitioner, Event, PartitionChangeListener
from kafka_partition_events.testing import RecordingListener
from tests.poller_kit import DOWN, WAIT_S, orders
from tests.scrape_kit import Watch


def test_listeners_of_one_name_are_added_up(watch: Watch) -> None:
    class Failing(PartitionChangeListener):
        name = "theirs"

        def on_event(self, event: Event) -> None:
            raise ZeroDivisionError

    watched = watch(orders(1))
    registrations = [
        watched.poller.register(listener, replay=False)
        for listener in (RecordingListener("theirs"), Failing())
    ]
    watched.poll(DOWN)
    assert all(registration.wait_synced(WAIT_S) for registration in registrations)
    scrape = watched.scrape()
    assert scrape.value("kpe_listener_events_total", listener="theirs") == 1
    assert scrape.value("kpe_listener_errors_total", listener="theirs") == 1
    assert scrape.value("kpe_listener_duration_seconds_count", listener="theirs") == 2
    assert scrape.value("kpe_listener_events_waiting", listener="theirs") == 0
    assert scrape.value("kpe_listener_paused", listener="theirs") == 0
    assert scrape.value("kpe_listener_events_total", listener="PrometheusListener") == 5


def test_where_a_partitioner_sends_unkeyed_records(watch: Watch) -> None:
    watched = watch(orders(1, None, 3, 1))
    assert "kpe_partitioner_usable_partitions" not in watched.scrape().names
    watched.poller.register(DefaultPartitioner())
    scrape = watched.scrape()
    assert scrape.value("kpe_partitioner_usable_partitions", topic="orders") == 3
    assert scrape.value("kpe_partitioner_capped_partitions", topic="orders") == 0
    assert scrape.value("kpe_partitioner_suspect_brokers") == 0


def test_the_worst_partitioner_is_told(watch: Watch) -> None:
    watched = watch(orders(1, 2, 3, 1))
    watched.poller.register(DefaultPartitioner())
    watched.poller.register(
        DefaultPartitioner(budget=BufferBudget(max_partitions={"orders": 1}, instance_id="i"))
    )
    scrape = watched.scrape()
    assert scrape.value("kpe_partitioner_usable_partitions", topic="orders") == 1
    assert scrape.value("kpe_partitioner_capped_partitions", topic="orders") == 3


def test_a_producers_reroutes_for_as_long_as_it_lives(watch: Watch) -> None:
    @frozen
    class Counts:
        rerouted: int
        avoided: int
        capped: int

    class Producer:
        stats = Counts(3, 2, 1)

    first, second = Producer(), Producer()
    watched = watch(orders(1), producers=[first, second])
    scrape = watched.scrape()
    assert scrape.by("reason", "kpe_partitioner_reroutes_total") == {
        "offline": 6,
        "suspect": 4,
        "capped": 2,
    }
    del second
    gc.collect()
    assert watched.scrape().value("kpe_partitioner_reroutes_total", reason="offline") == 3
    del first
    gc.collect()
    assert "kpe_partitioner_reroutes_total" not in watched.scrape().names
