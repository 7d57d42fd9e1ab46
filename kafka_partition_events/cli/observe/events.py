"""``kpe events``: what the outbox of `kpe observe` holds; to be read, followed, and delivered once more."""

import contextlib
import json
import math
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated

import typer
from attrs import frozen
from rich.console import Console
from rich.text import Text

from kafka_partition_events.cli.common.errors import CliError, needing, one_line
from kafka_partition_events.cli.common.event_text import counted, styled
from kafka_partition_events.cli.common.options import (
    TopicFilter,
    Topics,
    parse_duration,
    parse_moment,
    with_options,
)
from kafka_partition_events.cli.common.output import (
    Listing,
    Output,
    choose_output,
    reader_check,
    tell,
    write_json,
    write_json_line,
)
from kafka_partition_events.cli.observe.config import OutboxOptions
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import AUDIT, get_logger
from kafka_partition_events.observe.settings import AlertmanagerSinkSettings
from kafka_partition_events.observe.sinks import make_sink
from kafka_partition_events.outbox import DeliveryError, Entry, Sink
from kafka_partition_events.outbox.sqlite_outbox import SqliteOutbox


@frozen(kw_only=True)
class ReplayOptions(OutboxOptions):
    """Which events are there, and who gets them: a group of options."""

    sink: Annotated[str | None, typer.Option(metavar="NAME", help="The sink of --config that gets them.")] = (
        None
    )

    @contextlib.contextmanager
    def target(self) -> "Iterator[Target]":
        """Open who gets them.

        Raises:
            CliError: there is none of that name, or what it needs is missing.
        """
        if self.sink is None:
            raise CliError("say who gets them: --sink NAME")
        try:
            sink = self._to_sink()
        except (ConfigurationError, ImportError) as error:
            raise CliError(one_line(error)) from error
        with contextlib.closing(sink):
            yield Target(sink)

    def _to_sink(self) -> Sink:
        settings = self.settings(("kafka", "outbox", "sinks"))
        queued = [sink for sink in settings.sinks if not isinstance(sink, AlertmanagerSinkSettings)]
        for sink in queued:
            if sink.name == self.sink:
                return make_sink(sink, settings.kafka)
        names = ", ".join(sink.name for sink in queued) or "none"
        raise CliError(f"there is no sink {self.sink} in the configuration, only {names}")


