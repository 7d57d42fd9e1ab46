"""The cluster as a scrape shows it: in numbers, by broker, by topic."""

import pytest

from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import observe
from tests.poller_kit import BROKERS
from tests.scrape_kit import REPLICATED, Watch


def test_the_cluster_in_numbers(watch: Watch) -> None:
    scrape = watch(REPLICATED).scrape()
    numbers = {
        name: scrape.value(f"kpe_{name}")
        for name in (
            "up", "brokers", "topics", "partitions", "partitions_offline",
            "partitions_under_replicated", "partitions_not_preferred_leader",
        )
    }  # fmt: skip
    assert numbers == {
        "up": 1,
        "brokers": 3,
        "topics": 2,
        "partitions": 4,
        "partitions_offline": 1,
        "partitions_under_replicated": 2,
        "partitions_not_preferred_leader": 1,
    }


def test_by_broker_with_one_that_is_missing(watch: Watch) -> None:
    scrape = watch(REPLICATED).scrape()
    assert scrape.by("broker", "kpe_broker_leader_partitions") == {"1": 2, "2": 1, "3": 0, "4": 0}
    assert scrape.by("broker", "kpe_broker_replicas") == {"1": 2, "2": 3, "3": 2, "4": 1}
    assert scrape.by("broker", "kpe_broker_offline_replicas") == {"1": 0, "2": 0, "3": 0, "4": 1}
    assert scrape.value("kpe_leader_skew_ratio") == pytest.approx(2 / 1 - 1)
    assert scrape.value("kpe_replica_skew_ratio") == pytest.approx(3 / (7 / 3) - 1)


def test_partitions_without_a_safe_alternative_are_counted_again_when_their_topic_changes(
    watch: Watch,
) -> None:
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
    assert watched.scrape().by("partition", "kpe_partition_offline_since_timestamp_seconds").keys() == {"1"}
    gone = observe({"logs": [2]}, brokers=BROKERS)
    for _ in range(4):
        clock.advance(30)
        watched.poll(gone)
    scrape = watched.scrape()
    assert scrape.value("kpe_events_total", event="topic.deleted") == 1
    assert scrape.value("kpe_topics") == 1
    assert scrape.by("topic", "kpe_topic_partitions").keys() == {"logs"}
    assert not scrape.by("topic", "kpe_partition_offline_since_timestamp_seconds")
