"""The cluster as a scrape shows it: in numbers, by broker, by topic, by partition."""

import pytest

from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import observe
from tests.poller_kit import BROKERS, orders
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


def test_without_a_partition_nothing_is_skewed(watch: Watch) -> None:
    scrape = watch(observe({}, brokers=BROKERS)).scrape()
    assert scrape.value("kpe_leader_skew_ratio") == scrape.value("kpe_replica_skew_ratio") == 0


def test_by_topic(watch: Watch) -> None:
    scrape = watch(REPLICATED).scrape()
    assert scrape.by("topic", "kpe_topic_partitions") == {"orders": 3, "logs": 1}
    assert scrape.by("topic", "kpe_topic_partitions_offline") == {"orders": 1, "logs": 0}
    assert "kpe_partition_leader" not in scrape.names


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


def test_topics_are_left_out_if_not_wanted(watch: Watch) -> None:
    scrape = watch(REPLICATED, granularity="cluster").scrape()
    assert scrape.value("kpe_partitions") == 4
    assert "kpe_topic_partitions" not in scrape.names


def test_no_leader_is_a_value_and_no_absence(watch: Watch) -> None:
    scrape = watch(orders(1, None, 3), granularity="partition").scrape()
    assert scrape.by("partition", "kpe_partition_leader") == {"0": 1, "1": -1, "2": 3}


def test_by_partition(watch: Watch) -> None:
    scrape = watch(REPLICATED, granularity="partition").scrape()
    assert scrape.value("kpe_partition_replicas", topic="orders", partition="1") == 2
    assert scrape.value("kpe_partition_in_sync_replicas", topic="orders", partition="1") == 1


def test_a_topic_that_is_gone_leaves_no_series(watch: Watch, clock: ManualClock) -> None:
    both = observe({"orders": [1, None], "logs": [2]}, brokers=BROKERS)
    watched = watch(both, granularity="partition", compat="kafka_exporter")
    assert watched.scrape().by("partition", "kpe_partition_offline_since_timestamp_seconds").keys() == {"1"}
    gone = observe({"logs": [2]}, brokers=BROKERS)
    for _ in range(4):
        clock.advance(30)
        watched.poll(gone)
    scrape = watched.scrape()
    assert scrape.value("kpe_events_total", event="topic.deleted") == 1
    assert scrape.value("kpe_topics") == 1
    for name in scrape.names & {"kpe_topic_partitions", "kpe_partition_leader", "kafka_topic_partitions"}:
        assert scrape.by("topic", name).keys() == {"logs"}
    assert not scrape.by("topic", "kpe_partition_offline_since_timestamp_seconds")


def test_a_topic_made_anew_with_fewer_partitions_leaves_no_series_of_the_old_one(watch: Watch) -> None:
    watched = watch(observe({"orders": {"id": "A", "partitions": [1, 2, None]}}), granularity="partition")
    watched.poll(observe({"orders": {"id": "B", "partitions": [1]}}))
    scrape = watched.scrape()
    assert scrape.by("partition", "kpe_partition_leader") == {"0": 1}
    assert not scrape.by("partition", "kpe_partition_offline_since_timestamp_seconds")


def test_names_of_kafka_exporter(watch: Watch) -> None:
    scrape = watch(REPLICATED, compat="kafka_exporter").scrape()
    of = {"topic": "orders", "partition": "1"}
    found = {name: scrape.value(name, **of) for name in scrape.names if name.startswith("kafka_topic_p")}
    assert found == {
        "kafka_topic_partitions": None,
        "kafka_topic_partition_leader": 2,
        "kafka_topic_partition_replicas": 2,
        "kafka_topic_partition_in_sync_replica": 1,
        "kafka_topic_partition_leader_is_preferred": 0,
        "kafka_topic_partition_under_replicated_partition": 1,
    }
    assert scrape.value("kafka_topic_partition_leader", topic="orders", partition="2") == -1
    assert scrape.value("kafka_topic_partitions", topic="orders") == 3
    assert scrape.value("kafka_brokers") == 3
    assert scrape.value("kafka_broker_info", id="2", address="broker-2:9092") == 1
