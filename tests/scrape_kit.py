"""What tests of `PrometheusListener` share: a poller that is exposed, and what Prometheus reads of it."""

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafka_partition_events import MetadataPoller
from kafka_partition_events.testing import ManualClock, ScriptedSource
from kafka_partition_events.testing.scripted import Step, observe
from kafka_partition_events_listeners.prometheus.listener import PrometheusListener
from tests.poller_kit import BROKERS, WAIT_S

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


class Scrape:
    """One exposition as Prometheus reads it: no series is in it twice."""

    def __init__(self, registry: Any) -> None:
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(generate_latest(registry).decode()):
            for sample in family.samples:
                series = sample.name, frozenset(sample.labels.items())
                assert series not in self._values, f"{series} is there twice"
                self._values[series] = sample.value

    def value(self, name: str, **labels: str) -> float | None:
        return self._values.get((name, frozenset({"kafka_cluster": "test", **labels}.items())))

    def by(self, label: str, name: str) -> dict[str, float]:
        """Return the values of a family by one of its labels."""
        return {dict(labels)[label]: value for (n, labels), value in self._values.items() if n == name}

    def histogram(self, name: str, **labels: str) -> tuple[dict[str, float], float | None]:
        """Return how much is new in each bucket, by its bound, without empty ones; and the sum."""
        wanted = labels.items()
        buckets = {
            dict(of)["le"]: count
            for (n, of), count in self._values.items()
            if n == f"{name}_bucket" and wanted <= dict(of).items()
        }
        assert self.value(f"{name}_count", **labels) == buckets["+Inf"]
        new: dict[str, float] = {}
        before = 0.0
        for bound, count in sorted(buckets.items(), key=lambda bucket: float(bucket[0])):
            if count > before:
                new[bound] = count - before
            before = count
        return new, self.value(f"{name}_sum", **labels)

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self._values}


class Watched:
    """A poller that follows a script, exposed."""

    def __init__(
        self,
        clock: ManualClock,
        *script: Step,
        source: ScriptedSource | None = None,
        poller: Any = None,
        **options: Any,
    ) -> None:
        self.clock = clock
        self.source = source or ScriptedSource(*script)
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

    def scrape(self) -> Scrape:
        return Scrape(self.registry)


Watch = Callable[..., Watched]
