"""A collector of ``prometheus_client`` for what lies between events and their targets."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from itertools import product
from types import MappingProxyType
from typing import Final, get_args

from attrs import field, frozen
from prometheus_client.core import REGISTRY, CollectorRegistry, Metric

from kafka_partition_events.incidents import IncidentStats
from kafka_partition_events.outbox import DeliveryStats, ReaderStats
from kafka_partition_events.outbox.delivery import State
from kafka_partition_events_listeners.journal import JournalStats
from kafka_partition_events_listeners.prometheus import families as fam
from kafka_partition_events_listeners.prometheus.families import Part, Reading, Scraper, single

LABELLED: Final = (
    "partitions.added", "partition.offline", "partition.online", "leadership.moved",
    "broker.joined", "broker.left", "broker.changed",
)  # fmt: skip
"""Events that somebody can have asked for."""

LABELS: Final = ("true", "false", "unknown")
"""Whether somebody had; unknown where the control topics are out of reach."""


@frozen(kw_only=True)
class PipelineReading:
    """What is known of the way from looks at the cluster to targets.

    Attributes:
        at: When it was read, aware; ages are counted up to then.
        sinks: What waits for each sink, and what it has got in this process, by name.
        journal: How the journal is doing.
        incidents: How incidents are doing.
        unread: What of the journal waits for them.
        labelled: Events by name and by `LABELS`; None where events are not labelled.
        elected: Whether this process feeds the sinks.
        fit: Whether it is live and ready.
        shared_up: Whether the observers' shared topic is read; None without one.
        ended: The threads that have ended and should not have.
        clock_offset: By how many seconds the machine's clock is ahead of the service's.
    """

    at: datetime
    sinks: Mapping[str, tuple[ReaderStats, DeliveryStats]] = MappingProxyType({})
    journal: JournalStats = field(factory=JournalStats)
    incidents: IncidentStats = field(factory=IncidentStats)
    unread: ReaderStats = field(factory=ReaderStats)
    labelled: Mapping[tuple[str, str], int] | None = None
    elected: bool = True
    fit: bool = True
    shared_up: bool | None = None
    ended: Collection[str] = ()
    clock_offset: float = 0.0

    def age(self, moment: datetime) -> float:
        """Return how many seconds ago a moment was."""
        return max(0.0, (self.at - moment).total_seconds())


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
    """Return the readings; every label that is known beforehand is there at 0."""
    yield from _of_sinks(found)
    yield from _of_the_journal(found)
    yield from _of_incidents(found)
    if found.labelled is not None:
        labelled = found.labelled
        yield fam.EVENTS_LABELLED, {both: labelled.get(both, 0) for both in product(LABELLED, LABELS)}
    yield single(fam.ELECTED, found.elected)
    yield single(fam.FIT, found.fit)
    if found.shared_up is not None:
        yield single(fam.SHARED_TOPIC_UP, found.shared_up)
    yield single(fam.THREADS_ENDED, len(found.ended))
    yield single(fam.CLOCK_OFFSET, found.clock_offset)


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


def _of_incidents(found: PipelineReading) -> Iterable[Reading]:
    incidents = found.incidents
    yield single(fam.FLAPPING, incidents.standing.flapping)
    yield single(fam.INCIDENTS_OPEN, incidents.standing.open)
    yield single(fam.INCIDENTS_HELD, incidents.standing.held)
    yield single(fam.INCIDENTS_SILENCED, incidents.standing.silenced)
    yield fam.EVENTS_SUPPRESSED, {(str(why),): count for why, count in incidents.suppressed.items()}
    if incidents.read_to is not None:
        yield single(fam.INCIDENTS_BEHIND, found.age(incidents.read_to))
    yield single(fam.INCIDENTS_FAILURES, incidents.failures)
    yield single(fam.INCIDENTS_REFUSED, incidents.refused)
    yield fam.INCIDENTS_MISSED, {(reason,): count for reason, count in _dropped(found.unread)}


def _dropped(stats: ReaderStats) -> tuple[tuple[str, int], ...]:
    """Return what a reader never gets, by why: the outbox is full or it is too old, or it was set aside."""
    return ("bounds", stats.dropped), ("dead_letter", stats.dead)
