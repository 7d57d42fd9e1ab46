"""``kpe change wait``: wait until producers are ready for a change, or until it is over."""

from typing import Annotated

import typer

from kafka_partition_events.cli.change.context import ChangeId, command_context
from kafka_partition_events.cli.change.text import change_line
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN, CliError
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import parse_duration, with_options
from kafka_partition_events.cli.common.output import OutputChoice, tell
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.changes.evidence import GROUPS_UNKNOWN
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.topics import CHANGES
from kafka_partition_events.control.protocol.vocabulary import State


@with_options
def wait_command(
    context: typer.Context,
    change_id: ChangeId,
    *,
    armed: Annotated[
        bool, typer.Option("--armed", help="Until every live producer holds the gate; else until it is over.")
    ] = False,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Wait no longer than this.")] = "1h",
    output: OutputChoice = None,
    where: ControlOptions,
) -> None:
    """Wait until a change is finished, or until every live producer holds its gate.

    \b
    kpe change wait -b localhost:9092 orders-24-8f3c09d1 --armed --timeout 5m &&
        kafka-topics.sh --bootstrap-server localhost:9092 --alter --topic orders --partitions 24
    kpe change wait -b localhost:9092 orders-24-8f3c09d1

    If you let a topic grow by hand, wait until producers are armed, and then do it: so no producer writes to
    the new partitions before consumers have a position there. Shows each state on stderr, and writes the
    change to stdout in the end.

    Exit codes: 0 armed, or converged; 1 it can't be any more: finished otherwise (partially_converged,
    rejected, cancelled, expired), or it happened while some were not armed; 2 no such change, no
    gate to arm, no control topics, wrong address, unknown option; 3 the time was over first.
    """  # noqa: D301
    seconds = parse_duration(timeout)
    with command_context(context, where, output, CHANGES) as at:
        change = at.change(change_id)
        if armed and not change.spec.gate:
            raise CliError(f"{change_id} has no gate: no producer is to be armed")
        state, reached = None, None
        for _ in at.looks(seconds):
            change = at.change(change_id)
            if change.state is not state:
                state = change.state
                tell(change_line(change))
            reached = is_armed(change) if armed else is_converged(change)
            if reached is not None:
                break
        at.show(change)
        if reached is None:
            lacking = missing(change) if armed else ""
            tell(f"not {'armed' if armed else 'converged'} within {seconds:g} s{lacking}")
            raise typer.Exit(EXIT_UNKNOWN)
        if armed and change.totals.unarmed:
            tell(f"it happened while {counted(change.totals.unarmed, 'producer')} did not hold the gate")
        elif armed and reached:
            tell(f"{counted(change.totals.live, 'live producer')} hold the gate")
        if not reached:
            raise typer.Exit(EXIT_DIFFERENT)


def is_converged(change: Change) -> bool | None:
    """Return whether all have followed; None as long as the change is open."""
    return change.state is State.CONVERGED if change.state.final else None


def is_armed(change: Change) -> bool | None:
    """Return whether all producers hold the gate, and groups are known; None: not yet."""
    if change.state.happened or change.state.final:
        return change.state.happened and not change.totals.unarmed
    return None if missing(change) else True


def missing(change: Change) -> str:
    """Return what is missing until all producers are armed, in words."""
    if change.totals.unarmed:
        return f": {counted(change.totals.unarmed, 'producer')} not known to hold the gate"
    unknown = GROUPS_UNKNOWN in change.unverified or change.revision == 1
    return ": the tracker does not yet know which groups to wait for" if unknown else ""
