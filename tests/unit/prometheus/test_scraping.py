"""Scraping itself waits for nobody and fails in parts only; what a process's own parts do, and take."""

import gc
import threading
from typing import Any

import pytest
from attrs import frozen
from prometheus_client import generate_latest
from prometheus_client.core import DuplicateTimeseries

from kafka_partition_events import (
    BufferBudget,
    DefaultPartitioner,
    Event,
    Observation,
    PartitionChangeListener,
)
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.names import NAMES
from kafka_partition_events.testing import ManualClock, RecordingListener, ScriptedSource
from kafka_partition_events_listeners.prometheus.listener import PrometheusListener
from tests.poller_kit import DOWN, WAIT_S, orders
from tests.scrape_kit import REPLICATED, Watch, Watched


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


def test_one_registry_serves_one_cluster(watch: Watch) -> None:
    watched = watch(orders(1))
    with pytest.raises(DuplicateTimeseries):
        PrometheusListener(watched.poller, registry=watched.registry)


def test_it_ends_with_the_poller(watch: Watch) -> None:
    watched = watch(orders(1))
    watched.poller.close()
    assert generate_latest(watched.registry) == b""
    watched.listener.close()


def test_a_negative_limit_is_refused(watch: Watch) -> None:
    with pytest.raises(ConfigurationError, match="max_topics"):
        PrometheusListener(watch(orders(1)).poller, registry=None, max_topics=-1)


def test_listeners_of_one_name_are_added_up(watch: Watch) -> None:
    class Failing(PartitionChangeListener):
        name = "theirs"

        def on_event(self, event: Event) -> None:
            raise ZeroDivisionError

    watched = watch(orders(1))
    listeners = RecordingListener("theirs"), Failing()
    registrations = [watched.poller.register(listener, replay=False) for listener in listeners]
    watched.poll(DOWN)
    assert all(registration.wait_synced(WAIT_S) for registration in registrations)
    scrape = watched.scrape()
    assert scrape.value("kpe_listener_events_total", listener="theirs") == 1
    assert scrape.value("kpe_listener_errors_total", listener="theirs") == 1
    assert scrape.value("kpe_listener_duration_seconds_count", listener="theirs") == 2
    assert scrape.value("kpe_listener_events_waiting", listener="theirs") == 0
    assert scrape.value("kpe_listener_events_total", listener="PrometheusListener") == 5


def test_where_partitioners_send_unkeyed_records_and_the_worst_of_them(watch: Watch) -> None:
    def told(watched: Watched) -> list[float | None]:
        names = ("usable_partitions", "capped_partitions")
        return [watched.scrape().value(f"kpe_partitioner_{name}", topic="orders") for name in names]

    watched = watch(orders(1, None, 3, 1))
    assert "kpe_partitioner_usable_partitions" not in watched.scrape().names
    watched.poller.register(DefaultPartitioner())
    assert told(watched) == [3, 0]
    assert watched.scrape().value("kpe_partitioner_suspect_brokers") == 0
    capped = BufferBudget(max_partitions={"orders": 1}, instance_id="i")
    watched.poller.register(DefaultPartitioner(budget=capped))
    assert told(watched) == [1, 3]


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
    assert scrape.by("reason", "kpe_partitioner_reroutes_total") == {"offline": 6, "suspect": 4, "capped": 2}
    del second
    gc.collect()
    assert watched.scrape().value("kpe_partitioner_reroutes_total", reason="offline") == 3
    del first
    gc.collect()
    assert "kpe_partitioner_reroutes_total" not in watched.scrape().names


POLLS = "kpe_poll_duration_seconds"
LISTENERS = "kpe_listener_duration_seconds"
NOTHING_YET: tuple[dict[str, float], float] = ({}, 0)


class SlowSource(ScriptedSource):
    """Takes its time for an answer."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock, self.seconds = clock, 0.0

    def fetch(self, topics: frozenset[str] | None, /, *, timeout: float) -> Observation:
        self.clock.advance(self.seconds)
        return super().fetch(topics, timeout=timeout)


class SlowListener(PartitionChangeListener):
    """Takes its time for each event."""

    name = "slow"

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock

    def on_event(self, event: Event) -> None:
        self.clock.advance(0.02)


def test_all_are_there_at_0_before_anything_has_happened(clock: ManualClock) -> None:
    watched = Watched(clock, orders(1), kafka_cluster="test")
    scrape = watched.scrape()
    assert scrape.histogram(POLLS) == NOTHING_YET
    assert scrape.histogram(LISTENERS, listener="PrometheusListener") == NOTHING_YET
    assert scrape.by("event", "kpe_events_total") == dict.fromkeys(NAMES, 0)
    watched.poller.close()


def test_a_poll_takes_until_there_is_an_answer_or_none(clock: ManualClock) -> None:
    source = SlowSource(clock)
    watched = Watched(clock, source=source, kafka_cluster="test")
    for source.seconds, step in ((0.02, orders(1)), (0.025, orders(1)), (4.0, DOWN), (60.0, DOWN)):
        watched.poll(step)
    buckets, total = watched.scrape().histogram(POLLS)
    assert buckets == {"0.03": 2, "10.0": 1, "+Inf": 1}
    assert total == pytest.approx(64.045)
    watched.poller.close()


def test_a_listener_takes_as_long_as_for_all_that_one_change_told(watch: Watch, clock: ManualClock) -> None:
    watched = watch(orders(1, 1))
    registration = watched.poller.register(SlowListener(clock), replay=False)
    assert watched.scrape().histogram(LISTENERS, listener="slow") == NOTHING_YET
    for answer in (orders(None, None), DOWN):
        watched.poll(answer)
        assert registration.wait_synced(WAIT_S)
    buckets, total = watched.scrape().histogram(LISTENERS, listener="slow")
    assert buckets == {"0.1": 1, "0.03": 1}
    assert total == pytest.approx(0.06)
