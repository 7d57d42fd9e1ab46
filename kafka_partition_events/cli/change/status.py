"""``kpe change status``: changes as they are, live on a terminal."""

import math
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from kafka_partition_events.cli.change.session import Session, session
from kafka_partition_events.cli.change.text import change_line, document
from kafka_partition_events.cli.common.event_text import styled
from kafka_partition_events.cli.common.options import Bootstrap, ClientOptions, OutputChoice, Prefix, Verbose
from kafka_partition_events.cli.common.output import Output, choose_output, tell, write_json_line, write_line
from kafka_partition_events.control.changes.progress import steps
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.topics import CHANGES, PREFIX


def status_command(
    context: typer.Context,
    bootstrap: Bootstrap,
    change_id: Annotated[
        str | None, typer.Argument(metavar="[CHANGE]", help="One change; default: all that are open.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Those that are finished, too.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Show it once, also on a terminal.")] = False,
    client_options: ClientOptions = None,
    prefix: Prefix = PREFIX,
    output: OutputChoice = None,
    verbose: Verbose = False,
) -> None:
    """Show changes: their state, who has followed, what is not verified, and which commands were refused.

    One change that is open is followed on a terminal, with progress bars, until it is finished or you press
    Ctrl-C. In a pipe each change is written once, as the JSON record that it is in kpe.changes: see
    docs/change-control.md for its fields. Times are the brokers', in UTC.

    \b
    kpe change status -b localhost:9092
    kpe change status -b localhost:9092 --all --output jsonl | jq -r '[.change_id, .state] | @tsv'
    kpe change status -b localhost:9092 01JD5V1ZJ8Q0000000000000AB
    kpe change status -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --once

    Exit codes: 0 shown, even if there are none; 2 no such change, no control topics, wrong address, unknown
    option.
    """  # noqa: D301
    console = Console(highlight=False, markup=False, emoji=False)
    follows = (
        change_id is not None and console.is_terminal and choose_output(output) is Output.TABLE and not once
    )
    reads = (*CHANGES, "acks") if follows else CHANGES
    with session(
        context, bootstrap, client_options, prefix=prefix, output=output, verbose=verbose, reads=reads
    ) as at:
        if change_id is None:
            _list(at, every=all_)
        elif follows:
            _follow(at, change_id, console)
        else:
            at.show(at.change(change_id))


def _list(at: Session, *, every: bool) -> None:
    changes = sorted(at.desk.ledger.changes.values(), key=lambda change: change.requested_ms)
    shown = [change for change in changes if every or not change.state.final]
    for change in shown:
        if at.output is Output.JSONL:
            write_json_line(document(change))
        else:
            write_line(change_line(change))
    if not shown:
        tell("note: there is no change" if every else "note: no change is open; --all shows finished ones")


def _follow(at: Session, change_id: str, console: Console) -> None:
    """Show bars that change, and above them each state that the change was in."""
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        bars = _Bars(progress)
        for _ in at.looks(math.inf):
            change = at.change(change_id)
            bars.show(change, at)
            if change.state.final:
                break
    at.show(at.change(change_id))


class _Bars:
    """The bars of one change."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._state = ""

    def show(self, change: Change, at: Session) -> None:
        """Show how far the change is now."""
        if change.state != self._state:
            self._state = change.state
            self._progress.console.print(styled((change_line(change), "")))
        for step in steps(change, at.desk.ledger):
            if step.label not in self._tasks:
                self._tasks[step.label] = self._progress.add_task(step.label, total=None)
            self._progress.update(self._tasks[step.label], completed=step.done, total=step.total)
