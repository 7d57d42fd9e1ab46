"""What the outbox of `kpe observe` holds, and what of it is wanted."""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from attrs import evolve, frozen

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import ConfigFile, Topics
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    choose_output,
    write_json_line,
    write_line,
)
from kafka_partition_events.cli.common.settings import read_config
from kafka_partition_events.cli.common.topic_filter import TopicFilter
from kafka_partition_events.json_text import json_in
from kafka_partition_events.observe.quantities import parse_duration
from kafka_partition_events.observe.settings import Settings
from kafka_partition_events.outbox import Entry, SqliteOutbox
from kafka_partition_events.outbox.sqlite_file import explained
from kafka_partition_events.outbox.sqlite_schema import DamageFoundError

_NAME_WIDTH, _SUBJECT_WIDTH = 20, 28


@frozen(kw_only=True)
class Recorded:
    """An outbox, and which of its events are wanted: a group of options."""

    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="From then on: 2h is two hours ago; or 2026-11-20T10:00:00Z."),
    ] = None
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="GLOB", help="Only such events: 'partition.*'. Repeat it for more."),
    ] = None
    topics: Topics = None
    outbox: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The outbox of `kpe observe`; default: that of --config."),
    ] = None
    file: ConfigFile = None

    def settings(self, sections: Collection[str] = ("outbox",)) -> Settings:
        """Return the settings in force of some sections."""
        settings = read_config(self.file or os.environ.get("KPE_CONFIG"), sections=sections).settings
        if self.outbox is None:
            return settings
        return evolve(settings, outbox=evolve(settings.outbox, path=self.outbox))

    @contextlib.contextmanager
    def opened(self) -> Iterator[SqliteOutbox]:
        """Open the outbox that is there; a service may be at work on it.

        Raises:
            CliError: there is none.
            OutboxError: it can't be opened.
        """
        settings = self.settings().outbox
        path = Path(settings.path)
        try:
            path.stat()
        except (OSError, ValueError) as error:  # the latter: with a NUL
            raise CliError(
                f"{path}: there is no outbox to be read ({getattr(error, 'strerror', error)}); kpe "
                "observe makes one. Name it by --outbox or --config, and give this user the right to read it"
            ) from error
        outbox = SqliteOutbox(path, max_bytes=settings.max_bytes, max_age_s=settings.max_age)
        with contextlib.closing(outbox):
            yield outbox

    def entries(
        self, outbox: SqliteOutbox, now: datetime, *, until: datetime | None = None, after: int = 0
    ) -> Iterator[Entry]:
        """Yield what is wanted, in order.

        Raises:
            CliError: an option means nothing.
        """
        wanted = TopicFilter(self.topics)
        since = None if self.since is None else parse_moment(self.since, now)
        found = outbox.history(since=since, until=until, names=self.type_, after_seq=after)
        return (entry for entry in found if wanted.wants_subject(entry.subject))


@frozen(kw_only=True)
class Past(Recorded):
    """The same, up to a moment; or what sinks gave up: a group of options."""

    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before then; the same forms.")] = None
    dead: Annotated[bool, typer.Option("--dead", help="Instead, the dead letters: what sinks gave up.")] = (
        False
    )

    def chosen(self, outbox: SqliteOutbox, now: datetime) -> Iterator[Entry]:
        """Yield what is wanted, in order.

        Raises:
            CliError: an option means nothing.
        """
        if not self.dead:
            until = None if self.until is None else parse_moment(self.until, now)
            return self.entries(outbox, now, until=until)
        if self.since or self.until or self.type_ or self.topics:
            raise CliError("--dead goes alone: it is all that sinks gave up")
        return iter(outbox.dead_letters())


def parse_moment(text: str, now: datetime) -> datetime:
    """Return the moment that a duration before now (``2h``) or an ISO-8601 time means; UTC without a zone.

    Raises:
        CliError: it means none.
    """
    with contextlib.suppress(ValueError):
        return now - timedelta(seconds=parse_duration(text))
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise CliError(
            f"{text!r} is no time; write how long ago (30m, 7d; 100 years at most), or 2026-11-20T10:00:00Z"
        ) from None


def write_entries(path: Path, entries: Iterable[Entry], output: OutputChoice) -> None:
    """Write an outbox's entries as they come: in a table, or as CloudEvents; `OutboxError` for no JSON."""
    if choose_output(output) is not Output.TABLE:
        for entry in entries:
            try:
                document = json_in(entry.body)
            except ValueError:
                raise explained(path, DamageFoundError(f"entry {entry.id} is no JSON")) from None
            write_json_line(document)
        return
    write_line(f"{'TIME':<24}  {'EVENT':<{_NAME_WIDTH}}  {'SUBJECT':<{_SUBJECT_WIDTH}}  ID")
    for entry in entries:
        time = f"{entry.at:%Y-%m-%d %H:%M:%S}.{entry.at.microsecond // 1000:03}Z"
        write_line(
            f"{time}  {entry.name:<{_NAME_WIDTH}}  {entry.subject or 'cluster':<{_SUBJECT_WIDTH}}  {entry.id}"
        )
