"""``kpe change ls`` and ``kpe change show``: changes as they are, one of them live on a terminal."""

import math
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from kafka_partition_events.cli.change.session import ChangeId, Session, session
from kafka_partition_events.cli.change.text import change_cells, change_line, document
from kafka_partition_events.cli.common.event_text import styled
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import Listing, Output, OutputChoice, choose_output, tell
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.changes.progress import steps
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.topics import CHANGES


@with_options
def ls_command(
    context: typer.Context,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Those that are finished, too.")] = False,
    where: ControlOptions,
    listing: Listing,
) -> None:
    """List changes: state, what they are about, how many producers have followed.

    In a pipe each is the JSON record that it is in kpe.changes, by the schema control.change of `kpe assets`.

    \b
    kpe change ls -b localhost:9092
    kpe change ls -b localhost:9092 --all --output jsonl | jq -r '[.change_id, .state] | @tsv'

    Exit codes: 0 listed, even if there are none; 2 no control topics, wrong address, unknown option.
    """  # noqa: D301
    with session(context, where, listing.output, CHANGES) as at:
        changes = sorted(at.desk.ledger.changes.values(), key=lambda change: change.requested_ms)
    shown = [change for change in changes if all_ or not change.state.final]
    listing.write(shown, document, ("CHANGE", "STATE", "SUBJECT", "FOLLOWED BY"), change_cells)
    if not shown:
        tell("note: there is no change" if all_ else "note: no change is open; --all shows finished ones")


@with_options
def show_command(
    context: typer.Context,
    change_id: ChangeId,
    *,
    once: Annotated[bool, typer.Option("--once", help="Show it once, also on a terminal.")] = False,
    output: OutputChoice = None,
    where: ControlOptions,
) -> None:
    """Show one change: its state, who has followed, what is not verified, which commands were refused.

    One that is open is followed on a terminal, with progress bars, until it is finished or you press Ctrl-C.
    In a pipe it is written once, as the JSON record that it is in kpe.changes, by the
    schema control.change of `kpe assets`. Times are the brokers', in UTC.

    \b
    kpe change show -b localhost:9092 01JD5V1ZJ8Q0000000000000AB
    kpe change show -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --once

    Exit codes: 0 shown; 2 no such change, no control topics, wrong address, unknown option.
    """  # noqa: D301
    console = Console(highlight=False, markup=False, emoji=False)
    follows = console.is_terminal and choose_output(output) is Output.TABLE and not once
    with session(context, where, output, (*CHANGES, "acks") if follows else CHANGES) as at:
        if follows:
            _follow(at, change_id, console)
        else:
            at.show(at.change(change_id))


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
