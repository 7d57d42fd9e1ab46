"""What the commands of change control share: options, the way to the control topics, giving a command."""

import contextlib
import os
import pwd
import threading
from collections.abc import Collection, Iterator
from typing import Annotated, Final, NoReturn

import typer
from attrs import define, field, frozen

from kafka_partition_events.cli.change.text import change_lines, document, refused
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN, CliError, one_line
from kafka_partition_events.cli.common.options import parse_duration
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    choose_output,
    confirm,
    tell,
    write_document,
    write_line,
)
from kafka_partition_events.cli.common.settings import ControlOptions, ControlTopics
from kafka_partition_events.cli.services.protocols import Desk
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.control.changes.commands import not_approved, reply_to
from kafka_partition_events.control.protocol.clock import newest_ms
from kafka_partition_events.control.protocol.codec import RecordError
from kafka_partition_events.control.protocol.records import Approval, Change, Command
from kafka_partition_events.control.protocol.topics import FLEET
from kafka_partition_events.control.protocol.vocabulary import Verb
from kafka_partition_events.errors import (
    ConfigurationError,
    ControlTopicError,
    MetadataFetchError,
)

READ_S: Final = 15.0
SEND_S: Final = 15.0
LOOK_S: Final = 0.5
"""How long a command that waits for news lets pass between two looks."""

EXIT_REFUSED = EXIT_DIFFERENT
EXIT_UNANSWERED = EXIT_UNKNOWN

