"""``kpe events replay``: what was recorded, to a sink, under the same ids."""

import contextlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated

import typer

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError, one_line
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import report
from kafka_partition_events.cli.events.recorded import Past
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import AUDIT, get_logger
from kafka_partition_events.observe.settings import AlertmanagerSinkSettings, Settings
from kafka_partition_events.observe.sinks import make_sink
from kafka_partition_events.outbox import DeliveryError, Entry, Sink
from kafka_partition_events.outbox.sink import DECLINES

_audit = get_logger(AUDIT)


@with_options
def replay_command(
    context: typer.Context,
    sink: Annotated[str, typer.Option("--sink", metavar="NAME", help="The sink of --config that gets them.")],
    *,
    wanted: Past,
) -> None:
    """Deliver events again, under their own ids, to a sink, in order.

    \b
    kpe events replay --config kpe.toml --sink pager --since 2h
    kpe events replay --config kpe.toml --sink pager --dead
    kpe events replay --config kpe.toml --sink archive --since 2026-11-20T10:00Z --topics 'orders.*'

    `kpe events ls` with the same options lists them. Receivers that have had them know them by their ids.
    What waits in the outbox for the sink is not affected. Either --since or --dead is required, so that
    nothing sends everything by mistake.

    Exit codes: 0 delivered; 1 the sink refused some; 2 the sink failed, no such sink or outbox, wrong option.
    """  # noqa: D301
    if wanted.since is None and not wanted.dead:
        raise CliError("say which events: --since TIME, or --dead for those that sinks gave up")
    settings = wanted.settings(("kafka", "outbox", "sinks"))
    with wanted.opened() as outbox, _opened(sink, settings) as target:
        entries = wanted.chosen(outbox, context.obj.clock.now())
        what = {"since": wanted.since, "until": wanted.until, "types": wanted.type_, "topics": wanted.topics}
        _audit.info("events.replay_begun", to=target.name, dead=wanted.dead, **what)
        refused = _deliver(target, entries)
        _audit.info("events.replayed", to=target.name, refused=refused)
    if refused:
        raise typer.Exit(EXIT_DIFFERENT)


@contextlib.contextmanager
def _opened(name: str, settings: Settings) -> Iterator[Sink]:
    queued = [sink for sink in settings.sinks if not isinstance(sink, AlertmanagerSinkSettings)]
    chosen = next((sink for sink in queued if sink.name == name), None)
    if chosen is None:
        names = ", ".join(sink.name for sink in queued) or "none"
        raise CliError(f"there is no sink {name} in the configuration, only {names}")
    try:
        sink = make_sink(chosen, settings.kafka)
    except (ConfigurationError, ImportError) as error:
        raise CliError(one_line(error)) from error
    with contextlib.closing(sink):
        yield sink


def _deliver(sink: Sink, entries: Iterable[Entry]) -> int:
    """Deliver entries in order; pass over what the sink refuses, and return how many these were.

    Raises:
        CliError: the sink failed; it says how far it came.
    """
    entries, delivered, refused = iter(entries), 0, 0
    while batch := list(islice(entries, sink.batch)):
        while batch:
            try:
                sink.deliver(batch)
                taken = len(batch)
            except DeliveryError as error:
                taken = error.delivered
                if error.refused:
                    refused += 1
                    batch.pop(taken)
                elif error.reason not in DECLINES:  # else it is tried again, and refused the third time
                    done = counted(delivered + taken, "event")
                    raise CliError(f"{done} delivered, then it failed: {one_line(error)}") from error
            delivered += taken
            del batch[:taken]
    refusals = f", {refused:,} refused" if refused else ""
    report(f"{counted(delivered, 'event')} delivered to {sink.name}{refusals}")
    return refused
