"""Metrics: what a scrape shows of a cluster, of a poller and of a process, and what it never does."""

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import frozen
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import DuplicateTimeseries
from prometheus_client.parser import text_string_to_metric_families

from kafka_partition_events import (
    BufferBudget,
    DefaultPartitioner,
    Event,
    MetadataFetchError,
    MetadataPoller,
    PartitionChangeListener,
    PartitionOffline,
    PartitionOnline,
    Resync,
)
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing import ManualClock, RecordingListener, ScriptedSource
from kafka_partition_events.testing.scripted import Step, cluster_of, observe
from kafka_partition_events_listeners.prometheus_listener import PrometheusListener
from kafka_partition_events_listeners.vocabulary import NAMES

WAIT_S = 10.0
DOWN = MetadataFetchError("down")
BROKERS = [1, 2, 3]


class Scrape:
    """One exposition as Prometheus reads it: no series is in it twice."""

    def __init__(self, registry: Any) -> None:
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(generate_latest(registry).decode()):
            for sample in family.samples:
                series = sample.name, frozenset(sample.labels.items())
                assert series not in self._values, f"{series} is there twice"
                self._values[series] = sample.value

    def value(self, name: str, kafka_cluster: str = "test", **labels: str) -> float | None:
        return self._values.get((name, frozenset({"kafka_cluster": kafka_cluster, **labels}.items())))

    def by(self, label: str, name: str) -> dict[str, float]:
        """Return the values of a family by one of its labels."""
        return {dict(labels)[label]: value for (n, labels), value in self._values.items() if n == name}

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self._values}

    @property
    def clusters(self) -> set[str | None]:
        return {dict(labels).get("kafka_cluster") for _, labels in self._values}


class Watched:
    """A poller that follows a script, exposed."""

    def __init__(self, clock: ManualClock, *script: Step, poller: Any = None, **options: Any) -> None:
        self.clock = clock
        self.source = ScriptedSource(*script)
        self.poller = MetadataPoller(self.source, clock=clock, **(poller or {}))
        self.registry = CollectorRegistry(auto_describe=True)
        self.listener = PrometheusListener(self.poller, registry=self.registry, clock=clock, **options)
        self.registration = self.poller.register(self.listener)

    def poll(self, *steps: Step) -> None:
        """Look at the cluster, once or once for each further step, and let the listener hear of it."""
        self.source.then(*steps)
        for _ in steps or (None,):
            self.poller.poll_once()
            assert self.registration.wait_synced(WAIT_S)

    def scrape(self, *names: str) -> Scrape:
        return Scrape(self.registry.restricted_registry(names) if names else self.registry)


Watch = Callable[..., Watched]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(start=1_000.0)


@pytest.fixture
def watch(clock: ManualClock) -> Iterator[Watch]:
    """Watch a script: its first step has been polled when this returns."""
    watched: list[Watched] = []

    def make(*script: Step, **options: Any) -> Watched:
        watched.append(Watched(clock, *script, **options))
        watched[-1].poll()
        return watched[-1]

    yield make
    for each in watched:
        each.poller.close()


def orders(*leaders: int | None, brokers: list[int] | None = None) -> Observation:
    return observe({"orders": leaders}, brokers=brokers or BROKERS)


REPLICATED = observe(
    {
        "orders": [
            {"leader": 1, "replicas": [1, 2], "isr": [1, 2]},
            {"leader": 2, "replicas": [3, 2], "isr": [2]},
            {"leader": None, "replicas": [4, 3], "isr": []},
        ],
        "logs": [{"leader": 1, "replicas": [1, 2], "isr": [2, 1]}],
    },
    brokers=BROKERS,
)


