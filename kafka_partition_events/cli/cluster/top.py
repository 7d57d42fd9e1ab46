"""``kpe top``: the first minute of an incident, in a full screen."""

import contextlib
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer

from kafka_partition_events.cli.cluster.top_view import Look
from kafka_partition_events.cli.common.errors import CliError, needing
from kafka_partition_events.cli.common.options import parse_duration, with_options
from kafka_partition_events.cli.common.settings import ClusterOptions, connecting_by
from kafka_partition_events.cli.services.services import FIRST_ANSWER_S, Services
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import MetadataSource
from kafka_partition_events.observe.alert_board import AlertBoard
from kafka_partition_events.observe.probes import silent_after
from kafka_partition_events.observe.setting_kinds import Name, read

_KEPT: Final = 200
_BOOTSTRAP: Final = "KPE_BOOTSTRAP_SERVERS"

Clusters = Annotated[
    list[str] | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT[,...]",
        help="Brokers to connect to first. Repeat it for more clusters, with names: NAME=HOST:PORT.",
    ),
]


@with_options
def top_command(
    context: typer.Context,
    *,
    bootstrap: Clusters = None,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Time between two polls.")] = "2s",
) -> None:
    """See what is wrong now, on which brokers and topics, and what happened, in a full screen.

    \b
    kpe top -b localhost:9092
    kpe top -b prod=kafka-1:9092 -b dr=kafka-9:9092
    KPE_CONFIG=/etc/kpe/kpe.toml kpe top
    KPE_KAFKA__PROPERTIES__SECURITY_PROTOCOL=SSL kpe top -b broker:9093

    What is wrong is what `kpe observe` posts to Alertmanager, before any hold-down. It reads the clusters
    itself, from when it is started. Without -b it is the cluster of KPE_CONFIG or KPE_BOOTSTRAP_SERVERS.

    Keys: tab, arrows; / shows rows with a text only; enter shows the kpe command that says more; q ends it.

    Exit codes: 0 it was ended; 2 wrong option, no terminal. A cluster that does not answer is shown as that.
    """  # noqa: D301
    services: Services = context.obj
    seconds = parse_duration(interval)
    with needing("top"):
        from kafka_partition_events.cli.cluster.top_screen import Top
    clusters: Sequence[str | None] = bootstrap or [os.environ.get(_BOOTSTRAP)]
    with contextlib.ExitStack() as opened:
        watched = [opened.enter_context(_watched(services, each, seconds)) for each in clusters]
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise CliError("this needs a terminal; `kpe watch` and `kpe check` write to pipes")
        Top(lambda: [each.look() for each in watched]).run()


@contextlib.contextmanager
def _watched(services: Services, typed: str | None, interval: float) -> Iterator["Watched"]:
    """Poll a cluster, from now on.

    Raises:
        CliError: no brokers are named, or a name or a setting is of no use.
    """
    name, equals, address = (typed or "").rpartition("=")
    if equals:
        try:
            read(Name, name)
        except ValueError as error:
            raise CliError(f"-b {typed}: {error}") from None
    settings = ClusterOptions(bootstrap=None if typed is None else address).load().settings
    source = services.open_source(connecting_by(settings))
    watched = Watched(
        source,
        address=str(settings.kafka.bootstrap_servers),
        name=name or settings.kafka.name,
        interval=interval,
        clock=services.clock,
    )
    with contextlib.closing(watched):
        yield watched


class Watched(PartitionChangeListener):
    """A cluster, as this process sees it: polled, with what is wrong and the last events. Thread-safe."""

    name = "top"

    def __init__(
        self, source: MetadataSource, *, address: str, name: str | None, interval: float, clock: Clock
    ) -> None:
        """Begin to poll.

        Args:
            source: Where metadata comes from; closed with this.
            address: How the cluster is reached, for the commands that are shown.
            name: What it is called; None: its id, or else its address.
            interval: Seconds between polls when all is well.
            clock: Tells the time.
        """
        self._address, self._called, self._clock = address, name, clock
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._poller = MetadataPoller(source, interval=interval, fetch_timeout=FIRST_ANSWER_S, clock=clock)
        self._board = AlertBoard(
            self._poller,
            cluster=self._name,
            silent_after=silent_after(interval, FIRST_ANSWER_S),
            holds={},
            known=None,
            clock=clock,
        )
        self._poller.register(self._board)
        self._poller.register(self)
        self._poller.start()

    def on_event(self, event: Event) -> None:
        """Keep it, unless it is what the first snapshot had."""
        if not event.initial:
            self._events.append(event)

    def look(self) -> Look:
        """Return what is known now."""
        return Look(
            name=self._name(),
            address=self._address,
            cluster=self._poller.cluster,
            health=self._poller.health,
            board=self._board.read(),
            events=tuple(self._events.copy()),
            now=self._clock.monotonic(),
        )

    def close(self) -> None:
        """Stop polling. Idempotent."""
        self._poller.close(timeout=1.0)

    def _name(self) -> str:
        cluster = self._poller.cluster
        return self._called or (cluster and cluster.cluster_id) or self._address
