"""Limits on series: what matters most has series of its own, the rest is added up, and that is told."""

from kafka_partition_events.testing.scripted import observe
from tests.poller_kit import BROKERS
from tests.scrape_kit import Watch

FIVE = observe({"a": [1], "b": [1, 1, 1], "c": [1, None, None], "d": [1, 1], "e": [None]}, brokers=BROKERS)


def test_beyond_the_limit_topics_that_matter_most_have_series_and_the_rest_has_one(watch: Watch) -> None:
    scrape = watch(FIVE, max_topics=3).scrape()
    assert scrape.by("topic", "kpe_topic_partitions") == {"b": 3, "c": 3, "d": 2, "__other__": 2}
    assert scrape.by("topic", "kpe_topic_partitions_offline") == {"c": 2, "e": 1, "__other__": 0}
    without = scrape.by("topic", "kpe_partitions_without_safe_alternative")
    assert without == {"a": 1, "b": 3, "d": 2, "__other__": 1}
    suppressed = scrape.by("family", "kpe_metrics_series_suppressed")
    assert suppressed["kpe_topic_partitions"] == 2
    assert suppressed["kpe_topic_partitions_offline"] == 3


def test_the_sum_is_that_of_the_cluster_whatever_the_limit(watch: Watch) -> None:
    for limit in range(7):
        scrape = watch(FIVE, max_topics=limit).scrape()
        assert sum(scrape.by("topic", "kpe_topic_partitions").values()) == 10
        assert sum(scrape.by("topic", "kpe_topic_partitions_offline").values()) == 3


def test_nothing_is_suppressed_within_the_limits(watch: Watch) -> None:
    scrape = watch(FIVE).scrape()
    suppressed = scrape.by("family", "kpe_metrics_series_suppressed")
    assert set(suppressed.values()) == {0}
    assert {"kpe_topic_partitions", "kpe_topic_partitions_offline"} < suppressed.keys()
