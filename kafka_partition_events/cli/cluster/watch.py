"""``kpe watch``: events as they happen."""

import contextlib
import math
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Annotated

import typer
from attrs import field, frozen

from kafka_partition_events.cli.common.logs import SHOWN_AS_EVENTS
from kafka_partition_events.cli.common.options import TopicFilter, Topics, parse_duration, with_options
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    Printer,
    choose_output,
    reader_check,
    tell,
)
from kafka_partition_events.cli.common.settings import ClusterOptions
from kafka_partition_events.cli.services.services import Services, first_look
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller

_HELD = 1_000  # events waiting for a slow output here; what comes then waits in the poller's mailbox
_MAILBOX = 100_000
_READER_CHECK_S = 1.0


@frozen(kw_only=True)
class Watch:
    """What to watch and how to show it."""

    config: Mapping[str, str] = field(repr=False)
    topics: TopicFilter
    interval: float
    output: Output
    limit: float = math.inf
    """Seconds to watch; by default until Ctrl-C."""


def watch(request: Watch, services: Services) -> None:
    """Show the current state, then every event, until the time is over or Ctrl-C.

    Raises:
        CliError: the first answer did not come.
        BrokenPipeError: the reader of standard output is gone.
    """
    began = services.clock.monotonic()
    poller, initial = first_look(services, request.config, request.interval)
    shown = 0
    # Nobody polls yet, so no event comes between this state and the first live event.
    with contextlib.closing(poller), Printer(request.output) as printer:
        try:
            assert poller.cluster is not None  # noqa: S101 - the first look has it
            printer.state(
                request.topics.narrowed(poller.cluster), [e for e in initial if request.topics.wants(e)]
            )
            for event in _live(poller, services.clock, began + request.limit):
                if (wanted := request.topics.shown(event)) is not None:
                    printer.event(wanted)
                    shown += 1
        except KeyboardInterrupt:
            pass  # the usual way to end it
    _summarize(shown, services.clock.monotonic() - began)


def _live(poller: MetadataPoller, clock: Clock, deadline: float) -> Iterator[Event]:
    reader_gone = reader_check(sys.stdout)
    inbox = _Inbox(clock)
    registration = poller.register(inbox, replay=False, capacity=_MAILBOX)
    poller.start()
    try:
        while (left := deadline - clock.monotonic()) > 0:
            event = inbox.take(min(left, _READER_CHECK_S))
            if event is not None:
                yield event
            elif reader_gone():
                raise BrokenPipeError
    finally:
        inbox.close()
        registration.close()


class _Inbox(PartitionChangeListener):
    """Hands events from the poller's worker to the main thread, where Ctrl-C and broken pipes arrive.

    It holds back the worker when the output is slow, so that the mailbox fills and the poller's own rule
    for slow listeners applies (`Resync`), instead of the memory of this program growing.
    """

    name = "watch"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def on_event(self, event: Event) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._events) < _HELD or self._closed)
            self._events.append(event)
            self._changed.notify_all()

    def take(self, timeout: float) -> Event | None:
        """Return the next event; None when none came in ``timeout`` seconds."""
        with self._changed:
            if not self._events:
                self._clock.wait(self._changed, timeout)
            if not self._events:
                return None
            self._changed.notify_all()
            return self._events.popleft()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _summarize(shown: int, seconds: float) -> None:
    events = f"{shown} event{'' if shown == 1 else 's'}"
    tell(f"{events} in {_spoken(seconds)}")


def _spoken(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


@with_options
def watch_command(
    context: typer.Context,
    *,
    topics: Topics = None,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Time between two polls.")] = "5s",
    output: OutputChoice = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Stop after this time.")
    ] = None,
    where: ClusterOptions,
) -> None:
    """Show what happens to topics, partitions and brokers, as it happens.

    Begins with the current state: in a table with a summary and what is offline, in JSON with one event
    ("initial": true) for each broker, topic and offline partition. While something is offline it polls more
    often than --interval. What happens and is undone between two polls is not seen. Times are UTC. Durations
    are 500ms, 5s, 10m, 1h.

    \b
    kpe watch -b localhost:9092
    kpe watch -b localhost:9092 --topics 'orders|payments' --interval 1s
    kpe watch -b localhost:9092 --for 10m > events.jsonl
    kpe watch -b localhost:9092 | jq -c 'select(.kind == "partition_offline")'
    kpe watch -b broker:9093 -X security.protocol=SASL_SSL -X ssl.ca.location=ca.pem \\
        -X sasl.mechanism=SCRAM-SHA-512 -X sasl.username=noc -X sasl.password_file=/run/secrets/kafka

    Exit codes: 0 the time of --for is over, or Ctrl-C; 2 wrong address, refused login, unknown option.
    """  # noqa: D301
    request = Watch(
        config=where.config(told_elsewhere=SHOWN_AS_EVENTS),
        topics=TopicFilter(topics),
        interval=parse_duration(interval),
        output=choose_output(output),
        limit=math.inf if for_ is None else parse_duration(for_),
    )
    watch(request, context.obj)
