"""``kpe change cancel``: take back what has not happened, or end the waiting for what has."""

from typing import Annotated

import typer

from kafka_partition_events.cli.change.context import (
    ChangeId,
    CommandOptions,
    Yes,
    command_context,
    confirm,
    give,
)
from kafka_partition_events.cli.change.text import subject
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.protocol.topics import CHANGES
from kafka_partition_events.control.protocol.vocabulary import Verb


@with_options
def cancel_command(
    context: typer.Context,
    change_id: ChangeId,
    *,
    finish: Annotated[
        bool, typer.Option("--finish", help="It has happened: open its gate, and end it.")
    ] = False,
    yes: Yes = False,
    where: ControlOptions,
    options: CommandOptions,
) -> None:
    """Cancel a change that has not happened yet.

    \b
    kpe change cancel -b localhost:9092 orders-24-8f3c09d1 --reason "wrong topic"
    kpe change cancel -b localhost:9092 orders-24-8f3c09d1 --finish --reason "billing is gone"

    Kafka can't shrink a topic, so one that has grown stays so. --finish ends the waiting: producers use
    the new partitions although a group has no position there; with auto.offset.reset=latest it may miss
    records. The change is partially_converged. It asks first.

    Exit codes: 0 done; 1 refused: it has happened, has not, or is finished, or you said no; 2 no such change,
    no terminal to ask on and no --yes, wrong address, unknown option; 3 no tracker has answered.
    """  # noqa: D301
    verb = Verb.FINISH if finish else Verb.CANCEL
    with command_context(context, where, options.output, CHANGES) as at:
        known = at.change(change_id)
        if finish:
            late = ", ".join(known.uncovered_groups)
            without = f" without {late}" if late else ""
            confirm(f"end the change{without}: {subject(known.spec)}, on {at.cluster}", yes=yes)
        give(at, options.command(verb, change_id))
