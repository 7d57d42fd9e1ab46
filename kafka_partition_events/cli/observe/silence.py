"""``kpe silence``: keep sinks quiet about what is expected. The journal goes on."""

import json
import os
import uuid
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Annotated

import typer

from kafka_partition_events.cli.common.errors import CliError, needing
from kafka_partition_events.cli.common.options import parse_duration, with_options
from kafka_partition_events.cli.common.output import Listing, tell, write_json, write_line
from kafka_partition_events.cli.observe.config import OutboxOptions
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe.settings import OF_CONFIGURATION

_PREFIX = "silence/"  # the outbox's name of it, without the id

silence_app = typer.Typer(rich_markup_mode=None)


@silence_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, in one line on stderr. "
    "`kpe silence COMMAND --help` has examples."
)
def silence() -> None:
    """Mute notifications of what is expected: work on a broker, a topic about to be deleted.

    A silence is for sinks that get incidents. The journal, sinks that get events, and metrics are not
    affected. When a silence ends, one event says what was muted. Weekly windows are in the configuration:
    [[windows]].

    \b
    kpe silence add --config kpe.toml --broker 2 --for 2h --reason "new disks"
    kpe silence ls --config kpe.toml
    kpe silence rm 1f0c2a9e --config kpe.toml
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@silence_app.command("add", short_help="Begin a silence.")
@with_options
def add_command(
    context: typer.Context,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; others will want to know.")],
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long: 30m, 2h, 1d.")],
    *,
    topics: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Topics by whole name; what concerns others, too, is not muted."),
    ] = None,
    broker: Annotated[int | None, typer.Option(metavar="ID", help="The broker concerned.")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="ID", help="The cluster's id.")] = None,
    event: Annotated[
        str | None,
        typer.Option(
            metavar="GLOB", help="Names, as `kpe events ls --stream incidents` has them; '*' is all."
        ),
    ] = None,
    author: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who wants it; by default $USER.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the record; write nothing.")] = False,
    where: OutboxOptions,
) -> None:
    """Mute from now on what matches all that is given of --topics, --broker, --cluster and --event.

    At least one of the four is needed. A sink that was notified of a beginning is notified of the end.

    \b
    kpe silence add --config kpe.toml --broker 2 --for 2h --reason "new disks"
    kpe silence add --config kpe.toml --topics 'test-.*' --for 1d --reason "load test" --author noc
    kpe silence add --outbox outbox.db --event '*' --for 30m --reason "upgrade" --dry-run

    Exit codes: 0 it is in the outbox, and its id was written; 2 no such outbox, wrong option.
    """  # noqa: D301
    if topics is None and broker is None and cluster is None and event is None:
        raise CliError(
            "say what is to be muted: --topics, --broker, --cluster or --event; --event '*' is all"
        )
    services: Services = context.obj
    silences, now = _silences(), services.clock.now().astimezone(UTC)
    silence = silences.Silence(
        id=uuid.uuid4().hex[:8],
        author=author or os.environ.get("USER", ""),
        reason=reason,
        since=now,
        until=now + timedelta(seconds=parse_duration(for_)),
        cluster=cluster,
        topic=topics,
        broker=broker,
        name=event,
    )
    record = silences.encode_silence(silence)
    if dry_run:
        write_json(record.decode())
        tell("note: nothing was written; it would be")
        return
    with where.trail(services).act("silence.added", silence=json.loads(record)):
        where.share(silence.key, record)
    write_line(silence.id)


@silence_app.command("ls", short_help="List silences.")
@with_options
def ls_command(
    context: typer.Context,
    where: OutboxOptions,
    listing: Listing,
) -> None:
    """List silences and weekly windows, and whether each mutes now.

    \b
    kpe silence ls --config kpe.toml
    kpe silence ls --outbox outbox.db --output jsonl | jq -r .reason

    Exit codes: 0 listed, even if there are none; 2 no such outbox, wrong option.
    """  # noqa: D301
    services: Services = context.obj
    now = services.clock.now()
    with where.opened() as opened:
        stored = opened.values(_PREFIX)
    records, odd = [], []
    for name, record in sorted(stored.items()):
        try:
            _silences().decode_silence(record)
        except ConfigurationError:  # anybody who may write to the shared topic may have written it
            odd.append(name)
        else:
            records.append(record)
    if odd:
        tell(f"note: {len(odd):,} that nobody understands mute nothing, are not listed: {', '.join(odd[:3])}")
    listing.write(
        records,
        json.loads,
        (),
        lambda record: (_in_words(record, now),),
    )


@silence_app.command("rm", short_help="End a silence.")
@with_options
def rm_command(
    context: typer.Context,
    id_: Annotated[str, typer.Argument(metavar="ID", help="As `kpe silence ls` shows it.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the record; remove nothing.")] = False,
    where: OutboxOptions,
) -> None:
    """End a silence now.

    \b
    kpe silence rm 1f0c2a9e --config kpe.toml
    kpe silence rm 1f0c2a9e --outbox outbox.db --dry-run

    Exit codes: 0 it is gone; 2 there is none of that id, it is a window of the configuration, no such outbox.
    """  # noqa: D301
    if id_.startswith(OF_CONFIGURATION):
        name = id_.removeprefix(OF_CONFIGURATION)
        raise CliError(f"{id_} is the window {name} of the configuration: remove it there, and restart")
    key = f"{_PREFIX}{id_}"
    with where.opened() as opened:
        record = opened.values(key).get(key)
    if record is None:
        raise CliError(f"there is no silence {id_}; see `kpe silence ls`")
    if not dry_run:
        with where.trail(context.obj).act("silence.removed", silence=json.loads(record)):
            where.share(key, None)
    if dry_run:
        write_json(record.decode())
        tell("note: nothing was removed; it would be")


def _in_words(record: bytes, now: datetime) -> str:
    """Return a line that tells one silence, and whether it mutes now.

    Raises:
        ConfigurationError: the record is no silence.
    """
    silence = _silences().decode_silence(record)
    end = silence.end_after(now)
    if end is not None:
        state = f"until {end:%Y-%m-%d %H:%MZ}"
    elif silence.weekly is not None:
        state = f"each {silence.weekly}"
    else:
        state = "over"
    matchers = {
        "cluster": silence.cluster,
        "topic": silence.topic,
        "broker": silence.broker,
        "event": silence.name,
    }
    told = " ".join(f"{name}={value}" for name, value in matchers.items() if value is not None)
    return f"{silence.id:<16}  {state:<23}  {told:<24}  {silence.author}: {silence.reason}"


def _silences() -> ModuleType:
    """Return the module that knows them; it takes the extra of the service."""
    with needing("observe"):
        from kafka_partition_events.incidents import silences  # noqa: PLC0415
    return silences
