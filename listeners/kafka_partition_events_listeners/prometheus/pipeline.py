"""A collector of ``prometheus_client`` for what lies between events and their targets."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from types import MappingProxyType
from typing import Final

from attrs import frozen
from prometheus_client.core import REGISTRY, CollectorRegistry, Metric

from kafka_partition_events.metadata.durations import NO_DELAYS, Durations
from kafka_partition_events_listeners.prometheus import families as fam
from kafka_partition_events_listeners.prometheus.families import Part, Reading, Scraper, single

SUPPRESSION_REASONS: Final = ("debounced", "flapping", "silenced", "rate_limited")
"""Why an event alerts nobody."""

DROP_REASONS: Final = ("bounds", "dead_letter")
"""Why a sink never gets a record: the outbox is full or the record too old, or the target refused it."""

LABELLED: Final = (
    "partitions.added", "partition.offline", "partition.online", "leadership.moved",
    "broker.joined", "broker.left", "broker.changed",
)  # fmt: skip
"""Events that somebody can have asked for."""

LABELS: Final = ("true", "false", "unknown")
"""Whether somebody had; unknown where the control topics are out of reach."""

_NONE: Final[Mapping[str, int]] = MappingProxyType({})


@frozen(kw_only=True)
class SinkReading:
    """What is known of one sink. The counts are since the process began, unless told otherwise.

    Attributes:
        records: Records that wait for it in the outbox.
        oldest_age: Seconds that the oldest of them has waited; 0 if there is none.
        dropped: Records that it never gets, since there is the outbox, by `DROP_REASONS`.
        deliveries: Records that the target took.
        failures: Attempts that failed, by `DeliveryError.reason`.
        delays: How long records took from their recording to their delivery.
    """

    records: int = 0
    oldest_age: float = 0.0
    dropped: Mapping[str, int] = _NONE
    deliveries: int = 0
    failures: Mapping[str, int] = _NONE
    delays: Durations = NO_DELAYS


@frozen(kw_only=True)
class PipelineReading:
    """What is known of the way from events to targets.

    Attributes:
        sinks: Each sink by name.
        flapping: Subjects that flap now.
        suppressed: Events that alerted nobody, by `SUPPRESSION_REASONS`.
        incidents_open: Incidents that are open now.
        labelled: Events by name and by `LABELS`; None where events are not labelled.
    """

    sinks: Mapping[str, SinkReading] = MappingProxyType({})
    flapping: int = 0
    suppressed: Mapping[str, int] = _NONE
    incidents_open: int = 0
    labelled: Mapping[tuple[str, str], int] | None = None


class PipelineCollector:
    """Exposes outbox, sinks and incidents to Prometheus.

    Scrapes come from any thread and never raise: if ``read`` does, everything but
    ``kpe_pipeline_scrape_errors_total`` is missing from that scrape.
    """

    def __init__(
        self,
        read: Callable[[], PipelineReading],
        *,
        kafka_cluster: str | Callable[[], str],
        registry: CollectorRegistry | None = REGISTRY,
        namespace: str = "kpe",
    ) -> None:
        """Make a collector and register it with ``registry``; it is unregistered by `close`.

        Args:
            read: Returns how things are now; called once for each scrape, on the scraper's thread.
            kafka_cluster: The label of that name, or what returns it at each scrape; the same as the
                `PrometheusListener`'s.
            registry: Where; None: nowhere.
            namespace: What names begin with.

        Raises:
            DuplicateTimeseries: the registry has such a collector already.
        """
        self._read = read
        self._label: Callable[[], str] = (
            (lambda: kafka_cluster) if isinstance(kafka_cluster, str) else kafka_cluster
        )
        self._scraper = Scraper(namespace)
        self._registry = registry
        if registry is not None:
            registry.register(self)

    def describe(self) -> list[Metric]:
        """Return all families without series: the registry looks for clashes, and serves ``name[]`` by it."""
        return [family.metric(self._scraper.namespace) for family in (*fam.PIPELINE, fam.PIPELINE_ERRORS)]

    def collect(self) -> list[Metric]:
        """Return the families and their series as they are now."""
        parts: list[Part] = [
            lambda: pipeline_readings(self._read()),
            lambda: [single(fam.PIPELINE_ERRORS, self._scraper.errors)],
        ]
        return self._scraper.run(parts, self._label())

    def close(self) -> None:
        """Unregister from the registry. Idempotent."""
        if self._registry is not None:
            with contextlib.suppress(KeyError):
                self._registry.unregister(self)


def pipeline_readings(found: PipelineReading) -> Iterable[Reading]:
    """Return the readings; every reason that is known before it occurs is there at 0."""
    sinks = found.sinks.items()
    yield fam.OUTBOX_RECORDS, {(name,): sink.records for name, sink in sinks}
    yield fam.OUTBOX_AGE, {(name,): sink.oldest_age for name, sink in sinks}
    yield (
        fam.OUTBOX_DROPPED,
        {
            (name, reason): count
            for name, sink in sinks
            for reason, count in {**dict.fromkeys(DROP_REASONS, 0), **sink.dropped}.items()
        },
    )
    yield fam.DELIVERIES, {(name,): sink.deliveries for name, sink in sinks}
    yield (
        fam.DELIVERY_FAILURES,
        {(name, reason): count for name, sink in sinks for reason, count in sink.failures.items()},
    )
    yield fam.DELIVERY_DELAY, {(name,): sink.delays for name, sink in sinks}
    yield single(fam.FLAPPING, found.flapping)
    suppressed = {**dict.fromkeys(SUPPRESSION_REASONS, 0), **found.suppressed}
    yield fam.EVENTS_SUPPRESSED, {(reason,): count for reason, count in suppressed.items()}
    if found.labelled is not None:
        labelled = found.labelled
        yield fam.EVENTS_LABELLED, {both: labelled.get(both, 0) for both in product(LABELLED, LABELS)}
    yield single(fam.INCIDENTS_OPEN, found.incidents_open)
