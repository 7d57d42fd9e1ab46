"""``kpe change``: ask for a change of partitions, follow it, and take it back."""

from collections.abc import Callable
from typing import Annotated

import typer

from kafka_partition_events.cli.change.history import history_command
from kafka_partition_events.cli.change.limits import limits_command
from kafka_partition_events.cli.change.plan import plan_command
from kafka_partition_events.cli.change.request import request_command
from kafka_partition_events.cli.change.session import (
    Actor,
    AnswerTimeout,
    ChangeId,
    DryRun,
    Why,
    actor_of,
    approve,
    give,
    session,
)
from kafka_partition_events.cli.change.status import status_command
from kafka_partition_events.cli.change.wait import wait_command
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import Bootstrap, ClientOptions, OutputChoice, Prefix, Verbose
from kafka_partition_events.control.protocol.records import Approval, Command
from kafka_partition_events.control.protocol.topics import CHANGES, PREFIX
from kafka_partition_events.control.protocol.vocabulary import Verb

change_app = typer.Typer(rich_markup_mode=None)
change_app.command("plan", short_help="Tell what a change would do.")(plan_command)
change_app.command("request", short_help="Ask for a change.")(request_command)
change_app.command("status", short_help="Show changes, live on a terminal.")(status_command)
change_app.command("history", short_help="Tell who has asked for what of a topic, and what came of it.")(
    history_command
)
change_app.command("limits", short_help="Tell what producers leave unused now.")(limits_command)
change_app.command("wait", short_help="Wait until producers are ready, or until it is over.")(wait_command)


