"""``kpe change ls`` and ``kpe change show``: changes as they are."""

from typing import Annotated

import typer

from kafka_partition_events.cli.change.context import ChangeId, command_context
from kafka_partition_events.cli.change.text import change_cells, document
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import OutputChoice, report, write_list
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.protocol.topics import CHANGES


@with_options
def ls_command(
    context: typer.Context,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Those that are finished, too.")] = False,
    where: ControlOptions,
    output: OutputChoice = None,
) -> None:
    """List changes: state, what they are about, how many producers have followed.

    \b
    kpe change ls -b localhost:9092
    kpe change ls -b localhost:9092 --all --output jsonl | jq -r '[.change_id, .state] | @tsv'

    In a pipe each is the JSON record that it is in kpe.changes, by the schema control.change of `kpe assets`.

    Exit codes: 0 listed, even if there are none; 2 no control topics, wrong address, unknown option.
    """  # noqa: D301
    with command_context(context, where, output, CHANGES) as at:
        changes = sorted(at.client.ledger.changes.values(), key=lambda change: change.requested_ms)
    shown = [change for change in changes if all_ or not change.state.final]
    write_list(shown, output, document, ("CHANGE", "STATE", "SUBJECT", "FOLLOWED BY"), change_cells)
    if not shown:
        report("note: there is no change" if all_ else "note: no change is open; --all shows finished ones")


@with_options
def show_command(
    context: typer.Context, change_id: ChangeId, *, output: OutputChoice = None, where: ControlOptions
) -> None:
    """Show one change: its state, who has followed, what is not verified, which commands were refused.

    \b
    kpe change show -b localhost:9092 orders-24-8f3c09d1
    kpe change show -b localhost:9092 orders-24-8f3c09d1 | jq .totals

    In a pipe it is the JSON record that it is in kpe.changes, by the schema control.change of `kpe assets`.
    Times are the brokers', in UTC. `kpe change wait` follows one until it is over.

    Exit codes: 0 shown; 2 no such change, no control topics, wrong address, unknown option.
    """  # noqa: D301
    with command_context(context, where, output, CHANGES) as at:
        at.show(at.change(change_id))
