"""``kpe events ls``: what was recorded."""

import typer

from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import OutputChoice
from kafka_partition_events.cli.events.recorded import Past, write_entries


@with_options
def ls_command(context: typer.Context, *, wanted: Past, output: OutputChoice = None) -> None:
    """List events, oldest first: in a table, or as CloudEvents, one a line.

    \b
    kpe events ls --outbox outbox.db --since 2h
    kpe events ls --config kpe.toml --type 'partition.*' --type 'broker.*' --topics 'orders.*'
    kpe events ls --config kpe.toml --since 2026-11-20T10:00Z --until 2026-11-20T12:00Z
    kpe events ls --config kpe.toml --since 7d | jq -c 'select(.data.planned == false)'
    kpe events ls --outbox outbox.db --output jsonl | jq 'select(.id == "4cd605e7-...")'

    What one poll found for one cause is one event, of 0-199 of a topic, say; data.changes has each of them,
    under the id that every observer gives it.

    Exit codes: 0 listed, even if there are none; 2 no such outbox, wrong option.
    """  # noqa: D301
    with wanted.opened() as outbox:
        write_entries(outbox.path, wanted.chosen(outbox, context.obj.clock.now()), output)