@change_app.callback(
    epilog="Exit codes: 0 done; 1 the tracker has refused it, and said why; 2 error, told in one line on "
    "stderr; 3 no tracker has answered. Those of plan and wait are their own. "
    "`kpe change COMMAND --help` has examples."
)
def change() -> None:
    """Change the partitions of a topic, and know who has followed.

    A command is a record in kpe.commands, an approval one in kpe.approvals. The tracker (`kpe tracker`)
    answers in kpe.changes; producers and consumers with the library follow that, and say so in kpe.acks.
    Needs the topics of `kpe topics init`.

    \b
    kpe change plan -b localhost:9092 --topic orders --to 24 --gate consumers-first
    kpe change request -b localhost:9092 --topic orders --to 24 --gate consumers-first --execute
    kpe change status -b localhost:9092
    kpe change wait -b localhost:9092 01JD5V1ZJ8Q0000000000000AB
    kpe ack ls -b localhost:9092 --pending 01JD5V1ZJ8Q0000000000000AB
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


def _giving(verb: Verb) -> Callable[..., None]:
    """Return what gives a command that says nothing but which change it is about."""

    def command(
        context: typer.Context,
        bootstrap: Bootstrap,
        change_id: ChangeId,
        client_options: ClientOptions = None,
        actor: Actor = None,
        reason: Why = "",
        prefix: Prefix = PREFIX,
        answer_timeout: AnswerTimeout = "10s",
        dry_run: DryRun = False,
        output: OutputChoice = None,
        verbose: Verbose = False,
    ) -> None:
        with session(
            context, bootstrap, client_options, prefix=prefix, output=output, verbose=verbose, reads=CHANGES
        ) as at:
            at.change(change_id)
            given = _command(verb, change_id, actor, reason)
            give(given, at, answer_timeout=answer_timeout, dry_run=dry_run)

    return command


@change_app.command("approve", short_help="Approve somebody else's request.")
def approve_command(
    context: typer.Context,
    bootstrap: Bootstrap,
    change_id: ChangeId,
    client_options: ClientOptions = None,
    actor: Actor = None,
    reason: Why = "",
    prefix: Prefix = PREFIX,
    answer_timeout: AnswerTimeout = "10s",
    dry_run: DryRun = False,
    output: OutputChoice = None,
    verbose: Verbose = False,
) -> None:
    """Approve a change as it stands, which its request or the tracker's policy says that somebody must.

    Writes to kpe.approvals, where by Kafka's ACLs only those may write who may approve: `kpe topics init
    --print-acls` prints them. Whoever has requested it under the same name can't.

    \b
    kpe change approve -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --actor bob

    Exit codes: 0 approved; 1 it would count for nothing: the same person, or there is nothing to approve any
    more; 2 no such change, no right to approve, wrong address, unknown option; 3 no tracker has answered.
    """  # noqa: D301
    with session(
        context, bootstrap, client_options, prefix=prefix, output=output, verbose=verbose, reads=CHANGES
    ) as at:
        spec = at.change(change_id).spec
        given = Approval(change_id=change_id, spec=spec, actor=actor_of(actor), reason=reason)
        approve(given, at, answer_timeout=answer_timeout, dry_run=dry_run)


change_app.command(
    "cancel",
    short_help="Take back what has not happened.",
    help="""
    Cancel a change that has not happened yet. What was ordered before it holds again.

    Once the topic has grown, or producers were told to leave partitions, roll it back instead.

    \b
    kpe change cancel -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --reason "wrong topic"
    kpe change cancel -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --dry-run

    Exit codes: 0 cancelled; 1 refused: it has happened, or is finished; 2 no such change, wrong address,
    unknown option; 3 no tracker has answered.
    """,  # \b is typer's mark for "do not re-wrap"
)(_giving(Verb.CANCEL))

change_app.command(
    "rollback",
    short_help="Let producers go back to what was before.",
    help="""
    Let producers go back to what held before a change that has happened and is not finished.

    Kafka can't shrink a topic. After a growth its new partitions stay, and producers leave them unused until
    somebody asks for another change. This begins it; `kpe change wait` tells when all are back. To undo a
    change that is finished, request its inverse: kpe change request --inverse-of CHANGE.

    \b
    kpe change rollback -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --reason "lag of billing"

    Exit codes: 0 producers are told; 1 refused: it has not happened, or is finished; 2 no such change, wrong
    address, unknown option; 3 no tracker has answered.
    """,  # \b is typer's mark for "do not re-wrap"
)(_giving(Verb.ROLLBACK))


@change_app.command("force", short_help="Open the gate, or end a change, without the evidence.")
def force_command(
    context: typer.Context,
    bootstrap: Bootstrap,
    change_id: ChangeId,
    open_gate: Annotated[bool, typer.Option("--open-gate", help="Let producers use the partitions.")] = False,
    finish: Annotated[bool, typer.Option("--finish", help="Wait for nobody any more.")] = False,
    client_options: ClientOptions = None,
    actor: Actor = None,
    reason: Why = "",
    prefix: Prefix = PREFIX,
    answer_timeout: AnswerTimeout = "10s",
    dry_run: DryRun = False,
    output: OutputChoice = None,
    verbose: Verbose = False,
) -> None:
    """Open the gate of a change, or end it, although not everybody has followed.

    Say which of the two you mean; the tracker refuses the one that does not fit when it takes it up. An open
    gate lets producers use the partitions. A change that is ended is partially_converged, or rolled_back if
    it was on its way back. Behind an open gate a group with auto.offset.reset=latest may miss records.

    \b
    kpe change force -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --open-gate --reason "billing is gone"
    kpe change force -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --finish

    Exit codes: 0 done; 1 refused: it has not happened, is finished, or its gate is not as you mean; 2 no such
    change, wrong address, unknown option; 3 no tracker has answered.
    """  # noqa: D301
    with session(
        context, bootstrap, client_options, prefix=prefix, output=output, verbose=verbose, reads=CHANGES
    ) as at:
        at.change(change_id)
        if open_gate == finish:
            raise CliError("say what you mean: --open-gate or --finish")
        given = _command(Verb.OPEN_GATE if open_gate else Verb.FINISH, change_id, actor, reason)
        give(given, at, answer_timeout=answer_timeout, dry_run=dry_run)


def _command(verb: Verb, change_id: str, actor: str | None, reason: str) -> Command:
    return Command(change_id=change_id, verb=verb, actor=actor_of(actor), reason=reason)