class Target:
    """A sink, and what it took."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.name = sink.name

    def deliver(self, entries: Iterable[Entry]) -> int:
        """Deliver entries in order; pass over what the target refuses, and return how many these were.

        Raises:
            CliError: the target failed; it says how far it came.
        """
        entries, delivered, refused = iter(entries), 0, 0
        while batch := list(islice(entries, self._sink.batch)):
            while batch:
                try:
                    self._sink.deliver(batch)
                    taken = len(batch)
                except DeliveryError as error:
                    taken = error.delivered
                    if not error.refused:
                        done = counted(delivered + taken, "event")
                        raise CliError(f"{done} delivered, then it failed: {one_line(error)}") from error
                    refused += 1
                    batch.pop(taken)
                delivered += taken
                del batch[:taken]
        told = f", {refused:,} refused" if refused else ""
        tell(f"{counted(delivered, 'event')} delivered to {self.name}{told}")
        return refused


_LOOK_S = 1.0
_NAME_WIDTH, _SUBJECT_WIDTH = 20, 28
_ERROR, _WARN = 17, 13  # OpenTelemetry's severity numbers

_audit = get_logger(AUDIT)

events_app = typer.Typer(rich_markup_mode=None)

Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="From then on: 2h is two hours ago; or 2026-11-20T10:00:00Z."),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Before then; the same forms.")]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="GLOB", help="Only such events: 'partition.*'. Repeat it for more."),
]
Planned = Annotated[
    bool | None,
    typer.Option("--planned/--unplanned", help="Only what a change explains, or what none does."),
]
Unfold = Annotated[bool, typer.Option("--unfold", help="Show each change of an event that has several.")]
Dead = Annotated[bool, typer.Option("--dead", help="Instead, the dead letters: what sinks gave up.")]


@frozen(kw_only=True)
class Selection:
    """Which entries are wanted."""

    since: datetime | None
    until: datetime | None
    names: Sequence[str] | None
    topics: TopicFilter
    planned: bool | None = None
    dead: bool = False

    def entries(self, outbox: SqliteOutbox, after: int = 0) -> Iterator[Entry]:
        """Yield them, in order."""
        if self.dead:
            given_up = {letter.entry.id: letter.entry for letter in outbox.dead_letters()}
            return (entry for entry in given_up.values() if self._in_time(entry))
        found = outbox.history(since=self.since, until=self.until, names=self.names, after_seq=after)
        about = (entry for entry in found if self.topics.wants_subject(entry.subject))
        # What has no label is neither: its `planned` is None.
        return (e for e in about if self.planned is None or _label(e) is self.planned)

    def _in_time(self, entry: Entry) -> bool:
        return (self.since is None or entry.at >= self.since) and (
            self.until is None or entry.at < self.until
        )


@events_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, in one line on stderr. "
    "`kpe events COMMAND --help` has examples."
)
def events() -> None:
    """List what `kpe observe` has recorded, and deliver it again. The service may be running.

    \b
    kpe events ls --outbox /var/lib/kpe/outbox.db --since 2h --type 'partition.*'
    kpe events tail --config /etc/kpe/kpe.toml
    kpe events show 4cd605e7-7a52-5d0c-9d4e-0b6f6a1c5f10 --config /etc/kpe/kpe.toml
    kpe events replay --config /etc/kpe/kpe.toml --since 2h --sink pager --dry-run
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@events_app.command("ls", short_help="List events.")
@with_options
def ls_command(
    context: typer.Context,
    *,
    since: Since = None,
    until: Until = None,
    type_: Types = None,
    topics: Topics = None,
    planned: Planned = None,
    dead: Dead = False,
    unfold: Unfold = False,
    where: OutboxOptions,
    listing: Listing,
) -> None:
    """List events, oldest first: in a table, or as CloudEvents, one a line.

    What one poll found for one cause is one event: 0-199 of a topic, say. --unfold shows each of them, under
    the id that every observer gives it.

    \b
    kpe events ls --outbox outbox.db --since 2h
    kpe events ls --config kpe.toml --type 'partition.*' --type 'broker.*' --topics 'orders.*'
    kpe events ls --config kpe.toml --since 2026-11-20T10:00Z --until 2026-11-20T12:00Z
    kpe events ls --config kpe.toml --since 7d --unplanned
    kpe events ls --config kpe.toml --since 10m --type partition.offline --unfold
    kpe events ls --outbox outbox.db --output jsonl | jq -r '.data.topic'

    Exit codes: 0 listed, even if there are none; 2 no such outbox, wrong option.
    """  # noqa: D301
    selection = _selection(context.obj, since, until, type_, topics, planned=planned, dead=dead)
    with where.opened() as opened:
        _write(_shown(selection.entries(opened), unfold=unfold), listing)


@events_app.command("tail", short_help="Show events as they are recorded.")
@with_options
def tail_command(
    context: typer.Context,
    *,
    since: Since = None,
    type_: Types = None,
    topics: Topics = None,
    planned: Planned = None,
    unfold: Unfold = False,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Stop after this time.")
    ] = None,
    where: OutboxOptions,
    listing: Listing,
) -> None:
    """Show events as they are recorded, until Ctrl-C; with --since those of before, too.

    \b
    kpe events tail --outbox /var/lib/kpe/outbox.db
    kpe events tail --config kpe.toml --since 1h
    kpe events tail --config kpe.toml --type 'partition.offline' --output jsonl | jq -c .data

    Exit codes: 0 the time of --for is over, or Ctrl-C; 2 no such outbox, wrong option.
    """  # noqa: D301
    services: Services = context.obj
    selection = _selection(services, since, None, type_, topics, planned=planned)
    limit = math.inf if for_ is None else parse_duration(for_)
    with where.opened() as opened, contextlib.suppress(KeyboardInterrupt):
        _write(_shown(_follow(opened, selection, services, limit), unfold=unfold), listing)


@events_app.command("show", short_help="Show one event in full.")
@with_options
def show_command(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The CloudEvent's id.")],
    where: OutboxOptions,
) -> None:
    """Show one event as the CloudEvent that the sinks get.

    \b
    kpe events show 4cd605e7-7a52-5d0c-9d4e-0b6f6a1c5f10 --outbox outbox.db
    kpe events show 4cd605e7-7a52-5d0c-9d4e-0b6f6a1c5f10 --config kpe.toml | jq .data.snapshot

    Exit codes: 0 shown; 2 no such event, no such outbox.
    """  # noqa: D301
    with where.opened() as opened:
        buried = {letter.entry.id: letter.entry for letter in opened.dead_letters()}
        entry = opened.entry(id_) or buried.get(id_)
    if entry is None:
        raise CliError(f"there is no event {id_}; it may have become too old. See `kpe events ls`")
    write_json(json.dumps(json.loads(entry.body), indent=2, ensure_ascii=False))


