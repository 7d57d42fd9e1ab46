"""By the real SDK of OpenTelemetry: what is read is what Prometheus scrapes, under OpenTelemetry's names."""

import subprocess
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint, Sum
from prometheus_client import Metric

from kafka_partition_events.listeners import OpenTelemetryRegistry, PrometheusListener
from tests.poller_kit import DOWN, orders
from tests.scrape_kit import REPLICATED, Watch
from tests.threads_kit import together

ATTRIBUTES = {"messaging.destination.name": "topic", "messaging.destination.partition.id": "partition"}


class Metered:
    """A registry, and what the reader of its meter reads."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.registry = OpenTelemetryRegistry(MeterProvider([self._reader]).get_meter("test"))

    def read(self) -> dict[str, Any]:
        data: Any = self._reader.get_metrics_data()
        scopes = [scope for of in getattr(data, "resource_metrics", ()) for scope in of.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def values(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Return each value by the name and the labels that it has for Prometheus."""
        found = {}
        for metric in self.read().values():
            # What exporters put back.
            unit, kind = "_seconds" * (metric.unit == "s"), "_total" * isinstance(metric.data, Sum)
            for point in metric.data.data_points:
                labels = {ATTRIBUTES.get(key, key): value for key, value in point.attributes.items()}
                found[metric.name + unit + kind, frozenset(labels.items())] = point.value
        return found


@pytest.fixture
def metered() -> Metered:
    return Metered()


def prometheus_name(name: str) -> str:
    """Return what a scrape of this registry would be called by way of OpenTelemetry."""
    if name.endswith("_count"):
        return name.replace("_seconds_count", "_count_total")
    return name.replace("_seconds_sum", "_sum_seconds_total")


def test_each_series_of_a_scrape_is_read(watch: Watch, metered: Metered) -> None:
    watched = watch(REPLICATED)
    metered.registry.register(watched.listener)
    watched.poll(orders(2, 1), orders(None, 1))
    scraped = {
        (prometheus_name(sample.name), frozenset(sample.labels.items())): sample.value
        for metric in watched.listener.collect()
        for sample in metric.samples
        if not sample.name.endswith("_bucket")
    }
    assert scraped
    assert metered.values() == scraped


def test_names_units_and_conventions_are_those_of_opentelemetry(watch: Watch, metered: Metered) -> None:
    watched = watch(orders(None, 1))
    metered.registry.register(watched.listener)
    found = metered.read()
    polls: Sum = found["kpe_polls"].data
    assert (polls.is_monotonic, [point.value for point in polls.data_points]) == (True, [1])
    assert found["kpe_last_successful_poll_timestamp"].unit == "s"
    assert found["kpe_poll_duration_count"].data.is_monotonic
    assert found["kpe_up"].description.startswith("Whether the last poll succeeded")
    (point,) = found["kpe_topic_partitions_offline"].data.data_points
    assert isinstance(point, NumberDataPoint)
    assert point.attributes == {"kafka_cluster": "test", "messaging.destination.name": "orders"}


def test_each_round_reads_once(watch: Watch, metered: Metered, monkeypatch: pytest.MonkeyPatch) -> None:
    watched, rounds = watch(REPLICATED), Counter[str]()
    collect = watched.listener.collect

    def counted() -> list[Metric]:
        rounds["begun"] += 1
        return collect()

    monkeypatch.setattr(watched.listener, "collect", counted)
    metered.registry.register(watched.listener)
    assert "kpe_brokers" in metered.read()
    watched.poll(DOWN)
    found = metered.read()
    assert rounds["begun"] == 2
    assert [point.value for point in found["kpe_up"].data.data_points] == [0]
    assert "kpe_brokers" not in found, "of a cluster that does not answer nothing is said"


def test_clusters_are_read_by_one_meter_until_their_listeners_close(watch: Watch, metered: Metered) -> None:
    first, second = watch(REPLICATED), watch(orders(1))
    listeners = [
        PrometheusListener(watched.poller, registry=metered.registry, kafka_cluster=name)
        for name, watched in (("first", first), ("second", second))
    ]

    def partitions() -> dict[object, float]:
        found = metered.read().get("kpe_partitions")
        points = () if found is None else found.data.data_points
        return {point.attributes["kafka_cluster"]: point.value for point in points}

    assert partitions() == {"first": 4, "second": 1}
    listeners[0].close()
    assert partitions() == {"second": 1}
    listeners[1].close()
    assert partitions() == {}


def test_collectors_may_come_and_go_by_several_threads() -> None:
    registry = OpenTelemetryRegistry(MeterProvider().get_meter("test"))
    stays: Any = SimpleNamespace(describe=list)  # it has no metrics
    goes: Any = SimpleNamespace(describe=list, collect=list)

    def stay() -> None:
        for _ in range(1_000):
            registry.register(stays)

    def come_and_go() -> None:
        for _ in range(1_000):
            registry.register(goes)
            registry.unregister(goes)

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        together(stay, come_and_go)
    finally:
        sys.setswitchinterval(switching)
    assert registry._collectors == [stays] * 1_000


def test_without_opentelemetry_it_says_what_to_install() -> None:
    script = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"  # import then raises ModuleNotFoundError
        "from kafka_partition_events.listeners import OpenTelemetryRegistry\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "pip install 'kafka-partition-events[metrics]' opentelemetry-api" in done.stderr
