"""What the commands of change control share: options, the way to the control topics, giving a command."""

import contextlib
import getpass
import sys
import threading
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from attrs import frozen

from kafka_partition_events.cli.change.text import change_lines, document, refused
from kafka_partition_events.cli.common.completing import PATIENCE_S, completed
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN, CliError, one_line
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    choose_output,
    report,
    write_json_line,
    write_line,
)
from kafka_partition_events.cli.common.settings import ControlOptions, ControlTopics
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.control.changes.commands import LASTS_S, reply_to
from kafka_partition_events.control.protocol.codec import RecordError
from kafka_partition_events.control.protocol.records import Change, Command
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.topics import CHANGES, EVERYTHING
from kafka_partition_events.control.protocol.vocabulary import Verb
from kafka_partition_events.errors import ConfigurationError, ControlTopicError, MetadataFetchError

if TYPE_CHECKING:
    from kafka_partition_events.control.operate.client import ControlClient

ANSWER_S: Final = 10.0
"""How long a command waits for the tracker's answer."""
POLL_S: Final = 0.5
"""Seconds between two polls of a command that waits for news."""

EXIT_REFUSED = EXIT_DIFFERENT
EXIT_UNANSWERED = EXIT_UNKNOWN


@completed
def change_ids(context: typer.Context, typed: dict[str, Any]) -> Iterable[str]:
    """Return the ids of a cluster's open changes."""
    found = ControlOptions(**typed, prefix=context.params.get("prefix")).find()
    with contextlib.closing(context.obj.open_client(found.config, found.prefix)) as client:
        client.read(CHANGES, PATIENCE_S)
        return [it.change_id for it in client.ledger.changes.values() if not it.state.final]


ChangeId = Annotated[
    str, typer.Argument(metavar="CHANGE", autocompletion=change_ids, help="As `kpe change ls` shows it.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@frozen(kw_only=True)
class CommandOptions:
    """Why a command is given, and how: a group of options."""

    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; shown to others.")] = ""
    output: OutputChoice = None

    def command(self, verb: Verb, change_id: str, spec: Spec | None = None) -> Command:
        """Return a command of who runs this: by $USER or the system; in a container it may have no name."""
        try:
            actor = getpass.getuser()
        except (KeyError, OSError):
            actor = "nameless"
        return Command(change_id=change_id, verb=verb, actor=actor, reason=self.reason, spec=spec)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on the terminal whether something is meant that can't be called back; return if it is.

    Raises:
        CliError: there is no terminal to ask on.
        typer.Exit: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CliError(f"{question}: no terminal to ask on; give --yes to confirm")
    report(f"{question}. Go on? [y/N]")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        report("nothing was done")
        raise typer.Exit(EXIT_REFUSED)


@frozen
class CommandContext:
    """The control topics, read to their ends, and where to write what is in them."""

    client: "ControlClient"
    services: Services
    where: ControlTopics
    output: Output
    reads: Collection[str]

    @property
    def cluster(self) -> str:
        """The cluster in question, as it is addressed."""
        return self.where.config["bootstrap.servers"]

    def change(self, change_id: str) -> Change:
        """Return a change.

        Raises:
            CliError: there is none of that id.
        """
        if (change := self.client.ledger.changes.get(change_id)) is None:
            raise CliError(f"there is no change {change_id}; see `kpe change ls --all`")
        return change

    def now_ms(self) -> int:
        """Return the time by this machine's clock, in milliseconds since 1970."""
        return round(1_000 * self.services.clock.now().timestamp())

    def polls(self, timeout: float) -> Iterator[None]:
        """Read the control topics on, twice a second, until the time is over; yield after each time.

        An error in reading them is reported once, and does not end it.
        """
        clock, complained = self.services.clock, False
        deadline = clock.monotonic() + timeout
        yield
        while (left := deadline - clock.monotonic()) > 0:
            passing = threading.Condition()
            with passing:
                clock.wait(passing, min(POLL_S, left))
            try:
                self.client.read(self.reads)
            except ControlTopicError as error:
                if not complained:
                    report(redacted(one_line(error), self.where.config))
                complained = True
                continue
            complained = False
            yield

    def show(self, change: Change) -> None:
        """Write a change to standard output."""
        if self.output is not Output.TABLE:
            write_json_line(document(change))
            return
        for line in change_lines(change):
            write_line(line)


@contextlib.contextmanager
def command_context(
    context: typer.Context,
    where: ControlOptions,
    output: Output | None = None,
    reads: Collection[str] = EVERYTHING,
) -> Iterator[CommandContext]:
    """Open a context with what every command of change control is given, and read what it needs.

    Its errors show names of options, but no values.

    Raises:
        CliError: the control topics can't be read, or what is done with them fails.
    """
    services: Services = context.obj
    found = where.find()
    try:
        with contextlib.closing(services.open_client(found.config, found.prefix)) as client:
            client.read(reads)
            yield CommandContext(client, services, found, choose_output(output), reads)
    except (CliError, ConfigurationError, ControlTopicError, MetadataFetchError, RecordError) as error:
        raise CliError(redacted(one_line(error), found.config)) from error


def requested_before(change: Change) -> None:
    """Say that a change was requested before, and end the program if it came to nothing."""
    report(f"note: {change.change_id} was requested before; for another try take another id")
    if change.state.final and not change.state.happened:
        raise typer.Exit(EXIT_REFUSED)


def give(at: CommandContext, command: Command) -> None:
    """Give the tracker a command, wait for its answer, and end the program if it is not a yes.

    Raises:
        RecordError: something in it is too long or no text, so it would not be read; nothing was written.
        typer.Exit: it was refused, or no tracker has answered.
    """
    given = at.client.send(command)
    for _ in at.polls(ANSWER_S):
        change, refusal = reply_to(given, at.client.ledger.changes.get(command.change_id)) or (None, None)
        if change is None:
            continue
        at.show(change)
        if refusal is not None:
            report(refused(refusal))
        if command.verb is Verb.REQUEST and change.answer_to(given) is None:
            requested_before(change)
        if refusal is not None:
            raise typer.Exit(EXIT_REFUSED)
        return
    if at.output is Output.TABLE:
        write_line(f"{command.change_id}  {command.verb} written, not answered")
    else:
        write_json_line(document(command))
    report(
        f"no tracker has answered within {ANSWER_S:g} s; it waits for one for {LASTS_S:g} s: "
        f"start `kpe tracker`, then see `kpe change show {command.change_id}`"
    )
    raise typer.Exit(EXIT_UNANSWERED)