@events_app.command("replay", short_help="Deliver events again.")
@with_options
def replay_command(
    context: typer.Context,
    *,
    since: Since = None,
    until: Until = None,
    type_: Types = None,
    topics: Topics = None,
    dead: Dead = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List them; deliver nothing.")] = False,
    request: ReplayOptions,
) -> None:
    """Deliver events again, under their own ids, to a sink, in order.

    Receivers that have had them know them by their ids. What waits in the outbox for the sink is not
    affected. Either --since or --dead is required, so that nothing sends everything by mistake.

    \b
    kpe events replay --config kpe.toml --sink pager --since 2h --dry-run
    kpe events replay --config kpe.toml --sink pager --dead
    kpe events replay --config kpe.toml --sink archive --since 2026-11-20T10:00Z --topics 'orders.*'

    Exit codes: 0 delivered; 1 the sink refused some; 2 the sink failed, no such sink or outbox, wrong option.
    """  # noqa: D301
    if since is None and not dead:
        raise CliError("say which events: --since TIME, or --dead for those that sinks gave up")
    with request.opened() as opened, request.target() as target:
        entries = _selection(context.obj, since, until, type_, topics, dead=dead).entries(opened)
        if dry_run:
            _write(entries, Listing())
            tell(f"note: nothing was delivered to {target.name}; it would be")
            return
        what = {"since": since, "until": until, "types": type_, "topics": topics, "dead": dead}
        _audit.info("events.replay_begun", to=target.name, **what)
        refused = target.deliver(entries)
        _audit.info("events.replayed", to=target.name, refused=refused)
    if refused:
        raise typer.Exit(1)


# -- selecting ---------------------------------------------------------------------------------------------


def _selection(
    services: Services,
    since: str | None,
    until: str | None,
    types: Sequence[str] | None,
    topics: str | None,
    *,
    planned: bool | None = None,
    dead: bool = False,
) -> Selection:
    if dead and (types or topics or planned is not None):
        raise CliError("--dead goes with --since and --until only")
    now = services.clock.now()
    return Selection(
        since=None if since is None else parse_moment(since, now),
        until=None if until is None else parse_moment(until, now),
        names=types or None,
        topics=TopicFilter(topics),
        planned=planned,
        dead=dead,
    )


def _label(entry: Entry) -> bool | None:
    planned: bool | None = json.loads(entry.body)["data"].get("planned")
    return planned


def _follow(outbox: SqliteOutbox, selection: Selection, services: Services, limit: float) -> Iterator[Entry]:
    """Yield entries as they come. Another process writes them, so it takes looking, once a second."""
    clock, reader_gone, pause = services.clock, reader_check(sys.stdout), threading.Condition()
    deadline = clock.monotonic() + limit
    last = outbox.last_seq if selection.since is None else 0
    while True:
        # What comes meanwhile lies behind it; what lies before it and does not match is looked at once.
        end = outbox.last_seq
        for entry in selection.entries(outbox, after=last):
            last = entry.seq
            yield entry
        last = max(last, end)
        if reader_gone():
            raise BrokenPipeError
        left = deadline - clock.monotonic()
        if left <= 0:
            return
        with pause:
            clock.wait(pause, min(left, _LOOK_S))


# -- output ------------------------------------------------------------------------------------------------


def _shown(entries: Iterable[Entry], *, unfold: bool) -> Iterable[Entry]:
    if not unfold:
        return entries
    with needing("events"):
        from kafka_partition_events.events.digests import unfold as unfolded  # noqa: PLC0415
    return (each for entry in entries for each in unfolded(entry))


def _write(entries: Iterable[Entry], listing: Listing) -> None:
    form = choose_output(listing.output)
    if form is not Output.TABLE:
        for entry in entries:
            write_json_line(json.loads(entry.body))
        return
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(f"{'TIME':<24}  {'EVENT':<{_NAME_WIDTH}}  {'SUBJECT':<{_SUBJECT_WIDTH}}  ID")
    for entry in entries:
        console.print(_line(entry))
        sys.stdout.flush()


def _line(entry: Entry) -> Text:
    style = "red" if entry.severity >= _ERROR else "yellow" if entry.severity >= _WARN else ""
    return styled(
        (f"{entry.at:%Y-%m-%d %H:%M:%S}.{entry.at.microsecond // 1000:03}Z  ", "dim"),
        (f"{entry.name:<{_NAME_WIDTH}}  ", style),
        (f"{entry.subject or 'cluster':<{_SUBJECT_WIDTH}}  ", "bold"),
        (entry.id, "dim"),
    )
