"""The service: one cluster's poller, journal, alerts and sinks, put together; and how they are."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

from attrs import fields
from prometheus_client import CollectorRegistry

from kafka_partition_events import __version__
from kafka_partition_events.errors import OutboxError
from kafka_partition_events.log import AUDIT, get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.listener import PartitionChangeListener, name_of
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.registration import Registration
from kafka_partition_events.metadata.source import MetadataSource
from kafka_partition_events.observe.alert_board import AlertBoard
from kafka_partition_events.observe.alertmanager import AlertmanagerSink
from kafka_partition_events.observe.alerts import series_of
from kafka_partition_events.observe.derived import SummaryListener
from kafka_partition_events.observe.http import HttpServer
from kafka_partition_events.observe.labels import EventLabels
from kafka_partition_events.observe.probes import silent_after, why_not_live, why_not_ready
from kafka_partition_events.observe.settings import AlertmanagerSinkSettings, HttpWay, Kafka, Settings
from kafka_partition_events.observe.sinks import SinkRunner, described_target
from kafka_partition_events.observe.sources import NarrowedSource, open_link, open_source
from kafka_partition_events.outbox import ReaderStats, SqliteOutbox
from kafka_partition_events.outbox.sqlite_file import held_alone
from kafka_partition_events_listeners.journal import JournalListener, load_snapshot
from kafka_partition_events_listeners.prometheus.listener import UNKNOWN_CLUSTER, PrometheusListener
from kafka_partition_events_listeners.prometheus.pipeline import PipelineCollector, PipelineReading
from kafka_partition_events_listeners.webhook.client import Way

FETCH_S: Final = 10.0
MAILBOX: Final = 100_000
"""How many events wait for the journal before they collapse: those of a broker with so many partitions."""
_POLLED: Final = "topics polled"
"""The small state that holds `observer.topics` of the stored snapshot, and the client that asked."""

OpenSource = Callable[[Kafka], MetadataSource]

_audit = get_logger(AUDIT)


class Service:
    """Observes one cluster. Use as a context manager, or call `start` and `close`. One for each outbox."""

    def __init__(
        self, settings: Settings, open_source: OpenSource = open_source, *, clock: Clock | None = None
    ) -> None:
        """Open everything; nothing is asked of the cluster before `start`.

        Args:
            settings: The configuration; ``kafka.bootstrap_servers`` must be set.
            open_source: Makes the metadata source of ``[kafka]``.
            clock: For tests.

        Raises:
            ConfigurationError: a setting is of no use, the address is taken, or the outbox is.
            OutboxError: the outbox can't be opened.
            ImportError: an extra is not installed.
        """
        self._settings = settings
        self._clock = clock or Clock()
        self._started_at = self._clock.monotonic()
        self._name = settings.observer.name or socket.gethostname()
        self._registered: list[Registration] = []
        self._registry = CollectorRegistry()
        with contextlib.ExitStack() as parts:  # closed from the last to the first, see `close`
            probes = {
                "/livez": lambda: (self.why_not_live(), "ok"),
                "/readyz": lambda: (self.why_not_ready(), "ok"),
            }
            self._outbox = parts.enter_context(self._open_outbox())
            self._http = HttpServer(settings.http.listen, self._registry, probes, settings.http)
            parts.callback(self._http.close)  # before the outbox, which a scrape reads
            queued = [sink for sink in settings.sinks if not isinstance(sink, AlertmanagerSinkSettings)]
            self._runner = SinkRunner(self._outbox, queued, settings.kafka, clock=self._clock)
            parts.callback(self._runner.stop)
            self._labels = self._make_labels()
            if self._labels is not None:
                parts.callback(self._labels.close)
            self._resumed = self._stored_snapshot()
            self._poller = self._make_poller(open_source)
            parts.callback(self._poller.close)
            labels = None if self._labels is None else self._labels.of
            self._journal = JournalListener(
                self._outbox, observer=self._name, labels=labels, values=self._polled(), clock=self._clock
            )
            known = self._resumed and self._resumed[0]
            self._board = self._make_board(known)
            self._alertmanagers = tuple(self._make_alertmanagers())
            for sink in self._alertmanagers:
                parts.callback(sink.close)
            self._register(self._journal, capacity=MAILBOX)
            self._register(SummaryListener(self._poller.emit, settings.observer.summary_interval))
            self._register(self._board)
            self._expose()
            self._parts = parts.pop_all()
            self._running = False

    def start(self) -> None:
        """Begin to poll, to journal, to alert, to deliver and to serve."""
        self._running = True
        _audit.info("service.started", observer=self._name, version=__version__)
        self._http.start()
        self._runner.start()
        self._started_at = self._clock.monotonic()
        self._poller.start()
        for sink in self._alertmanagers:
            sink.start()

    def close(self) -> None:
        """Stop polling, write what is left, deliver what can be within seconds, stop. Idempotent."""
        self._parts.close()
        if self._running:
            self._running = False
            _audit.info("service.stopped", observer=self._name)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- what it says of itself ----------------------------------------------------------------------

    @property
    def address(self) -> tuple[str, int]:
        """Where it serves HTTP."""
        return self._http.address

    def describe(self) -> Iterator[str]:
        """Yield lines that say what it does, and where. No secrets."""
        settings = self._settings
        topics = "" if settings.observer.topics == ".*" else f", topics {settings.observer.topics}"
        yield (
            f"observing {settings.kafka.bootstrap_servers} by {settings.kafka.client} "
            f"every {settings.observer.interval:g} s as {self._name}{topics}"
        )
        seen = f", last poll {self._resumed[1]:%Y-%m-%d %H:%M:%SZ}" if self._resumed else ", new"
        yield f"journal in {self._outbox.path}{seen}"
        for sink in settings.sinks:
            yield f"sink {sink.name}: {described_target(sink)}"
        if not settings.sinks:
            yield "no sinks: events are in the journal, see `kpe events`"
        if self._labels is not None:
            yield f"events are labelled by topic {settings.control.prefix}changes: planned or not"
        yield f"{self._http.url} has /metrics, /livez, /readyz"

    def why_not_live(self) -> str | None:
        """Return why it had better be restarted; None if it is alive."""
        return why_not_live(
            self._poller.health,
            now=self._clock.monotonic(),
            started=self._started_at,
            interval=self._settings.observer.interval,
            timeout=FETCH_S,
            ended=tuple(self._ended()),
        )

    def why_not_ready(self) -> str | None:
        """Return what it does not do as it should; None if all is well."""
        journal, now = self._journal.stats, self._clock.now()
        return why_not_ready(
            self._poller.health,
            now=self._clock.monotonic(),
            interval=self._settings.observer.interval,
            timeout=FETCH_S,
            journal_error=journal.last_error,
            journal_behind=0.0 if journal.holds_to is None else (now - journal.holds_to).total_seconds(),
        )

    def _ended(self) -> Iterator[str]:
        yield from (f"listener-{name_of(each.listener)}" for each in self._registered if each.stats.ended)
        yield from self._runner.ended()
        for sink in self._alertmanagers:
            yield from sink.ended()

    def _read_pipeline(self) -> PipelineReading:
        posted = {sink.name: (ReaderStats(), sink.stats) for sink in self._alertmanagers}
        fit = (self.why_not_live() or self.why_not_ready()) is None
        try:
            fed = self._runner.stats()
        except OutboxError:  # what is wrong with the cluster is served all the same
            fed, fit = {}, False
        return PipelineReading(
            at=self._clock.now(),
            sinks={**fed, **posted},
            journal=self._journal.stats,
            conditions=series_of(self._board.wrong()),
            labelled=None if self._labels is None else self._labels.counts,
            fit=fit,
            ended=tuple(self._ended()),
        )

    def _called(self) -> str:
        """Return what the cluster is called in metrics and alerts; before the first answer as it was last."""
        cluster = self._poller.cluster or (self._resumed and self._resumed[0])
        return self._settings.kafka.name or (cluster and cluster.cluster_id) or UNKNOWN_CLUSTER

    # -- making the parts ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _open_outbox(self) -> Iterator[SqliteOutbox]:
        wanted = self._settings.outbox
        with held_alone(wanted.path):
            outbox = SqliteOutbox(
                wanted.path, max_bytes=wanted.max_bytes, max_age_s=wanted.max_age, clock=self._clock
            )
            with contextlib.closing(outbox):
                yield outbox

    def _stored_snapshot(self) -> tuple[Cluster, Any] | None:
        """Return what an earlier service saw last, if it polled the same topics with the same client.

        If not, its snapshot does not show what has changed: topics that are no longer polled would be
        reported as deleted, others as created. One client knows leader epochs and the other does not: all
        would pass for new, or none would ever change, and with it no id of an outage. The journal writes how
        it polls with its snapshot: a start that ends before its first good answer leaves both as they were.
        """
        return load_snapshot(self._outbox) if self._outbox.values(_POLLED) == self._polled() else None

    def _polled(self) -> dict[str, bytes]:
        return {_POLLED: f"{self._settings.kafka.client} {self._settings.observer.topics}".encode()}

    def _make_poller(self, open_source: OpenSource) -> MetadataPoller:
        wanted = self._settings.observer
        return MetadataPoller(
            NarrowedSource(open_source(self._settings.kafka), wanted.topics),
            interval=wanted.interval,
            fetch_timeout=FETCH_S,
            resume=self._resumed,
            clock=self._clock,
        )

    def _make_board(self, known: Cluster | None) -> AlertBoard:
        wanted = self._settings.alerts
        return AlertBoard(
            self._poller,
            cluster=self._called,
            silent_after=silent_after(self._settings.observer.interval, FETCH_S),
            holds={"hold_down": wanted.hold_down, "broker_hold_down": wanted.broker_hold_down},
            known=known,
            clock=self._clock,
        )

    def _make_alertmanagers(self) -> Iterator[AlertmanagerSink]:
        for sink in self._settings.sinks:
            if isinstance(sink, AlertmanagerSinkSettings):
                way = Way(**{each.name: getattr(sink, each.name) for each in fields(HttpWay)})
                yield AlertmanagerSink(
                    sink.urls,
                    name=sink.name,
                    read=self._board.read,
                    repeat_interval=sink.repeat_interval,
                    settle=self._settings.observer.interval,
                    way=way,
                    clock=self._clock,
                )

    def _make_labels(self) -> EventLabels | None:
        if not self._settings.control.enabled:
            return None
        return EventLabels(open_link(self._settings.control, self._settings.kafka), clock=self._clock)

    def _register(self, listener: PartitionChangeListener, **options: Any) -> None:
        self._registered.append(self._poller.register(listener, **options))

    def _expose(self) -> None:
        listener = PrometheusListener(
            self._poller,
            registry=self._registry,
            kafka_cluster=self._settings.kafka.name,
            max_topics=self._settings.metrics.max_topics,
            clock=self._clock,
        )
        self._register(listener)
        PipelineCollector(self._read_pipeline, kafka_cluster=self._called, registry=self._registry)
