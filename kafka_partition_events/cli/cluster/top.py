"""``kpe top``: the first minute of an incident, in a full screen."""

import contextlib
import sys
import time
from collections import deque
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.live import Live

from kafka_partition_events.cli.cluster.top_view import Screen, View
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import Topics, parse_duration, with_options
from kafka_partition_events.cli.common.settings import ClusterOptions, connecting_by
from kafka_partition_events.cli.common.topic_filter import TopicFilter
from kafka_partition_events.cli.services.services import FIRST_ANSWER_S, Services
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import MetadataSource
from kafka_partition_events.observe.alert_board import AlertBoard
from kafka_partition_events.observe.probes import silent_after

_KEPT: Final = 200
_REFRESH_S: Final = 1.0


@with_options
def top_command(
    context: typer.Context,
    *,
    topics: Topics = None,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Time between two polls.")] = "2s",
    where: ClusterOptions,
) -> None:
    """See what is wrong now, on which brokers and topics, and what happened, in a full screen.

    \b
    kpe top -b localhost:9092
    kpe top -b localhost:9092 --topics 'orders|payments'
    KPE_CONFIG=/etc/kpe/kpe.toml kpe top

    What is wrong is what `kpe observe` posts to Alertmanager, before any hold-down. It reads the cluster
    itself, from when it is started. Each part has the worst first, as many lines as the terminal has room
    for; `kpe doctor` and `kpe watch` say more. Ctrl-C ends it.

    Exit codes: 0 it was ended; 2 wrong option, no terminal. A cluster that does not answer is shown as that.
    """  # noqa: D301
    services: Services = context.obj
    wanted, seconds = TopicFilter(topics), parse_duration(interval)
    settings = where.load().settings
    source = services.open_source(connecting_by(settings))
    address = settings.kafka.name or str(settings.kafka.bootstrap_servers)
    watched = Watched(source, called=address, interval=seconds, clock=services.clock)
    with contextlib.closing(watched), contextlib.suppress(KeyboardInterrupt):
        console = Console(highlight=False, markup=False, emoji=False)
        if not sys.stdout.isatty():
            raise CliError("this needs a terminal; `kpe watch` and `kpe check` write to pipes")
        screen = Screen(wanted)
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(screen.drawn(watched.view(), console.height), refresh=True)
                time.sleep(_REFRESH_S)


class Watched(PartitionChangeListener):
    """A cluster, as this process sees it: polled, with what is wrong and the last events. Thread-safe."""

    name = "top"

    def __init__(self, source: MetadataSource, *, called: str, interval: float, clock: Clock) -> None:
        """Begin to poll.

        Args:
            source: Where metadata comes from; closed with this.
            called: What the cluster is called.
            interval: Seconds between polls when all is well.
            clock: Gives the time.
        """
        self._called, self._clock = called, clock
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._poller = MetadataPoller(source, interval=interval, fetch_timeout=FIRST_ANSWER_S, clock=clock)
        self._board = AlertBoard(
            self._poller,
            cluster=lambda: called,
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

    def view(self) -> View:
        """Return what is known now."""
        return View(
            name=self._called,
            cluster=self._poller.cluster,
            health=self._poller.health,
            board=self._board.read(),
            events=tuple(self._events.copy()),
            now=self._clock.monotonic(),
        )

    def close(self) -> None:
        """Stop polling. Idempotent."""
        self._poller.close(timeout=1.0)
