"""A collector of ``prometheus_client`` for what lies between events and their targets."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, get_args

from attrs import field, frozen
from prometheus_client.core import REGISTRY, CollectorRegistry, Metric

from kafka_partition_events.outbox import DeliveryStats, ReaderStats
from kafka_partition_events.outbox.delivery import State
from kafka_partition_events_listeners.journal import JournalStats
from kafka_partition_events_listeners.prometheus import families as fam
from kafka_partition_events_listeners.prometheus.families import Part, Reading, Scraper, single

if TYPE_CHECKING:
    from kafka_partition_events_listeners.opentelemetry_registry import OpenTelemetryRegistry

LABELLED: Final = ("partitions.added",)
"""Events that a change can have planned."""

LABELS: Final = ("true", "false", "unknown")
"""Whether one had; unknown where the control topics are out of reach."""


@frozen(kw_only=True)
class PipelineReading:
    """What is known of the way from polls of the cluster to targets.

    Attributes:
        at: When it was read, aware; ages are counted up to then.
        sinks: What waits for each sink, and what it has got in this process, by name.
        journal: How the journal is doing.
        conditions: What is wrong now, by the labels of `families.ALERT_CONDITION`.
        labelled: Events by name and by `LABELS`; None where events are not labelled.
        fit: Whether it is live and ready.
        ended: The threads that have ended and should not have.
    """

    at: datetime
    sinks: Mapping[str, tuple[ReaderStats, DeliveryStats]] = MappingProxyType({})
    journal: JournalStats = field(factory=JournalStats)
    conditions: Mapping[tuple[str, ...], int] = MappingProxyType({})
    labelled: Mapping[tuple[str, str], int] | None = None
    fit: bool = True
    ended: Collection[str] = ()

    def age(self, moment: datetime) -> float:
        """Return how many seconds ago a moment was."""
        return max(0.0, (self.at - moment).total_seconds())


class PipelineCollector:
    """Exposes outbox, sinks and what is wrong to Prometheus.

    Scrapes come from any thread and never raise: if ``read`` does, everything but
    ``kpe_pipeline_scrape_errors_total`` is missing from that scrape.
    """

    def __init__(
        self,
        read: Callable[[], PipelineReading],
        *,
        kafka_cluster: Callable[[], str],
        registry: "CollectorRegistry | OpenTelemetryRegistry | None" = REGISTRY,
    ) -> None:
        """Make a collector and register it with ``registry``.

        Args:
            read: Returns how things are now; called once for each scrape, on the scraper's thread.
            kafka_cluster: Returns the label of that name, the `PrometheusListener`'s.
            registry: Where; None: nowhere.

        Raises:
            DuplicateTimeseries: the registry has such a collector already.
        """
        self._read = read
        self._label = kafka_cluster
        self._scraper = Scraper()
        if registry is not None:
            registry.register(self)

    def describe(self) -> list[Metric]:
        """Return all families without series: the registry finds clashes, and serves ``name[]`` by it."""
        return [family.metric() for family in (*fam.PIPELINE, fam.PIPELINE_ERRORS)]

    def collect(self) -> list[Metric]:
        """Return the families and their series as they are now."""
        parts: list[Part] = [
            lambda: pipeline_readings(self._read()),
            lambda: [single(fam.PIPELINE_ERRORS, self._scraper.errors)],
        ]
        return self._scraper.run(parts, self._label())


def pipeline_readings(found: PipelineReading) -> Iterable[Reading]:
    """Return the readings; every label that is known beforehand is there at 0."""
    yield from _of_sinks(found)
    yield from _of_the_journal(found)
    yield fam.ALERT_CONDITION, found.conditions
    if found.labelled is not None:
        labelled = found.labelled
        yield fam.EVENTS_LABELLED, {both: labelled.get(both, 0) for both in product(LABELLED, LABELS)}
    yield single(fam.FIT, found.fit)
    yield single(fam.THREADS_ENDED, len(found.ended))


def _of_sinks(found: PipelineReading) -> Iterable[Reading]:
    waits = {name: waiting for name, (waiting, _) in found.sinks.items()}
    done = {name: delivered for name, (_, delivered) in found.sinks.items()}
    yield fam.OUTBOX_RECORDS, {(name,): stats.waiting for name, stats in waits.items()}
    yield (
        fam.OUTBOX_AGE,
        {(name,): 0.0 if stats.oldest is None else found.age(stats.oldest) for name, stats in waits.items()},
    )
    dropped = [(name, reason, count) for name, stats in waits.items() for reason, count in _dropped(stats)]
    yield fam.OUTBOX_DROPPED, {(name, reason): count for name, reason, count in dropped}
    yield fam.DELIVERIES, {(name,): stats.delivered for name, stats in done.items()}
    yield (
        fam.DELIVERY_FAILURES,
        {(name, reason): count for name, stats in done.items() for reason, count in stats.failures.items()},
    )
    yield fam.DELIVERY_DELAY, {(name,): stats.delays for name, stats in done.items()}
    states = product(done, get_args(State))
    yield fam.SINK_STATE, {(name, state): done[name].state == state for name, state in states}


def _of_the_journal(found: PipelineReading) -> Iterable[Reading]:
    journal = found.journal
    if journal.holds_to is not None:
        yield single(fam.JOURNAL_BEHIND, found.age(journal.holds_to))
    yield single(fam.JOURNAL_WAITING, journal.waiting)
    yield single(fam.JOURNAL_LOST, journal.lost)


def _dropped(stats: ReaderStats) -> tuple[tuple[str, int], ...]:
    """Return what a reader never gets, by why: the outbox is full or it is too old, or it was set aside."""
    return ("bounds", stats.dropped), ("dead_letter", stats.dead)