class TestTheCluster:
    def test_in_numbers(self, watch: Watch) -> None:
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

    def test_by_broker_with_one_that_is_missing(self, watch: Watch) -> None:
        scrape = watch(REPLICATED).scrape()
        assert scrape.by("broker", "kpe_broker_leader_partitions") == {"1": 2, "2": 1, "3": 0, "4": 0}
        assert scrape.by("broker", "kpe_broker_replicas") == {"1": 2, "2": 3, "3": 2, "4": 1}
        assert scrape.by("broker", "kpe_broker_offline_replicas") == {"1": 0, "2": 0, "3": 0, "4": 1}
        assert scrape.value("kpe_leader_skew_ratio") == pytest.approx(2 / 1 - 1)
        assert scrape.value("kpe_replica_skew_ratio") == pytest.approx(3 / (7 / 3) - 1)

    def test_without_a_partition_nothing_is_skewed(self, watch: Watch) -> None:
        scrape = watch(observe({}, brokers=BROKERS)).scrape()
        assert scrape.value("kpe_leader_skew_ratio") == scrape.value("kpe_replica_skew_ratio") == 0

    def test_by_topic(self, watch: Watch) -> None:
        scrape = watch(REPLICATED).scrape()
        assert scrape.by("topic", "kpe_topic_partitions") == {"orders": 3, "logs": 1}
        assert scrape.by("topic", "kpe_topic_partitions_offline") == {"orders": 1, "logs": 0}
        assert "kpe_partition_leader" not in scrape.names

    def test_without_topics_if_not_wanted(self, watch: Watch) -> None:
        scrape = watch(REPLICATED, granularity="cluster").scrape()
        assert scrape.value("kpe_partitions") == 4
        assert "kpe_topic_partitions" not in scrape.names

    def test_no_leader_is_a_value_and_no_absence(self, watch: Watch) -> None:
        scrape = watch(orders(1, None, 3), granularity="partition").scrape()
        assert scrape.by("partition", "kpe_partition_leader") == {"0": 1, "1": -1, "2": 3}

    def test_by_partition(self, watch: Watch) -> None:
        scrape = watch(REPLICATED, granularity="partition").scrape()
        assert scrape.value("kpe_partition_replicas", topic="orders", partition="1") == 2
        assert scrape.value("kpe_partition_in_sync_replicas", topic="orders", partition="1") == 1

    def test_a_topic_that_is_gone_leaves_no_series(self, watch: Watch, clock: ManualClock) -> None:
        both = observe({"orders": [1, None], "logs": [2]}, brokers=BROKERS)
        watched = watch(both, granularity="partition", compat="kafka_exporter")
        assert watched.scrape().by("partition", "kpe_partition_offline_since_timestamp_seconds").keys() == {
            "1"
        }
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

    def test_a_topic_made_anew_with_fewer_partitions_leaves_no_series_of_the_old_one(
        self, watch: Watch
    ) -> None:
        watched = watch(observe({"orders": {"id": "A", "partitions": [1, 2, None]}}), granularity="partition")
        watched.poll(observe({"orders": {"id": "B", "partitions": [1]}}))
        scrape = watched.scrape()
        assert scrape.by("partition", "kpe_partition_leader") == {"0": 1}
        assert not scrape.by("partition", "kpe_partition_offline_since_timestamp_seconds")

    def test_names_of_kafka_exporter(self, watch: Watch) -> None:
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


class TestEvents:
    def test_every_name_is_there_at_0_before_anything_happened(self, clock: ManualClock) -> None:
        watched = Watched(clock, orders(1, 2))
        names = watched.scrape().by("event", "kpe_events_total")
        assert names == dict.fromkeys(NAMES, 0)
        watched.poller.close()

    def test_the_state_at_the_start_is_no_event(self, watch: Watch) -> None:
        scrape = watch(orders(1, None)).scrape()
        assert set(scrape.by("event", "kpe_events_total").values()) == {0}

    def test_changes_are_counted(self, watch: Watch) -> None:
        watched = watch(orders(1, 2))
        watched.poll(orders(1, None), orders(1, 3), orders(1, None))
        counts = watched.scrape().by("event", "kpe_events_total")
        assert {name: n for name, n in counts.items() if n} == {"partition.offline": 2, "partition.online": 1}

    def test_an_event_of_the_applications_own_is_counted_under_its_kind(self, watch: Watch) -> None:
        class Deployed(Event):
            kind = "app_deployed"

        watched = watch(orders(1))
        watched.poller.emit(Deployed())
        assert watched.registration.wait_synced(WAIT_S)
        assert watched.scrape().value("kpe_events_total", event="app.deployed") == 1


