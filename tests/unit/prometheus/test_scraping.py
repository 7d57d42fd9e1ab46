"""Scraping itself: it waits for nobody, fails in parts only, and costs what has changed."""

import threading
from typing import Any

import pytest
from attrs import evolve
from prometheus_client import generate_latest
from prometheus_client.core import DuplicateTimeseries

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.cluster import PartitionInfo
from kafka_partition_events.testing.scripted import cluster_of
from kafka_partition_events_listeners.prometheus.listener import PrometheusListener
from kafka_partition_events_listeners.prometheus.snapshot import tally
from tests.poller_kit import WAIT_S, orders
from tests.scrape_kit import REPLICATED, Watch


def test_two_scrapers_at_once_cost_one_collection(watch: Watch) -> None:
    class Turnstile:
        """A lock that tells who has come to it."""

        def __init__(self) -> None:
            self.lock, self.arrived = threading.Lock(), threading.Semaphore(0)

        def __enter__(self) -> None:
            self.arrived.release()
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()

    watched, turnstile, made = watch(REPLICATED), Turnstile(), []
    watched.listener._building = turnstile  # type: ignore[assignment]

    def scrape() -> None:
        made.append({m.name: m for m in watched.listener.collect()}["kpe_topic_partitions"])

    scrapers = [threading.Thread(target=scrape) for _ in range(2)]
    with turnstile.lock:
        for scraper in scrapers:
            scraper.start()
            assert turnstile.arrived.acquire(timeout=WAIT_S)
    for scraper in scrapers:
        scraper.join(WAIT_S)
    assert len(made) == 2
    assert made[0] is made[1]


def test_a_new_snapshot_is_a_new_collection(watch: Watch) -> None:
    watched = watch(orders(1, 2))
    watched.scrape()
    watched.poll(orders(1, 2, 3))
    assert watched.scrape().value("kpe_partitions") == 3


def test_what_the_last_snapshot_had_too_is_not_counted_again() -> None:
    before = cluster_of({"orders": [1, None], "logs": [1]}, brokers=[1])
    logs = cluster_of({"logs": [None]}).by_topic["logs"]
    orders = before.by_topic["orders"]
    one_less = evolve(orders, partitions=(PartitionInfo("orders", 0, None), *orders.partitions[1:]))
    after = evolve(before, by_topic=[one_less, logs])
    assert tally(after, tally(before)) == tally(after)
    believed = evolve(tally(before), offline={"orders": 100})
    assert tally(after, believed).offline == {"orders": 101, "logs": 1}


def test_a_scrape_does_not_wait_for_the_poller(watch: Watch) -> None:
    watched = watch(orders(1))
    scraper = threading.Thread(target=watched.scrape)
    with watched.poller.subscriptions.locked():
        scraper.start()
        scraper.join(WAIT_S)
        assert not scraper.is_alive()


def test_a_scrape_never_raises(watch: Watch) -> None:
    class Broken:
        @property
        def stats(self) -> Any:
            raise ZeroDivisionError

    broken = Broken()
    watched = watch(orders(1), producers=[broken])
    assert watched.scrape().value("kpe_scrape_errors_total") == 1
    scrape = watched.scrape()
    assert scrape.value("kpe_scrape_errors_total") == 2
    assert scrape.value("kpe_partitions") == 1
    assert scrape.value("kpe_up") == 1


def test_every_family_is_described(watch: Watch) -> None:
    watched = watch(REPLICATED)
    watched.poller.register(DefaultPartitioner())
    described = {(m.name, m.type) for m in watched.listener.describe()}
    assert {(m.name, m.type) for m in watched.listener.collect()} <= described


def test_a_scrape_may_ask_for_some_families_only(watch: Watch) -> None:
    scrape = watch(REPLICATED).scrape("kpe_up", "kpe_events_total")
    assert scrape.names == {"kpe_up", "kpe_events_total"}


def test_the_label_may_be_another(watch: Watch) -> None:
    scrape = watch(REPLICATED, kafka_cluster="prod-eu").scrape()
    assert scrape.value("kpe_partitions", "prod-eu") == 4
    assert scrape.clusters == {"prod-eu"}


def test_one_registry_serves_one_cluster(watch: Watch) -> None:
    watched = watch(orders(1))
    with pytest.raises(DuplicateTimeseries):
        PrometheusListener(watched.poller, registry=watched.registry)


def test_it_ends_with_the_poller(watch: Watch) -> None:
    watched = watch(orders(1))
    watched.poller.close()
    assert generate_latest(watched.registry) == b""
    watched.listener.close()


def test_it_may_have_no_registry(watch: Watch) -> None:
    poller = watch(orders(1)).poller
    listener = PrometheusListener(poller, registry=None)
    assert "kpe_partitions" in {metric.name for metric in listener.collect()}
    listener.close()


def test_a_negative_limit_is_refused(watch: Watch) -> None:
    with pytest.raises(ConfigurationError, match="max_topics"):
        PrometheusListener(watch(orders(1)).poller, registry=None, max_topics=-1)
