"""How looking at the cluster goes: while that fails nothing is told of it, and what failed is counted."""

from kafka_partition_events.metadata.events import Rejection
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import observe
from tests.poller_kit import DOWN, orders
from tests.scrape_kit import Watch


def test_a_failed_poll_withholds_the_cluster_until_there_is_an_answer_again(watch: Watch) -> None:
    watched = watch(orders(1, None))
    before = watched.scrape()
    watched.poll(DOWN)
    blind = watched.scrape()
    assert blind.value("kpe_up") == 0
    for name in before.names - blind.names:
        assert name.startswith(("kpe_", "kafka_"))
    assert not {name for name in blind.names if "partition" in name or "broker" in name}
    assert blind.value("kpe_events_total", event="metadata.unavailable") == 1
    watched.poll(orders(1, None))
    again = watched.scrape()
    assert again.value("kpe_up") == 1
    assert again.names == before.names
    assert again.value("kpe_events_total", event="metadata.recovered") == 1


def test_polls_and_failures_are_counted_for_good(watch: Watch) -> None:
    watched = watch(orders(1))
    watched.poll(DOWN, DOWN, orders(1), DOWN)
    scrape = watched.scrape()
    assert scrape.value("kpe_polls_total") == 5
    assert scrape.value("kpe_poll_failures_total") == 3


def test_a_failed_poll_keeps_the_moment_of_the_last_good_answer(watch: Watch, clock: ManualClock) -> None:
    watched = watch(orders(1))
    moment = clock.now().timestamp()
    clock.advance(45)
    watched.poll(DOWN)
    scrape = watched.scrape()
    assert scrape.value("kpe_last_successful_poll_timestamp_seconds") == moment
    assert scrape.value("kpe_metadata_age_seconds") == 45


def test_a_snapshot_too_old_to_be_trusted_is_withheld_too(watch: Watch, clock: ManualClock) -> None:
    watched = watch(orders(1), poller={"interval": 30})
    clock.advance(301)
    watched.poll(observe({}, brokers=[]))  # an answer, but not one to be believed
    scrape = watched.scrape()
    assert watched.poller.health.failures == 0
    assert scrape.value("kpe_up") == 0
    assert "kpe_partitions" not in scrape.names
    assert scrape.value("kpe_stale_metadata_ignored_total", reason="no_brokers") == 1


def test_what_is_not_believed_is_counted_by_reason_and_every_reason_is_there_at_0(watch: Watch) -> None:
    watched = watch(orders(1))
    refused = watched.scrape().by("reason", "kpe_stale_metadata_ignored_total")
    assert refused == dict.fromkeys(Rejection, 0)
    watched.poll(observe({}, brokers=[]), orders(1, cluster_id="another"), observe({}, brokers=[]))
    refused = watched.scrape().by("reason", "kpe_stale_metadata_ignored_total")
    assert {reason: count for reason, count in refused.items() if count} == {
        "no_brokers": 2,
        "foreign_cluster": 1,
    }
