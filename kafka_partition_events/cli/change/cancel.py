"""``kpe change cancel``: take back what has not happened, or end the waiting for what is overdue."""

import typer

from kafka_partition_events.cli.change.context import ChangeId, CommandOptions, command_context, give
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.protocol.topics import CHANGES
from kafka_partition_events.control.protocol.vocabulary import Verb


@with_options
def cancel_command(
    context: typer.Context, change_id: ChangeId, *, where: ControlOptions, options: CommandOptions
) -> None:
    """Cancel a change that has not happened yet, or end the waiting for one that is overdue.

    \b
    kpe change cancel -b localhost:9092 orders-24-8f3c09d1 --reason "wrong topic"

    Kafka can't shrink a topic, so one that has grown stays so: until the deadline the change waits for who
    follows. No command opens a gate: evidence does, or the deadline. One that is overdue ends as
    partially_converged.

    Exit codes: 0 done; 1 refused: it has happened and is not overdue, or is finished; 2 no such change,
    wrong address, unknown option; 3 no tracker has answered.
    """  # noqa: D301
    with command_context(context, where, options.output, CHANGES) as at:
        at.change(change_id)
        give(at, options.command(Verb.CANCEL, change_id))
