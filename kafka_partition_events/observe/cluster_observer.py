"""One cluster's poller, journal, incidents, sinks and election, put together; and how they are."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Self

from attrs import asdict, evolve
from prometheus_client import CollectorRegistry

from kafka_partition_events import __version__
from kafka_partition_events.incidents import IncidentReader, Rules
from kafka_partition_events.incidents.reader import READER
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.listener import Registrable, Registration, name_of
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import MetadataSource
from kafka_partition_events.observe.alternatives import AlternativesListener
from kafka_partition_events.observe.audit import AuditTrail
from kafka_partition_events.observe.labels import EventLabels
from kafka_partition_events.observe.narrowed import NarrowedSource
from kafka_partition_events.observe.outbox_lock import locked
from kafka_partition_events.observe.probes import why_not_live, why_not_ready
from kafka_partition_events.observe.progress import Progress
from kafka_partition_events.observe.settings import Kafka, Settings
from kafka_partition_events.observe.sink_runner import SinkRunner
from kafka_partition_events.observe.sinks import described_target
from kafka_partition_events.observe.sources import (
    how_to_install,
    installed_client,
    open_link,
    open_source,
)
from kafka_partition_events.observe.steady_clock import SteadyClock
from kafka_partition_events.observe.summaries import SummaryListener
from kafka_partition_events.observe.windows import keep_windows
from kafka_partition_events.outbox import SqliteOutbox, Stream, Write
from kafka_partition_events_listeners.journal import PAUSE_S, JournalListener, load_snapshot
from kafka_partition_events_listeners.prometheus.listener import UNKNOWN_CLUSTER, PrometheusListener
from kafka_partition_events_listeners.prometheus.pipeline import PipelineCollector, PipelineReading

FETCH_S: Final = 10.0
MAILBOX: Final = 100_000
"""How many events wait for the journal before they collapse: those of a broker with so many partitions."""
_CLOCKS_DIFFER_S: Final = 5.0
_SHARED_S: Final = 5.0
_LOOKED_AT: Final = "topics looked at"
"""The small state that holds `observer.topics` of the last service, and the client that asked."""

OpenSource = Callable[[Kafka], MetadataSource]

_log = get_logger(__name__)


class ClusterObserver:
    """Observes one cluster. Use as a context manager, or call `start` and `close`.

    Every change goes to the journal, whoever is elected; the sinks are fed by the elected observer, which is
    this one if there is no election. One observer for each outbox.
    """

    def __init__(
        self, settings: Settings, open_source: OpenSource = open_source, *, clock: Clock | None = None
    ) -> None:
        """Open everything; nothing is asked of the cluster before `start`.

        Args:
            settings: The configuration; ``kafka.bootstrap_servers`` must be set.
            open_source: Makes the metadata source of ``[kafka]``.
            clock: For tests.

        Raises:
            ConfigurationError: a setting is of no use, or the outbox is taken.
            OutboxError: the outbox can't be opened.
            ImportError: an extra is not installed.
        """
        self._settings = settings = _with_installed_client(settings)
        self._clock = SteadyClock(clock or SystemClock())
        self._started_at = self._clock.monotonic()
        self._name = settings.observer.name or socket.gethostname()
        self.trail = AuditTrail(settings.outbox.path, clock=self._clock)
        self._kafka = {
            "bootstrap.servers": str(settings.kafka.bootstrap_servers),
            **settings.kafka.properties,
        }
        with contextlib.ExitStack() as parts:  # closed from the last to the first, see `close`
            self._outbox = parts.enter_context(self._open_outbox())
            self.registry = CollectorRegistry()
            self._runner = SinkRunner(
                self._outbox,
                settings.sinks,
                settings.kafka,
                margin=settings.observer.interval + _CLOCKS_DIFFER_S,
                clock=self._clock,
                holds_to=self._holds_to,
            )
            parts.callback(self._runner.stop)
            self._election, self._shared = self._make_election()
            for part in filter(None, (self._shared, self._election)):
                parts.callback(part.close)
            self._incidents = IncidentReader(
                self._outbox,
                Rules(**asdict(settings.incidents)),
                clock=self._clock,
                looked_to=self._looked_to,
                is_unassigned=self._is_unassigned,
                told_by_others=lambda: {} if self._shared is None else self._shared.opened(),
            )
            parts.callback(self._incidents.close)
            self._labels = self._make_labels()
            if self._labels is not None:
                parts.callback(self._labels.close)
            self._resumed = self._stored_snapshot()
            self._poller = self._make_poller(open_source)
            parts.callback(self._poller.close)
            self._journal = JournalListener(
                self._outbox,
                observer=self._name,
                labels=None if self._labels is None else self._labels.of,
                clock=self._clock,
            )
            self._registered: list[Registration] = []
            self._register(self._journal, capacity=MAILBOX)
            self._register(SummaryListener(self._poller.emit, settings.observer.summary_interval))
            resumed = self._resumed and self._resumed[0]
            self._register(AlternativesListener(self._poller.emit, known=resumed))
            self._expose()
            self._parts = parts.pop_all()
            self._running = False

    def start(self) -> None:
        """Begin to look and to journal; and to deliver, unless there is an election."""
        self._running = True
        self.trail.note("service.started", observer=self._name, version=__version__)
        self._incidents.start()
        if self._election is None:
            self._runner.start()
        else:
            self._shared.start()
            self._election.start()
        if self._labels is not None:
            self._labels.start()
        self._started_at = self._clock.monotonic()
        self._poller.start()

    def close(self) -> None:
        """Stop looking, write what is left, deliver what can be within seconds, stop. Idempotent."""
        self._parts.close()
        if self._running:
            self._running = False
            self.trail.note("service.stopped", observer=self._name)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- what it says of itself ----------------------------------------------------------------------

    @property
    def elected(self) -> bool:
        """Whether this observer feeds the sinks."""
        return self._election is None or self._election.leader

    @property
    def part(self) -> str:
        """What it does while all is well, in words."""
        if self.elected:
            return "ok"
        member = self._election is not None and self._election.member
        return "ok, standing by" if member else "ok, not in the election"

    def describe(self) -> Iterator[str]:
        """Yield lines that say what it does, and where. No secrets."""
        settings = self._settings
        topics = "" if settings.observer.topics == ".*" else f", topics {settings.observer.topics}"
        yield (
            f"observing {settings.kafka.bootstrap_servers} by {settings.kafka.client} "
            f"every {settings.observer.interval:g} s as {self._name}{topics}"
        )
        seen = f", last look {self._resumed[1]:%Y-%m-%d %H:%M:%SZ}" if self._resumed else ", new"
        yield f"journal in {self._outbox.path}{seen}"
        for sink in settings.sinks:
            yield f"sink {sink.name}: {sink.stream} to {described_target(sink)}"
        if not settings.sinks:
            yield "no sinks: events are in the journal, see `kpe events`"
        if self._election is not None:
            yield f"sinks are fed by who is elected in group {settings.election.group}"
        if self._labels is not None:
            yield f"events are labelled by topic {settings.control.prefix}changes: planned or not"

    def why_not_live(self) -> str | None:
        """Return why whoever watches it had better start it anew; None if it is alive."""
        return why_not_live(
            self._poller.health,
            now=self._clock.monotonic(),
            started=self._started_at,
            interval=self._settings.observer.interval,
            timeout=FETCH_S,
            ended=tuple(self._ended()),
        )

    def _ended(self) -> Iterator[str]:
        if not self._incidents.alive:
            yield "incidents"
        if self._election is not None and not self._election.alive:
            yield "election"
        if self._shared is not None and not self._shared.alive:
            yield "shared"
        if self._labels is not None and not self._labels.alive:
            yield "labels"
        yield from (f"listener-{name_of(each.listener)}" for each in self._registered if each.stats.ended)
        yield from self._runner.ended()

    def why_not_ready(self) -> str | None:
        """Return what it does not do as it should; None if all is well."""
        journal, now = self._journal.stats, self._clock.now()
        read_to = self._incidents.stats.read_to
        return why_not_ready(
            self._poller.health,
            now=self._clock.monotonic(),
            interval=self._settings.observer.interval,
            timeout=FETCH_S,
            journal_error=journal.last_error,
            journal_behind=0.0 if journal.holds_to is None else (now - journal.holds_to).total_seconds(),
            incidents_behind=0.0 if read_to is None else (now - read_to).total_seconds(),
        )

    def _why_unfit(self) -> str | None:
        return self.why_not_live() or self.why_not_ready()

    def _looked_to(self) -> datetime | None:
        """Return up to when the cluster was looked at and the outbox has what was found.

        While it does not answer, what was down last passes for down still: an outage may be the reason.
        """
        if self._poller.health.failures:
            return None
        return self._journal.stats.holds_to or datetime.min.replace(tzinfo=UTC)

    def _holds_to(self, stream: Stream) -> datetime | None:
        """Return up to which moment everything that happened lies in a stream of the outbox."""
        journalled = self._journal.stats.holds_to
        if stream is Stream.EVENTS or journalled is None:
            return journalled
        # What was journalled until now is either read, or it is unread here.
        told_to, unread = self._incidents.stats.told_to, self._outbox.read(READER, 1)
        return told_to and min(journalled, told_to, *(entry.at for entry in unread))

    def _read_pipeline(self) -> PipelineReading:
        return PipelineReading(
            at=self._clock.now(),
            sinks=self._runner.stats(),
            journal=self._journal.stats,
            incidents=self._incidents.stats,
            unread=self._outbox.stats(READER),
            labelled=None if self._labels is None else self._labels.counts,
            elected=self.elected,
            fit=self._why_unfit() is None,
            shared_up=None if self._shared is None else self._shared.up,
            ended=tuple(self._ended()),
            clock_offset=self._clock.offset,
        )

    def _cluster_id(self) -> str:
        cluster = self._poller.cluster
        return (cluster and cluster.cluster_id) or UNKNOWN_CLUSTER

    # -- making the parts ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _open_outbox(self) -> Iterator[SqliteOutbox]:
        wanted = self._settings.outbox
        with locked(wanted.path):
            outbox = SqliteOutbox(
                wanted.path,
                max_bytes=wanted.max_bytes,
                max_age_s=wanted.max_age,
                on_corrupt="set_aside" if wanted.on_corrupt == "set_aside" else "raise",
                clock=self._clock,
            )
            with contextlib.closing(outbox):
                keep_windows(outbox, self._settings.windows)
                yield outbox

    def _stored_snapshot(self) -> tuple[Cluster, datetime] | None:
        """Return what an earlier service saw last, if it looked at the same topics with the same client.

        If not, its snapshot tells nothing of what has changed: topics that are no longer looked at would be
        told as deleted, others as created. One client knows leader epochs and the other does not: all would
        pass for new, or none would ever change, and with it no id of an outage.
        """
        how = f"{self._settings.kafka.client} {self._settings.observer.topics}".encode()
        before = self._outbox.values(_LOOKED_AT).get(_LOOKED_AT)
        self._outbox.write(Write(values={_LOOKED_AT: how}))
        return load_snapshot(self._outbox) if before == how else None

    def _make_poller(self, open_source: OpenSource) -> MetadataPoller:
        wanted = self._settings.observer
        source = open_source(self._settings.kafka)
        resume, resume_at = self._resumed or (None, None)
        return MetadataPoller(
            NarrowedSource(source, wanted.topics),
            interval=wanted.interval,
            fetch_timeout=FETCH_S,
            resume=resume,
            resume_at=resume_at,
            clock=self._clock,
        )

    def _is_unassigned(self, broker: int) -> bool:
        """Tell whether all partitions are known, and none of them is assigned to a broker."""
        cluster = self._poller.cluster
        if cluster is None or self._poller.health.failures or self._settings.observer.topics != ".*":
            return False
        topics = (cluster.topic(name) for name in cluster.topics(exclude_internal_topics=False))
        return not any(broker in p.replicas for topic in topics if topic for p in topic.partitions)

    def _register(self, listener: Registrable, **options: Any) -> None:
        self._registered.append(self._poller.register(listener, **options))

    def _make_election(self) -> tuple[Any, Any]:
        wanted = self._settings.election
        if not wanted.enabled:
            return None, None
        from kafka_partition_events.observe.election import Election  # noqa: PLC0415 - an extra
        from kafka_partition_events.observe.shared import Shared  # noqa: PLC0415

        facts = {"observer": self._name, "group": wanted.group}

        def on_elected(progress: Progress) -> None:
            self.trail.note("observer.elected", **facts)
            # Else it would take over from nobody, and clear the topic of what the former leader has told. If
            # it can't be read, pages must not wait for it: then the incidents do.
            shared.wait_complete(_SHARED_S)
            self._runner.skip_delivered(progress)
            self._incidents.lead(self._runner.incidents_passed())
            self._runner.start()

        def on_deposed() -> None:
            self._incidents.stand_by()
            self._runner.stop()
            self.trail.note("observer.deposed", **facts)

        shared = Shared(
            self._kafka,
            wanted.shared_topic,
            self._outbox,
            told_open=lambda: self._incidents.stats.told_open,
        )
        election = Election(
            self._kafka,
            topic=wanted.topic,
            group=wanted.group,
            on_elected=on_elected,
            on_deposed=on_deposed,
            on_progress=self._runner.skip_delivered,
            progress=self._runner.progress,
            why_unfit=self._why_unfit,
            patience=PAUSE_S + self._settings.observer.interval + 1.0,
            clock=self._clock,
        )
        return election, shared

    def _make_labels(self) -> EventLabels | None:
        if not self._settings.control.enabled:
            return None
        return EventLabels(open_link(self._settings.control, self._settings.kafka), clock=self._clock)

    def _expose(self) -> None:
        wanted = self._settings.metrics
        listener = PrometheusListener(
            self._poller,
            registry=self.registry,
            granularity=wanted.granularity,  # type: ignore[arg-type]  # one of its choices: the kind says so
            max_topics=wanted.max_topics,
            compat="kafka_exporter" if wanted.compat == "kafka_exporter" else None,
            clock=self._clock,
        )
        self._register(listener)
        PipelineCollector(self._read_pipeline, kafka_cluster=self._cluster_id, registry=self.registry)


def _with_installed_client(settings: Settings) -> Settings:
    wanted = settings.kafka.client
    client = installed_client(wanted)
    if client != wanted:
        _log.warning("client_not_installed", client=wanted, instead=client, cure=how_to_install(wanted))
    return evolve(settings, kafka=evolve(settings.kafka, client=client))
