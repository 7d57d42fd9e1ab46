"""What happened, counted; and since when partitions are offline."""

from typing import Any

import pytest

from kafka_partition_events import Resync
from kafka_partition_events.events.names import NAMES
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import cluster_of, observe
from tests.poller_kit import BROKERS, orders
from tests.scrape_kit import Watch, Watched

SINCE = "kpe_partition_offline_since_timestamp_seconds"


def test_every_name_of_an_event_is_there_at_0_before_anything_happened(clock: ManualClock) -> None:
    watched = Watched(clock, orders(1, 2))
    names = watched.scrape().by("event", "kpe_events_total")
    assert names == dict.fromkeys(NAMES, 0)
    watched.poller.close()


def test_since_when_a_partition_is_offline_exists_only_while_it_is(watch: Watch, clock: ManualClock) -> None:
    watched = watch(orders(1, 2))
    assert watched.scrape().by("partition", SINCE) == {}
    clock.advance(60)
    moment = clock.now().timestamp()
    watched.poll(orders(1, None))
    clock.advance(5)
    watched.poll(orders(1, None))
    assert watched.scrape().value(SINCE, topic="orders", partition="1") == moment
    watched.poll(orders(1, 3))
    assert watched.scrape().by("partition", SINCE) == {}


def test_beyond_the_limit_those_are_told_that_are_offline_longest(
    watch: Watch, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_partition_events_listeners.prometheus.listener.MAX_OFFLINE_SERIES", 2)
    watched = watch(orders(1, 1, 1, 1))
    leaders: list[int | None] = [1, 1, 1, 1]
    for partition in (2, 0, 3, 1):
        clock.advance(1)
        leaders[partition] = None
        watched.poll(orders(*leaders))
    scrape = watched.scrape()
    assert scrape.by("partition", SINCE).keys() == {"2", "0"}
    assert scrape.value("kpe_metrics_series_suppressed", family=SINCE) == 2
    assert scrape.value("kpe_partitions_offline") == 4


def test_an_outage_that_a_dropped_backlog_hid_is_known_to_have_begun_by_now(
    watch: Watch, clock: ManualClock
) -> None:
    began = clock.now().timestamp()
    topics: dict[str, Any] = {"a": [None, None], "gone": [None], "new": {"id": "A", "partitions": [None]}}
    watched = watch(observe(topics, brokers=BROKERS))
    back: dict[str, Any] = {"a": [None, 2], "new": {"id": "B", "partitions": [1]}}
    for _ in range(3):
        clock.advance(30)
        watched.poll(observe(back, brokers=BROKERS))
    assert watched.scrape().by("topic", SINCE) == {"a": began}
    now = cluster_of({**topics, "new": [None]}, brokers=BROKERS)
    watched.listener.on_event(Resync(cluster=now, dropped=9, wall_time=clock.now()))
    assert watched.listener._since == {
        ("a", 0): began,
        ("a", 1): began + 90,
        ("gone", 0): began + 90,
        ("new", 0): began + 90,
    }
    assert watched.scrape().value("kpe_events_total", event="observer.resync") == 1