class TestOffline:
    SINCE = "kpe_partition_offline_since_timestamp_seconds"

    def test_since_when_exists_only_while_it_lasts(self, watch: Watch, clock: ManualClock) -> None:
        watched = watch(orders(1, 2))
        assert watched.scrape().by("partition", self.SINCE) == {}
        clock.advance(60)
        moment = clock.now().timestamp()
        watched.poll(orders(1, None))
        clock.advance(5)
        watched.poll(orders(1, None))
        assert watched.scrape().value(self.SINCE, topic="orders", partition="1") == moment
        watched.poll(orders(1, 3))
        assert watched.scrape().by("partition", self.SINCE) == {}

    def test_beyond_the_limit_the_oldest_are_told(self, watch: Watch, clock: ManualClock) -> None:
        watched = watch(orders(1, 1, 1, 1), max_offline_series=2)
        leaders: list[int | None] = [1, 1, 1, 1]
        for partition in (2, 0, 3, 1):
            clock.advance(1)
            leaders[partition] = None
            watched.poll(orders(*leaders))
        scrape = watched.scrape()
        assert scrape.by("partition", self.SINCE).keys() == {"2", "0"}
        assert scrape.value("kpe_metrics_series_suppressed", family=self.SINCE) == 2
        assert scrape.value("kpe_partitions_offline") == 4

    def test_what_a_dropped_backlog_hid_is_known_to_have_begun_by_now(
        self, watch: Watch, clock: ManualClock
    ) -> None:
        began = clock.now().timestamp()
        topics: dict[str, Any] = {"a": [None, None], "gone": [None], "new": {"id": "A", "partitions": [None]}}
        watched = watch(observe(topics, brokers=BROKERS))
        back: dict[str, Any] = {"a": [None, 2], "new": {"id": "B", "partitions": [1]}}
        for _ in range(3):
            clock.advance(30)
            watched.poll(observe(back, brokers=BROKERS))
        assert watched.scrape().by("topic", self.SINCE) == {"a": began}
        now = cluster_of({**topics, "new": [None]}, brokers=BROKERS)
        watched.listener.on_event(Resync(cluster=now, dropped=9, wall_time=clock.now()))
        assert watched.listener._since == {
            ("a", 0): began,
            ("a", 1): began + 90,
            ("gone", 0): began + 90,
            ("new", 0): began + 90,
        }
        assert watched.scrape().value("kpe_events_total", event="observer.resync") == 1

    def test_what_the_snapshot_knows_better_is_left_out(self, watch: Watch) -> None:
        watched = watch(orders(1, None))
        poller = watched.poller
        watched.source.then(orders(1, 2))
        events = poller.poll_once()
        assert watched.registration.wait_synced(WAIT_S)
        (back,) = events
        assert isinstance(back, PartitionOnline)
        watched.listener.on_event(PartitionOffline(topic="orders", partition=1, old=back.new, new=back.old))
        assert watched.scrape().by("partition", self.SINCE) == {}


