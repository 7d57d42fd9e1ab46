"""``kpe change cancel``: take back what has not happened, or end the waiting for what has."""

from typing import Annotated

import typer

from kafka_partition_events.cli.change.context import ChangeId, CommandOptions, Yes, command_context, give
from kafka_partition_events.cli.change.text import subject
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.protocol.topics import CHANGES
from kafka_partition_events.control.protocol.vocabulary import Verb


@with_options
def cancel_command(
    context: typer.Context,
    change_id: ChangeId,
    *,
    open_gate: Annotated[
        bool, typer.Option("--open-gate", help="It has happened: let producers use the partitions.")
    ] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="It has happened: end it, although not all have followed.")
    ] = False,
    yes: Yes = False,
    where: ControlOptions,
    options: CommandOptions,
) -> None:
    """Cancel a change that has not happened yet.

    \b
    kpe change cancel -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --reason "wrong topic"
    kpe change cancel -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --open-gate --reason "billing is gone"
    kpe change cancel -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --finish --yes

    Kafka can't shrink a topic, so one that has grown stays so. --open-gate lets producers use the new
    partitions although a group has no position there: with auto.offset.reset=latest it may miss records. An
    ended change is partially_converged. Both ask first.

    Exit codes: 0 done; 1 refused: it has happened, has not, or is finished, or you said no; 2 no such change,
    no terminal to ask on and no --yes, wrong address, unknown option; 3 no tracker has answered.
    """  # noqa: D301
    if open_gate and finish:
        raise CliError("say one of --open-gate and --finish")
    verb = Verb.OPEN_GATE if open_gate else Verb.FINISH if finish else Verb.CANCEL
    with command_context(context, where, options.output, CHANGES) as at:
        known = at.change(change_id)
        if verb is not Verb.CANCEL:
            late = ", ".join(known.uncovered_groups)
            without = f" without {late}" if late else ""
            what = "open the gate" if open_gate else "end the change"
            options.confirm(f"{what}{without}: {subject(known.spec)}, on {at.cluster}", yes=yes)
        give(at, options, verb, change_id)
