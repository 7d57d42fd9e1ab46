"""The outbox of `kpe observe`, for the commands that look into it or add to it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from kafka_partition_events.cli.config import read_config
from kafka_partition_events.cli.errors import CliError
from kafka_partition_events.outbox.sqlite_outbox import SqliteOutbox

OutboxFile = Annotated[
    str | None,
    typer.Option(
        "--outbox",
        metavar="PATH",
        help="The outbox of `kpe observe`; by default --config tells.",
    ),
]


@contextlib.contextmanager
def opened_outbox(path: str | None, config: str | None) -> Iterator[SqliteOutbox]:
    """Open the outbox that is there; a service may be at work on it.

    Raises:
        CliError: there is none.
        OutboxError: it can't be opened.
    """
    settings = read_config(config, None if path is None else {"outbox.path": path}).settings.outbox
    if not Path(settings.path).exists():
        raise CliError(
            f"{settings.path}: there is no outbox; kpe observe makes one. Name it with --outbox or --config"
        )
    outbox = SqliteOutbox(settings.path, max_bytes=settings.max_bytes, max_age_s=settings.max_age)
    with contextlib.closing(outbox):
        yield outbox