class TestAFailedPoll:
    def test_withholds_the_cluster_until_there_is_an_answer_again(self, watch: Watch) -> None:
        watched = watch(orders(1, None), granularity="partition", compat="kafka_exporter")
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

    def test_is_counted_for_good(self, watch: Watch) -> None:
        watched = watch(orders(1))
        watched.poll(DOWN, DOWN, orders(1), DOWN)
        scrape = watched.scrape()
        assert scrape.value("kpe_polls_total") == 5
        assert scrape.value("kpe_poll_failures_total") == 3

    def test_keeps_the_moment_of_the_last_good_answer(self, watch: Watch, clock: ManualClock) -> None:
        watched = watch(orders(1))
        moment = clock.now().timestamp()
        clock.advance(45)
        watched.poll(DOWN)
        scrape = watched.scrape()
        assert scrape.value("kpe_last_successful_poll_timestamp_seconds") == moment
        assert scrape.value("kpe_metadata_age_seconds") == 45

    def test_before_the_first_answer_the_cluster_has_no_name_yet(self, watch: Watch) -> None:
        watched = watch(DOWN)
        blind = watched.scrape()
        assert blind.clusters == {"unknown"}
        assert blind.value("kpe_up", "unknown") == 0
        assert "kpe_last_successful_poll_timestamp_seconds" not in blind.names
        watched.poll(orders(1))
        assert watched.scrape().clusters == {"test"}

    def test_a_snapshot_too_old_to_be_trusted_is_withheld_too(self, watch: Watch, clock: ManualClock) -> None:
        watched = watch(orders(1), poller={"interval": 30, "max_age": 60})
        clock.advance(61)
        watched.poll(observe({}, brokers=[]))  # an answer, but not one to be believed
        scrape = watched.scrape()
        assert watched.poller.health.failures == 0
        assert scrape.value("kpe_up") == 0
        assert "kpe_partitions" not in scrape.names
        assert scrape.value("kpe_stale_metadata_ignored_total") == 1


class TestLimits:
    FIVE = observe(
        {"a": [1], "b": [1, 1, 1], "c": [1, None, None], "d": [1, 1], "e": [None]}, brokers=BROKERS
    )

    def test_beyond_them_topics_that_matter_most_have_series_and_the_rest_has_one(self, watch: Watch) -> None:
        scrape = watch(self.FIVE, max_topics=3).scrape()
        assert scrape.by("topic", "kpe_topic_partitions") == {"b": 3, "c": 3, "d": 2, "__other__": 2}
        assert scrape.by("topic", "kpe_topic_partitions_offline") == {"c": 2, "e": 1, "__other__": 0}
        suppressed = scrape.by("family", "kpe_metrics_series_suppressed")
        assert suppressed["kpe_topic_partitions"] == 2
        assert suppressed["kpe_topic_partitions_offline"] == 3

    def test_the_sum_is_that_of_the_cluster_whatever_the_limit(self, watch: Watch) -> None:
        for limit in range(7):
            scrape = watch(self.FIVE, max_topics=limit).scrape()
            assert sum(scrape.by("topic", "kpe_topic_partitions").values()) == 10
            assert sum(scrape.by("topic", "kpe_topic_partitions_offline").values()) == 3

    def test_a_topic_may_have_the_name_of_the_rest(self, watch: Watch) -> None:
        scrape = watch(observe({"__other__": [1, 1], "a": [1], "b": [1]}), max_topics=1).scrape()
        assert scrape.by("topic", "kpe_topic_partitions") == {"__other__": 4}

    def test_nothing_is_suppressed_within_them(self, watch: Watch) -> None:
        scrape = watch(self.FIVE, granularity="partition", compat="kafka_exporter").scrape()
        suppressed = scrape.by("family", "kpe_metrics_series_suppressed")
        assert set(suppressed.values()) == {0}
        assert {"kpe_partition_leader", "kafka_topic_partition_leader"} < suppressed.keys()

    def test_single_partitions_of_a_large_cluster_are_refused(self, watch: Watch) -> None:
        options: dict[str, Any] = {"granularity": "partition", "compat": "kafka_exporter"}
        scrape = watch(self.FIVE, max_partitions=9, **options).scrape()
        assert not scrape.names & {"kpe_partition_leader", "kafka_topic_partition_leader"}
        suppressed = scrape.by("family", "kpe_metrics_series_suppressed")
        assert suppressed["kpe_partition_leader"] == suppressed["kafka_topic_partition_leader"] == 10
        forced = watch(self.FIVE, max_partitions=10, **options).scrape()
        assert len(forced.by("topic", "kpe_partition_leader")) == 5


