"""``kpe diff``: what happened between two snapshots."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from kafka_partition_events.cli.cluster.printer import Printer
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError
from kafka_partition_events.cli.common.output import Output, OutputChoice, choose_output, report
from kafka_partition_events.events.snapshot_json import CodecError, Snapshot, decode_snapshot
from kafka_partition_events.json_text import json_in
from kafka_partition_events.metadata.diff import diff

_STDIN = "-"


def diff_command(
    old: Annotated[str, typer.Argument(metavar="A", help="The earlier snapshot.")],
    new: Annotated[str, typer.Argument(metavar="B", help="The later snapshot; one of the two may be -.")],
    output: OutputChoice = None,
) -> None:
    """Show what happened between two snapshots, in the words of `kpe watch`. Needs no cluster.

    \b
    kpe diff before.json after.json
    kpe snapshot -b localhost:9092 | kpe diff before.json -

    Exit codes: 0 the same; 1 different; 2 a file can't be read or is no snapshot.
    """  # noqa: D301
    if show_difference(old, new, choose_output(output)):
        raise typer.Exit(EXIT_DIFFERENT)


def show_difference(old: str, new: str, output: Output) -> bool:
    """Write what happened between two snapshot files; return whether anything did.

    Raises:
        CliError: a file can't be read or is no snapshot.
    """
    if old == new == _STDIN:
        raise CliError("one of the two can come from standard input, not both")
    before, after = _read(old), _read(new)
    ids = {before.cluster.cluster_id, after.cluster.cluster_id}
    if None not in ids and len(ids) > 1:
        report(f"note: {old} and {new} are snapshots of different clusters")
    events = diff(before.cluster, after.cluster, wall_time=after.taken_at, previous_at=before.taken_at)
    printer = Printer(output, timed=False)
    for event in events:
        printer.event(event)
    return bool(events)


def _read(name: str) -> Snapshot:
    try:
        text = sys.stdin.read() if name == _STDIN else Path(name).read_text(encoding="utf-8")
        return decode_snapshot(json_in(text))
    except OSError as error:
        raise CliError(f"{name}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{name}: not a text file in UTF-8") from error
    except CodecError as error:
        raise CliError(f"{name}: {error}") from error
    except ValueError as error:
        raise CliError(f"{name}: not JSON: {error}") from error
