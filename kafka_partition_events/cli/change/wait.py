"""``kpe change wait``: wait until a change is over."""

from typing import Annotated

import typer

from kafka_partition_events.cli.change.context import ChangeId, command_context
from kafka_partition_events.cli.change.text import change_line
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN
from kafka_partition_events.cli.common.options import parse_duration, with_options
from kafka_partition_events.cli.common.output import OutputChoice, report
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.protocol.topics import CHANGES
from kafka_partition_events.control.protocol.vocabulary import State


@with_options
def wait_command(
    context: typer.Context,
    change_id: ChangeId,
    *,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Wait no longer than this.")] = "1h",
    output: OutputChoice = None,
    where: ControlOptions,
) -> None:
    """Wait until a change is finished.

    \b
    kpe change wait -b localhost:9092 orders-24-8f3c09d1
    kpe change wait -b localhost:9092 orders-24-8f3c09d1 --timeout 20m | jq .totals

    Shows each state on stderr, and writes the change to stdout in the end.

    Exit codes: 0 converged; 1 finished otherwise (partially_converged, rejected, cancelled, expired); 2 no
    such change, no control topics, wrong address, unknown option; 3 the time was over first.
    """  # noqa: D301
    seconds = parse_duration(timeout)
    with command_context(context, where, output, CHANGES) as at:
        state = None
        for _ in at.polls(seconds):
            change = at.change(change_id)
            if change.state is not state:
                state = change.state
                report(change_line(change))
            if state.final:
                break
        at.show(at.change(change_id))
        if state is None or not state.final:
            report(f"not converged within {seconds:g} s")
            raise typer.Exit(EXIT_UNKNOWN)
        if state is not State.CONVERGED:
            raise typer.Exit(EXIT_DIFFERENT)