class TestAProcess:
    def test_listeners_of_one_name_are_added_up(self, watch: Watch) -> None:
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
        assert scrape.value("kpe_listener_events_waiting", listener="theirs") == 0
        assert scrape.value("kpe_listener_paused", listener="theirs") == 0
        assert scrape.value("kpe_listener_events_total", listener="PrometheusListener") == 5

    def test_where_a_partitioner_sends_unkeyed_records(self, watch: Watch) -> None:
        watched = watch(orders(1, None, 3, 1))
        assert "kpe_partitioner_usable_partitions" not in watched.scrape().names
        watched.poller.register(DefaultPartitioner())
        scrape = watched.scrape()
        assert scrape.value("kpe_partitioner_usable_partitions", topic="orders") == 3
        assert scrape.value("kpe_partitioner_capped_partitions", topic="orders") == 0
        assert scrape.value("kpe_partitioner_suspect_brokers") == 0

    def test_the_worst_partitioner_is_told(self, watch: Watch) -> None:
        watched = watch(orders(1, 2, 3, 1))
        watched.poller.register(DefaultPartitioner())
        watched.poller.register(
            DefaultPartitioner(budget=BufferBudget(max_partitions={"orders": 1}, instance_id="i"))
        )
        scrape = watched.scrape()
        assert scrape.value("kpe_partitioner_usable_partitions", topic="orders") == 1
        assert scrape.value("kpe_partitioner_capped_partitions", topic="orders") == 3

    def test_a_producers_reroutes_for_as_long_as_it_lives(self, watch: Watch) -> None:
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


class TestScraping:
    def test_two_scrapers_at_once_cost_one_collection(self, watch: Watch) -> None:
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

    def test_a_new_snapshot_is_a_new_collection(self, watch: Watch) -> None:
        watched = watch(orders(1, 2))
        watched.scrape()
        watched.poll(orders(1, 2, 3))
        assert watched.scrape().value("kpe_partitions") == 3

    def test_does_not_wait_for_the_poller(self, watch: Watch) -> None:
        watched = watch(orders(1))
        scraper = threading.Thread(target=watched.scrape)
        with watched.poller._lock:
            scraper.start()
            scraper.join(WAIT_S)
            assert not scraper.is_alive()

    def test_never_raises(self, watch: Watch) -> None:
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

    def test_every_family_is_described(self, watch: Watch) -> None:
        watched = watch(REPLICATED, granularity="partition", compat="kafka_exporter")
        watched.poller.register(DefaultPartitioner())
        described = {(m.name, m.type) for m in watched.listener.describe()}
        assert {(m.name, m.type) for m in watched.listener.collect()} <= described

    def test_some_families_only(self, watch: Watch) -> None:
        scrape = watch(REPLICATED).scrape("kpe_up", "kpe_events_total")
        assert scrape.names == {"kpe_up", "kpe_events_total"}

    def test_under_another_namespace_and_label(self, watch: Watch) -> None:
        scrape = watch(REPLICATED, namespace="acme", kafka_cluster="prod-eu").scrape()
        assert scrape.value("acme_partitions", "prod-eu") == 4
        assert scrape.clusters == {"prod-eu"}
        assert {name.partition("_")[0] for name in scrape.names} == {"acme"}

    def test_one_registry_serves_one_cluster(self, watch: Watch) -> None:
        watched = watch(orders(1))
        with pytest.raises(DuplicateTimeseries):
            PrometheusListener(watched.poller, registry=watched.registry)

    def test_ends_with_the_poller(self, watch: Watch) -> None:
        watched = watch(orders(1))
        watched.poller.close()
        assert generate_latest(watched.registry) == b""
        watched.listener.close()

    def test_without_a_registry(self, watch: Watch) -> None:
        poller = watch(orders(1)).poller
        listener = PrometheusListener(poller, registry=None)
        assert "kpe_partitions" in {metric.name for metric in listener.collect()}
        listener.close()

    @pytest.mark.parametrize(
        "wrong",
        [
            {"granularity": "broker"},
            {"compat": "kminion"},
            {"max_topics": -1},
            {"max_partitions": -1},
            {"max_offline_series": -1},
        ],
        ids=str,
    )
    def test_wrong_arguments_are_refused(self, watch: Watch, wrong: dict[str, Any]) -> None:
        (argument,) = wrong
        with pytest.raises(ConfigurationError, match=argument):
            PrometheusListener(watch(orders(1)).poller, registry=None, **wrong)