ChangeId = Annotated[str, typer.Argument(metavar="CHANGE", help="As `kpe change ls` shows it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@frozen(kw_only=True)
class Giving:
    """Who gives a command or an approval, why, and how: a group of options."""

    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Who requests it; default: this user.")
    ] = None
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; shown to others.")] = ""
    answer_timeout: Annotated[
        str,
        typer.Option("--answer-timeout", metavar="DURATION", help="How long to wait for an answer."),
    ] = "10s"
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the record; write nothing.")] = False
    output: OutputChoice = None

    @property
    def who(self) -> str:
        """Who asks: by what is given, by $USER, or as the system calls who runs this."""
        if actor := self.actor or os.environ.get("USER", ""):
            return actor
        try:
            return pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            return f"uid {os.geteuid()}"  # in a container nobody has a name

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask whether it is meant, if something would be written; as `confirm`."""
        confirm(question, yes=yes or self.dry_run)


@define
class Session:
    """The control topics, read to their ends, and where to write what they tell."""

    desk: Desk
    services: Services
    where: ControlTopics
    output: Output
    reads: Collection[str]
    _complained: bool = field(default=False, init=False)

    @property
    def cluster(self) -> str:
        """The cluster in question, as it is addressed."""
        return self.where.config["bootstrap.servers"]

    def change(self, change_id: str) -> Change:
        """Return a change.

        Raises:
            CliError: there is none of that id.
        """
        change = self.desk.ledger.changes.get(change_id)
        if change is None:
            raise CliError(f"there is no change {change_id}; see `kpe change ls --all`")
        return change

    def host_ms(self) -> int:
        """Return the time by this machine's clock, in milliseconds since 1970."""
        return round(1_000 * self.services.clock.now().timestamp())

    def now_ms(self) -> int:
        """Return the same, or the time of the newest record if that is later: then this clock is behind."""
        return max(self.host_ms(), newest_ms(self.desk.ledger) or 0)

    def looks(self, timeout: float) -> Iterator[None]:
        """Read the control topics on, twice a second, until the time is over; yield after each time.

        That they can't be read for a while is told once, and does not end it.
        """
        clock = self.services.clock
        deadline = clock.monotonic() + timeout
        yield
        while (left := deadline - clock.monotonic()) > 0:
            passing = threading.Condition()
            with passing:
                clock.wait(passing, min(LOOK_S, left))
            try:
                self.desk.read(READ_S, self.reads)
            except ControlTopicError as error:
                if not self._complained:
                    tell(redacted(one_line(error), self.where.control))
                self._complained = True
                continue
            self._complained = False
            yield

    def show(self, change: Change) -> None:
        """Write a change to standard output."""
        if self.output is not Output.TABLE:
            write_document(document(change), self.output)
            return
        for line in change_lines(change):
            write_line(line)


@contextlib.contextmanager
def session(
    context: typer.Context,
    where: ControlOptions,
    output: Output | None = None,
    reads: Collection[str] = FLEET,
) -> Iterator[Session]:
    """Open a session with what every command of change control is given, and read what it needs.

    Of options, its troubles tell names but no values.

    Raises:
        CliError: the control topics can't be read, or what is done with them fails.
    """
    services: Services = context.obj
    found = where.find()
    try:
        with contextlib.closing(services.open_desk(found.config, found.control, found.prefix)) as desk:
            desk.read(READ_S, reads)
            yield Session(desk, services, found, choose_output(output), reads)
    except (CliError, ConfigurationError, ControlTopicError, MetadataFetchError, RecordError) as error:
        raise CliError(redacted(one_line(error), {**found.control, **found.config})) from error


def give(command: Command, at: Session, giving: Giving) -> None:
    """Give the tracker a command, wait for its answer, and end the program if it is not a yes.

    Raises:
        RecordError: something in it is too long or no text, so nobody would read it; nothing was written.
        typer.Exit: it was refused, or nobody has answered.
    """
    seconds = parse_duration(giving.answer_timeout)
    if giving.dry_run:
        _only_show(command, at)
        return
    given = at.desk.send(command, SEND_S)
    for _ in at.looks(seconds):
        answer = reply_to(given, at.desk.ledger.changes.get(command.change_id))
        if answer is None or answer.change is None:
            continue
        at.show(answer.change)
        if command.verb is Verb.REQUEST and answer.change.obeyed_to <= given.offset:
            tell(f"note: {command.change_id} was requested before; for another try take another --id")
        if answer.refusal is not None:
            tell(refused(answer.refusal))
            raise typer.Exit(EXIT_REFUSED)
        return
    _unanswered(command, at, f"{command.verb} written", seconds, f" for one for {command.ttl_s:g} s")


def approve(approval: Approval, at: Session, giving: Giving) -> None:
    """Approve a change, wait until the tracker has taken it up, and end the program if it counts for nothing.

    Raises:
        RecordError: something in it is too long or no text, so nobody would read it; nothing was written.
        typer.Exit: it would not count, or nobody has answered.
    """
    seconds = parse_duration(giving.answer_timeout)
    if giving.dry_run:
        _only_show(approval, at)
        return
    change = at.change(approval.change_id)
    if change.approved_by != approval.actor:
        _refuse(change, approval, at)
        at.desk.approve(approval, SEND_S)
    for _ in at.looks(seconds):
        change = at.change(approval.change_id)
        if change.approved_by is not None:  # by this one, or by one that came before
            at.show(change)
            return
        _refuse(change, approval, at)
    _unanswered(approval, at, "approval written", seconds, "")


def _refuse(change: Change, approval: Approval, at: Session) -> None:
    """End the program if an approval counts for nothing."""
    if (why := not_approved(change, approval)) is not None:
        at.show(change)
        tell(why)
        raise typer.Exit(EXIT_REFUSED)


def _only_show(record: Command | Approval, at: Session) -> None:
    write_document(document(record), at.output)
    tell("note: nothing was written; it would be")


def _unanswered(record: Command | Approval, at: Session, what: str, seconds: float, waits: str) -> NoReturn:
    if at.output is Output.TABLE:
        write_line(f"{record.change_id}  {what}, not answered")
    else:
        write_document(document(record), at.output)
    tell(
        f"no tracker has answered within {seconds:g} s; it waits{waits}: "
        f"start `kpe tracker`, then see `kpe change show {record.change_id}`"
    )
    raise typer.Exit(EXIT_UNANSWERED)
