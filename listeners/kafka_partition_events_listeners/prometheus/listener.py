"""A listener and a collector of ``prometheus_client``: the cluster, its changes, and the poller."""

import contextlib
import platform
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from attrs import frozen
from prometheus_client.core import REGISTRY, CollectorRegistry, Metric

from kafka_partition_events import __version__
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.names import NAMES, name_of
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.state import Health
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events_listeners.prometheus import families as fam
from kafka_partition_events_listeners.prometheus.families import Part, Reading, Scraper, single
from kafka_partition_events_listeners.prometheus.process import (
    CountingProducer,
    read_listeners,
    read_partitioners,
    read_producers,
)
from kafka_partition_events_listeners.prometheus.snapshot import NOTHING, Tally, readings_of, tally

if TYPE_CHECKING:
    from kafka_partition_events_listeners.opentelemetry_registry import OpenTelemetryRegistry

UNKNOWN_CLUSTER: Final = "unknown"
"""The label ``kafka_cluster`` as long as the cluster's id is not known."""

LATE_S: Final = 5.0
"""How late a poll may begin without that the one before it passes for one without a good answer."""


@frozen
class _Built:
    """The metrics of one snapshot, and what was counted for them."""

    tally: Tally = NOTHING
    metrics: tuple[Metric, ...] = ()


class PrometheusListener(PartitionChangeListener):
    """Exposes a poller, its cluster and the listeners that are registered with it to Prometheus.

    ::

        poller.register(PrometheusListener(poller))
        prometheus_client.start_http_server(9464)

    What the cluster *is* comes from the poller's snapshot at each scrape; registering adds what *happened*:
    ``kpe_events_total``. Every series has a label ``kafka_cluster``.

    - While the last poll failed, or the snapshot is too old to be trusted, ``kpe_up`` is 0 and everything
      that is known of the cluster is withheld: an old number would pass for a good one.
    - Every event's counter is there at 0 from the first scrape, or ``increase()`` would miss the first one.
      Events of the state at the start are not counted.
    - The families of a snapshot are made once for each snapshot, however many scrapers there are; and of what
      it shares with the one that was scraped before, nothing is counted again.

    Scrapes come from any thread, take none of the poller's locks, and never raise: a part that fails is left
    out and counted in ``kpe_scrape_errors_total``. For several clusters in one process use a registry for
    each.
    """

    def __init__(
        self,
        poller: MetadataPoller,
        *,
        registry: "CollectorRegistry | OpenTelemetryRegistry | None" = REGISTRY,
        kafka_cluster: str | None = None,
        producers: Iterable[CountingProducer] = (),
        max_topics: int = 2_000,
        clock: Clock | None = None,
    ) -> None:
        """Make a collector and register it with ``registry``; it is unregistered by `close`.

        Args:
            poller: What to expose.
            registry: Where; None: nowhere, the listener is then scraped by its `collect` alone.
            kafka_cluster: The label of that name; by default the cluster's id.
            producers: Producers whose reroutes are counted, such as `PartitioningProducer`; kept by weak
                references.
            max_topics: How many topics have series of their own in a family: beyond that the largest that
                are not 0, and the others together as ``topic="__other__"``.
            clock: The poller's clock, for tests.

        Raises:
            ConfigurationError: ``max_topics`` is negative.
            DuplicateTimeseries: the registry has such a collector already.
        """
        if max_topics < 0:
            raise ConfigurationError(f"max_topics must not be negative, but is {max_topics}")
        self._poller = poller
        self._kafka_cluster = kafka_cluster
        self._producers = weakref.WeakSet(producers)
        self._max_topics = max_topics
        self._clock: Clock = clock or Clock()
        self._scraper = Scraper()
        self._building = threading.Lock()
        self._built = _Built()
        # Changed by the worker that delivers events, and copied by scrapes; a copy is one step.
        self._events = dict.fromkeys(sorted(NAMES), 0)
        self._registry = registry
        if registry is not None:
            registry.register(self)

    # -- hearing -------------------------------------------------------------------------------------

    def on_event(self, event: ev.Event) -> None:
        """Count the event."""
        if not event.initial:
            name = name_of(event)
            self._events[name] = self._events.get(name, 0) + 1

    def close(self) -> None:
        """Unregister from the registry. Idempotent."""
        if self._registry is not None:
            with contextlib.suppress(KeyError):
                self._registry.unregister(self)

    # -- being scraped -------------------------------------------------------------------------------

    def describe(self) -> list[Metric]:
        """Return all families without series: the registry finds clashes, and serves ``name[]`` by it."""
        every = (*fam.OBSERVER, *fam.CLUSTER, *fam.BY_TOPIC, *fam.LISTENERS, *fam.PARTITIONERS)
        return [family.metric() for family in every]

    def collect(self) -> list[Metric]:
        """Return the families and their series as they are now."""
        health, cluster = self._poller.health, self._poller.cluster
        trusted = None if health.failures or health.stale or was_refused(health) else cluster
        label = self._kafka_cluster or (cluster is not None and cluster.cluster_id) or UNKNOWN_CLUSTER
        parts: list[Part] = [
            lambda: self._read_observer(health, up=trusted is not None),
            *self._process_parts(cluster),
            *(() if trusted is None else (lambda: self._snapshot_metrics(trusted, label),)),
            lambda: [single(fam.SCRAPE_ERRORS, self._scraper.errors)],  # the last: it counts those before
        ]
        return self._scraper.run(parts, label)

    def _process_parts(self, cluster: Cluster | None) -> Iterable[Part]:
        registrations = self._poller.registrations
        partitioners = [r.listener for r in registrations if isinstance(r.listener, Partitioner)]
        topics = () if cluster is None else cluster.by_topic
        yield lambda: read_listeners(registrations)
        yield lambda: read_partitioners(partitioners, topics, self._max_topics)
        yield lambda: read_producers(list(self._producers))

    def _read_observer(self, health: Health, *, up: bool) -> Iterable[Reading]:
        yield single(fam.UP, up)
        yield fam.BUILD_INFO, {(__version__, platform.python_version()): 1}
        yield single(fam.POLLS, health.polls)
        yield single(fam.POLL_FAILURES, health.failed)
        yield single(fam.POLL_DURATION, health.fetching)
        if health.last_success is not None:
            age = max(0.0, self._clock.monotonic() - health.last_success)
            # The clocks are read one after the other; without rounding the moment would seem to move.
            yield single(fam.LAST_SUCCESS, round(self._clock.now().timestamp() - age, 2))
        yield fam.STALE_IGNORED, {(str(reason),): count for reason, count in health.refusals.items()}
        yield single(fam.INTERNAL_ERRORS, health.internal_errors)
        yield fam.EVENTS, {(name,): count for name, count in self._events.copy().items()}

    def _snapshot_metrics(self, cluster: Cluster, label: str) -> tuple[Metric, ...]:
        with self._building:  # a second scraper that comes meanwhile waits for what the first one makes
            if self._built.tally.cluster is not cluster:
                counts = tally(cluster, self._built.tally)
                found = readings_of(counts, self._max_topics)
                self._built = _Built(counts, tuple(family.metric(label, values) for family, values in found))
            return self._built.metrics


def was_refused(health: Health) -> bool:
    """Return whether the last answer was: after a good one, a poll begins when that one has it planned.

    So one that is under way, and has no answer yet, says nothing against the last good one.
    """
    success, attempt = health.last_success, health.last_attempt or 0.0
    return success is not None and attempt > success + health.next_delay + LATE_S
