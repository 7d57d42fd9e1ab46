"""``kpe change``: ask for a change of partitions, follow it, and take it back."""

from collections.abc import Callable
from typing import Annotated, Final

import typer

from kafka_partition_events.cli.change.history import history_command
from kafka_partition_events.cli.change.limits import limits_command
from kafka_partition_events.cli.change.plan import plan_command
from kafka_partition_events.cli.change.request import request_command
from kafka_partition_events.cli.change.session import ChangeId, Giving, Yes, approve, give, session
from kafka_partition_events.cli.change.show import ls_command, show_command
from kafka_partition_events.cli.change.text import subject
from kafka_partition_events.cli.change.wait import wait_command
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.protocol.records import Approval, Command
from kafka_partition_events.control.protocol.topics import CHANGES
from kafka_partition_events.control.protocol.vocabulary import Verb

change_app = typer.Typer(rich_markup_mode=None)
change_app.command("plan", short_help="Show what a change would do.")(plan_command)
change_app.command("request", short_help="Request a change.")(request_command)
change_app.command("ls", short_help="List changes.")(ls_command)
change_app.command("show", short_help="Show one change, live on a terminal.")(show_command)
change_app.command("history", short_help="Show who requested what of a topic, and what came of it.")(
    history_command
)
change_app.command("limits", short_help="Show what producers leave unused now.")(limits_command)
change_app.command("wait", short_help="Wait until producers are ready, or until it is over.")(wait_command)


@change_app.callback(
    epilog="Exit codes: 0 done; 1 the tracker has refused it, with the reason; 2 error, in one line on "
    "stderr; 3 no tracker has answered. Those of plan and wait are their own. "
    "`kpe change COMMAND --help` has examples."
)
def change() -> None:
    """Change the partitions of a topic, and see who has followed.

    A command is a record in kpe.commands, an approval one in kpe.approvals. The tracker (`kpe tracker`)
    answers in kpe.changes; producers and consumers with the library follow that, and say so in kpe.acks.
    Needs the topics of `kpe topics init`.

    \b
    kpe change plan -b localhost:9092 --topic orders --to 24 --gate consumers-first
    kpe change request -b localhost:9092 --topic orders --to 24 --gate consumers-first --execute
    kpe change ls -b localhost:9092
    kpe change wait -b localhost:9092 01JD5V1ZJ8Q0000000000000AB
    kpe ack ls -b localhost:9092 --pending 01JD5V1ZJ8Q0000000000000AB
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


def _giving(verb: Verb) -> Callable[..., None]:
    """Return what gives a command that says nothing but which change it is about."""

    @with_options
    def command(
        context: typer.Context,
        change_id: ChangeId,
        where: ControlOptions,
        giving: Giving,
    ) -> None:
        with session(context, where, giving.output, CHANGES) as at:
            at.change(change_id)
            give(_command(verb, change_id, giving), at, giving)

    return command


@change_app.command("approve", short_help="Approve another person's request.")
@with_options
def approve_command(
    context: typer.Context,
    change_id: ChangeId,
    where: ControlOptions,
    giving: Giving,
) -> None:
    """Approve a change as it stands, where its request or the tracker's policy requires approval.

    Writes to kpe.approvals, where by Kafka's ACLs only those may write who may approve: `kpe topics init
    --print-acls` prints them. The name that requested it can't approve it.

    \b
    kpe change approve -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --actor bob

    Exit codes: 0 approved; 1 it would count for nothing: the same person, or there is nothing to approve any
    more; 2 no such change, no right to approve, wrong address, unknown option; 3 no tracker has answered.
    """  # noqa: D301
    with session(context, where, giving.output, CHANGES) as at:
        spec = at.change(change_id).spec
        given = Approval(change_id=change_id, spec=spec, actor=giving.who, reason=giving.reason)
        approve(given, at, giving)


change_app.command(
    "cancel",
    short_help="Take back what has not happened.",
    help="""
    Cancel a change that has not happened yet. What was ordered before it holds again.

    Once the topic has grown, or producers have begun to leave partitions, roll it back instead.

    \b
    kpe change cancel -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --reason "wrong topic"
    kpe change cancel -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --dry-run

    Exit codes: 0 cancelled; 1 refused: it has happened, or is finished; 2 no such change, wrong address,
    unknown option; 3 no tracker has answered.
    """,  # \b is typer's mark for "do not re-wrap"
)(_giving(Verb.CANCEL))


@change_app.command("rollback", short_help="Let producers go back to what was before.")
@with_options
def rollback_command(
    context: typer.Context,
    change_id: ChangeId,
    *,
    yes: Yes = False,
    where: ControlOptions,
    giving: Giving,
) -> None:
    """Let producers go back to what held before a change that has happened and is not finished.

    Kafka can't shrink a topic. After a growth its new partitions stay, and producers leave them unused until
    another change. This begins it, and asks first; `kpe change wait` ends when all are back. To undo a change
    that is finished, request its inverse: kpe change request --inverse-of CHANGE.

    \b
    kpe change rollback -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --reason "lag of billing"
    kpe change rollback -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --yes              in a script

    Exit codes: 0 it has begun; 1 refused: it has not happened, or is finished, or you said no; 2 no
    such change, no terminal to ask on and no --yes, wrong address, unknown option; 3 no tracker has answered.
    """  # noqa: D301
    with session(context, where, giving.output, CHANGES) as at:
        about = subject(at.change(change_id).spec)
        giving.confirm(f"let producers go back: {about}, on {at.cluster}", yes=yes)
        give(_command(Verb.ROLLBACK, change_id, giving), at, giving)


@change_app.command("force", short_help="Open the gate or end a change, although not all have followed.")
@with_options
def force_command(
    context: typer.Context,
    change_id: ChangeId,
    *,
    open_gate: Annotated[bool, typer.Option("--open-gate", help="Let producers use the partitions.")] = False,
    finish: Annotated[bool, typer.Option("--finish", help="End the change; wait for no one.")] = False,
    yes: Yes = False,
    where: ControlOptions,
    giving: Giving,
) -> None:
    """Open the gate of a change, or end it, although not all have followed.

    Say which of the two you mean; the tracker refuses the one that does not fit when it takes it up. An open
    gate lets producers use the partitions. A change that is ended is partially_converged, or rolled_back if
    it was on its way back. Behind an open gate a group with auto.offset.reset=latest may miss records, so it
    asks first.

    \b
    kpe change force -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --open-gate --reason "billing is gone"
    kpe change force -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --finish --yes

    Exit codes: 0 done; 1 refused: it has not happened, is finished, its gate is not as you mean, or you said
    no; 2 no such change, no terminal to ask on and no --yes, wrong address, unknown option; 3 no tracker has
    answered.
    """  # noqa: D301
    if open_gate == finish:
        raise CliError("say what you mean: --open-gate or --finish")
    with session(context, where, giving.output, CHANGES) as at:
        change = at.change(change_id)
        late = ", ".join(change.uncovered_groups)
        without = f" without {late}" if late else ""
        giving.confirm(f"{_FORCED[open_gate]}{without}: {subject(change.spec)}, on {at.cluster}", yes=yes)
        give(_command(Verb.OPEN_GATE if open_gate else Verb.FINISH, change_id, giving), at, giving)


_FORCED: Final = {True: "open the gate", False: "end the change"}


def _command(verb: Verb, change_id: str, giving: Giving) -> Command:
    return Command(change_id=change_id, verb=verb, actor=giving.who, reason=giving.reason)
