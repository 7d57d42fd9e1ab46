"""OpenTelemetry: a registry whose collectors are read by a meter, in place of a scrape."""

import threading
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Final, Protocol

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from prometheus_client import Metric

_CONVENTIONS: Final = {"topic": "messaging.destination.name"}
"""What the semantic conventions for messaging call a label."""

_SERIES: Final = {"counter": ("_total",), "gauge": ("",), "histogram": ("_count", "_sum")}


class DescribedCollector(Protocol):
    """A collector that names its families beforehand, as all of this library do."""

    def describe(self) -> Iterable[Metric]:
        """Return all families, without series."""

    def collect(self) -> Iterable[Metric]:
        """Return the families and their series as they are now."""


class OpenTelemetryRegistry:
    """Takes collectors as a ``CollectorRegistry`` does, and has OpenTelemetry read them.

    ::

        registry = OpenTelemetryRegistry(metrics.get_meter("orders"))
        poller.register(PrometheusListener(poller, registry=registry))

    An instrument has its family's name without what OpenTelemetry says by kind and unit, and what its
    exporters to Prometheus put back: ``kpe_polls_total`` is ``kpe_polls``, ``kpe_journal_behind_seconds`` is
    ``kpe_journal_behind`` in ``s``. No instrument reads a histogram: it becomes two counters, ``_count`` and
    ``_sum``. Labels are attributes; ``topic`` has the name of the semantic conventions.

    OpenTelemetry takes no instrument back: those whose collectors were unregistered have no values.
    Thread-safe.
    """

    def __init__(self, meter: Meter) -> None:
        """Make a registry whose instruments are the meter's."""
        self._meter = meter
        self._lock = threading.Lock()
        self._changing = threading.Lock()  # the other one is held for as long as collectors take
        self._collectors: list[DescribedCollector] = []
        self._made: set[str] = set()  # the series that have an instrument
        self._read: dict[str, list[Observation]] = {}  # what instruments have not taken yet

    def register(self, collector: DescribedCollector) -> None:
        """Have a collector read until it is unregistered."""
        with self._changing:
            self._collectors = [*self._collectors, collector]
        for metric in collector.describe():
            for suffix in _SERIES[metric.type]:
                self._make(metric, suffix)

    def unregister(self, collector: DescribedCollector) -> None:
        """Read a collector no more."""
        with self._changing:
            self._collectors = [each for each in self._collectors if each is not collector]

    def _make(self, metric: Metric, suffix: str) -> None:
        series, meter = metric.name + suffix, self._meter
        with self._changing:
            if series in self._made:
                return
            self._made.add(series)
        name = metric.name.removesuffix("_seconds")
        unit = "s" if name != metric.name and suffix != "_count" else ""
        name += suffix.removesuffix("_total")
        is_gauge = metric.type == "gauge"
        make = meter.create_observable_gauge if is_gauge else meter.create_observable_counter
        make(name, [partial(self._take, series)], unit, metric.documentation)

    def _take(self, series: str, _options: CallbackOptions) -> list[Observation]:
        """Return a series' values.

        A reader asks one instrument after the other: whose values were taken already has a new round begin,
        for which all collectors are read once.
        """
        with self._lock:
            if series not in self._read:
                found = defaultdict[str, list[Observation]](list)
                for sample in (s for c in self._collectors for metric in c.collect() for s in metric.samples):
                    attributes = {_CONVENTIONS.get(name, name): of for name, of in sample.labels.items()}
                    found[sample.name].append(Observation(sample.value, attributes))
                self._read = {name: found[name] for name in tuple(self._made)}
            return self._read.pop(series)
