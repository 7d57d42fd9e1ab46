"""``kpe sink``: where the service delivers to, and whether that works."""

import contextlib
import threading
from collections.abc import Mapping
from datetime import timedelta
from types import ModuleType
from typing import Annotated, Final

import typer

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError, needing, one_line
from kafka_partition_events.cli.common.options import parse_duration, with_options
from kafka_partition_events.cli.common.output import Listing, tell, write_line
from kafka_partition_events.cli.common.settings import FileOptions
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe.settings import Settings
from kafka_partition_events.observe.sink_settings import SinkSettings
from kafka_partition_events.observe.sinks import described_target, make_sink
from kafka_partition_events.outbox import DeliveryError, Entry, Sink

_CURES: Final[Mapping[str, str]] = {
    "connect": "is it up, and may this host reach it?",
    "timeout": "is it up, and may this host reach it? Or raise timeout",
    "tls": "look at its certificate, and at the authorities that this host knows",
    "http_400": "it takes no such message: look at its key and at the sink's type and format",
    "http_429": "it takes no more for now: try later",
}

sink_app = typer.Typer(rich_markup_mode=None)


@sink_app.callback(
    epilog="Exit codes: 0 all is well; 1 a sink does not work; 2 error, in one line on stderr. "
    "`kpe sink COMMAND --help` has examples."
)
def sink() -> None:
    """List the sinks of the configuration, and test them before they are needed.

    \b
    kpe sink ls --config kpe.toml
    kpe sink test pager --config kpe.toml
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@sink_app.command("ls", short_help="List the sinks of the configuration.")
@with_options
def ls_command(*, configuration: FileOptions, listing: Listing) -> None:
    """List the sinks of the configuration. Nothing is connected to; secrets are masked.

    \b
    kpe sink ls --config /etc/kpe/kpe.toml
    kpe sink ls --config kpe.toml --output jsonl | jq -r .name

    Exit codes: 0 listed, even if there are none; 2 the configuration is wrong.
    """  # noqa: D301
    listing.write(
        configuration.read().settings.sinks,
        _document,
        ("NAME", "TYPE", "STREAM", "TARGET"),
        lambda each: tuple(_document(each).values()),
    )


@sink_app.command("test", short_help="Send a test incident to a sink.")
@with_options
def try_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `kpe sink ls` shows it.")],
    *,
    hold: Annotated[
        str | None,
        typer.Option(
            "--hold",
            metavar="DURATION",
            help="How long the incident lasts: 30s, 2m. By default it is over at once.",
        ),
    ] = None,
    configuration: FileOptions,
) -> None:
    """Send a test incident to a sink: that it began, and that it is over. It says that it is a test.

    It goes the way of a real one, so an operator may be paged. Nothing is retried, and no outbox is touched.
    An Alertmanager waits before it notifies (group_wait), and sends nothing of what is over by then: let the
    incident last longer, but for less than four times the sink's repeat_interval. Ctrl-C ends it early.

    \b
    kpe sink test pager --config /etc/kpe/kpe.toml
    kpe sink test alertmanager --config kpe.toml --hold 1m

    Exit codes: 0 the target took both; 1 it did not, with the reason; 2 no such sink, its settings are of no
    use.
    """  # noqa: D301
    services: Services = context.obj
    seconds = 0.0 if hold is None else parse_duration(hold)
    settings = configuration.read().settings
    chosen = _chosen(name, settings)
    tests = _tests()
    try:
        target = make_sink(chosen, settings.kafka)
    except (ConfigurationError, ImportError) as error:
        raise CliError(one_line(error)) from error
    opened_at = services.clock.now()
    with contextlib.closing(target):
        where = described_target(chosen)
        _deliver(target, tests.opened(opened_at), where)
        try:
            _wait(services, seconds)
        finally:  # Ctrl-C, too: nobody else would ever end it
            closed_at = max(services.clock.now(), opened_at + timedelta(milliseconds=1))
            _deliver(target, tests.closed(opened_at, closed_at), where)
    write_line(f"{name} works: the test incident has begun and is over at {where}")


def _document(each: SinkSettings) -> dict[str, str]:
    return {
        "name": each.name,
        "type": each.type,
        "stream": each.stream,
        "target": described_target(each),
    }


def _chosen(name: str, settings: Settings) -> SinkSettings:
    for each in settings.sinks:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in settings.sinks) or "none"
    raise CliError(f"there is no sink {name} in the configuration, only {names}")


def _deliver(target: Sink, entry: Entry, where: str) -> None:
    """Deliver one entry, and tell how that went; end with an exit code if it did not."""
    try:
        target.deliver([entry])
    except DeliveryError as error:
        cure = _CURES.get(error.reason, "")
        tell(f"{entry.name} was not taken: {one_line(error)}{f'; {cure}' if cure else ''}")
        raise typer.Exit(EXIT_DIFFERENT) from error
    tell(f"{entry.name} was taken by {where}")


def _wait(services: Services, seconds: float) -> None:
    deadline, pause = services.clock.monotonic() + seconds, threading.Condition()
    with pause:
        while (left := deadline - services.clock.monotonic()) > 0:
            services.clock.wait(pause, left)


def _tests() -> ModuleType:
    """Return the module that makes incidents; it takes the extra of the service."""
    with needing("observe"):
        from kafka_partition_events.incidents import rehearsal  # noqa: PLC0415
    return rehearsal
