"""What a scrape shows of a cluster, within limits; and of what happened to it."""

import threading

from kafka_partition_events.metadata.events import Rejection
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import Hang, observe
from tests.poller_kit import BROKERS, DOWN, WAIT_S, orders
from tests.scrape_kit import REPLICATED, Watch


def test_the_cluster_in_numbers(watch: Watch) -> None:
    scrape = watch(REPLICATED).scrape()
    whole = {"up": 1, "brokers": 3, "topics": 2, "partitions": 4}
    some = {"offline": 1, "under_replicated": 2, "not_preferred_leader": 1}
    assert {name: scrape.value(f"kpe_{name}") for name in whole} == whole
    assert {name: scrape.value(f"kpe_partitions_{name}") for name in some} == some


def test_by_broker_with_one_that_is_missing(watch: Watch) -> None:
    scrape = watch(REPLICATED).scrape()
    assert scrape.by("broker", "kpe_broker_leader_partitions") == {"1": 2, "2": 1, "3": 0, "4": 0}
    assert scrape.by("broker", "kpe_broker_replicas") == {"1": 2, "2": 3, "3": 2, "4": 1}
    assert scrape.by("broker", "kpe_broker_offline_replicas") == {"1": 0, "2": 0, "3": 0, "4": 1}


def test_partitions_without_a_safe_alternative_are_counted_again_when_a_topic_changes(watch: Watch) -> None:
    def looked(leader: int) -> Observation:
        return observe({"orders": [1, leader], "logs": [3]}, brokers=[1, 2, 3])

    watched = watch(looked(2), looked(1))
    without = "kpe_partitions_without_safe_alternative"
    assert watched.scrape().by("topic", without) == {"orders": 0, "logs": 1}
    watched.poll()
    assert watched.scrape().by("topic", without) == {"orders": 2, "logs": 1}


def test_a_topic_that_is_gone_leaves_no_series(watch: Watch, clock: ManualClock) -> None:
    both = observe({"orders": [1, None], "logs": [2]}, brokers=BROKERS)
    watched = watch(both)
    gone = observe({"logs": [2]}, brokers=BROKERS)
    for _ in range(4):
        clock.advance(30)
        watched.poll(gone)
    scrape = watched.scrape()
    assert scrape.value("kpe_events_total", event="topic.deleted") == 1
    assert scrape.value("kpe_topics") == 1
    assert scrape.by("topic", "kpe_topic_partitions").keys() == {"logs"}


FIVE = observe({"a": [1], "b": [1, 1, 1], "c": [1, None, None], "d": [1, 1], "e": [None]}, brokers=BROKERS)


def test_beyond_the_limit_topics_that_matter_most_have_series_and_the_rest_has_one(watch: Watch) -> None:
    scrape = watch(FIVE, max_topics=3).scrape()
    assert scrape.by("topic", "kpe_topic_partitions") == {"b": 3, "c": 3, "d": 2, "__other__": 2}
    assert scrape.by("topic", "kpe_topic_partitions_offline") == {"c": 2, "e": 1, "__other__": 0}
    without = scrape.by("topic", "kpe_partitions_without_safe_alternative")
    assert without == {"a": 1, "b": 3, "d": 2, "__other__": 1}


def test_the_sum_is_that_of_the_cluster_whatever_the_limit(watch: Watch) -> None:
    for limit in range(7):
        scrape = watch(FIVE, max_topics=limit).scrape()
        assert sum(scrape.by("topic", "kpe_topic_partitions").values()) == 10
        assert sum(scrape.by("topic", "kpe_topic_partitions_offline").values()) == 3


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


def test_a_snapshot_too_old_to_be_trusted_is_withheld_too(watch: Watch, clock: ManualClock) -> None:
    watched = watch(orders(1), poller={"interval": 30})
    clock.advance(301)
    watched.poll(observe({}, brokers=[]))  # an answer, but not one to be believed
    scrape = watched.scrape()
    assert watched.poller.health.failures == 0
    assert scrape.value("kpe_up") == 0
    assert "kpe_partitions" not in scrape.names
    assert scrape.value("kpe_stale_metadata_ignored_total", reason="no_brokers") == 1


def test_it_is_down_while_every_answer_is_refused_and_not_while_a_poll_is_under_way(
    watch: Watch, clock: ManualClock
) -> None:
    watched = watch(orders(1), poller={"interval": 30})
    clock.advance(30)
    watched.poll(orders(1))
    assert watched.scrape().value("kpe_up") == 1
    clock.advance(30)
    hang = Hang(orders(1, cluster_id="another"))
    watched.source.then(hang)
    polling = threading.Thread(target=watched.poll)
    polling.start()
    hang.wait_entered()
    assert watched.scrape().value("kpe_up") == 1, "the answer before was a good one"
    hang.release()
    polling.join(WAIT_S)
    assert watched.poller.health.failures == 0
    scrape = watched.scrape()
    assert (scrape.value("kpe_up"), "kpe_partitions" in scrape.names) == (0, False)
    clock.advance(1)
    watched.poll(orders(1))
    assert watched.scrape().value("kpe_up") == 1


def test_what_is_not_believed_is_counted_by_reason_and_every_reason_is_there_at_0(watch: Watch) -> None:
    watched = watch(orders(1))
    refused = watched.scrape().by("reason", "kpe_stale_metadata_ignored_total")
    assert refused == dict.fromkeys(Rejection, 0)
    watched.poll(observe({}, brokers=[]), orders(1, cluster_id="another"), observe({}, brokers=[]))
    refused = watched.scrape().by("reason", "kpe_stale_metadata_ignored_total")
    counted = {reason: count for reason, count in refused.items() if count}
    assert counted == {"no_brokers": 2, "foreign_cluster": 1}
