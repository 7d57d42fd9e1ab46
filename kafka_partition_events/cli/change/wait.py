"""``kpe change wait``: wait until producers are ready for a change, or until it is over."""

from enum import StrEnum
from typing import Annotated

import typer

from kafka_partition_events.cli.change.session import ChangeId, Session, session
from kafka_partition_events.cli.change.text import change_line
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN, CliError
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import parse_duration, with_options
from kafka_partition_events.cli.common.output import OutputChoice, tell
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.changes.progress import Arming, arming
from kafka_partition_events.control.protocol.clock import ReadersClock
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.topics import CHANGES, FLEET
from kafka_partition_events.control.protocol.vocabulary import Gate, State

_NAMED = 5


class Until(StrEnum):
    """What is waited for."""

    ARMED = "armed"
    CONVERGED = "converged"


@with_options
def wait_command(
    context: typer.Context,
    change_id: ChangeId,
    *,
    until: Annotated[Until, typer.Option(help="What to wait for.")] = Until.CONVERGED,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Wait no longer than this.")] = "1h",
    output: OutputChoice = None,
    where: ControlOptions,
) -> None:
    """Wait until every live producer holds the gate (armed), or until the change is finished (converged).

    If you let a topic grow by hand, wait until producers are armed, and then do it: so no producer writes to
    the new partitions before consumers have a position there. Shows each state on stderr, and writes the
    change to stdout in the end.

    \b
    kpe change wait -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --until armed --timeout 5m &&
        kafka-topics.sh --bootstrap-server localhost:9092 --alter --topic orders --partitions 24
    kpe change wait -b localhost:9092 01JD5V1ZJ8Q0000000000000AB

    Exit codes: 0 armed, or converged; 1 it can't be any more: finished otherwise (partially_converged,
    rejected, rolled_back, cancelled, expired), or it happened while some were not armed; 2 no such change, no
    gate to arm, no control topics, wrong address, unknown option; 3 the time was over first.
    """  # noqa: D301
    seconds = parse_duration(timeout)
    reads = FLEET if until is Until.ARMED else CHANGES
    with session(context, where, output, reads) as at:
        if until is Until.ARMED and at.change(change_id).gate is Gate.NONE:
            raise CliError(f"{change_id} has no gate: no producer is to be armed")
        waiting = _Waiting(at, change_id, until)
        reached = next((r for _ in at.looks(seconds) if (r := waiting.look()) is not None), None)
        at.show(at.change(change_id))
        if reached is None:
            tell(f"not {until} within {seconds:g} s{waiting.missing()}")
            raise typer.Exit(EXIT_UNKNOWN)
        if not reached:
            raise typer.Exit(EXIT_DIFFERENT)


class _Waiting:
    """Looks at one change again and again."""

    def __init__(self, at: Session, change_id: str, until: Until) -> None:
        self._at = at
        self._id = change_id
        self._until = until
        self._clock = ReadersClock()
        self._state: State | None = None

    def look(self) -> bool | None:
        """Tell whether it is reached; None as long as nobody can say."""
        change = self._at.change(self._id)
        if change.state is not self._state:
            self._state = change.state
            tell(change_line(change))
        if self._until is Until.CONVERGED:
            return change.state is State.CONVERGED if change.state.final else None
        if change.state.happened:
            return self._happened(change)
        if change.state.final:
            return False
        return self._armed(self._arming(change)) if change.released else None

    def missing(self) -> str:
        """Return what is missing, in words."""
        change = self._at.change(self._id)
        if not change.released and not change.state.final:
            return f": it waits for another person's approval (kpe change approve {change.change_id})"
        if self._until is not Until.ARMED:
            return ""
        names = self._arming(change).missing
        more = ", ..." if len(names) > _NAMED else ""
        return f": {counted(len(names), 'producer')} ({', '.join(names[:_NAMED])}{more})"

    def _arming(self, change: Change) -> Arming:
        ledger, now = self._at.desk.ledger, self._at.services.clock.monotonic()
        return arming(change, ledger, self._clock.now_ms(ledger, now))

    def _armed(self, found: Arming) -> bool | None:
        if found.enough and not found.live:
            tell("note: no producer with the library is there, so nobody had to be armed")
        elif found.enough:
            tell(f"{counted(found.live - len(found.missing), 'producer')} of {found.live:,} hold the gate")
        return True if found.enough else None

    def _happened(self, change: Change) -> bool:
        if change.unarmed:
            tell(f"it happened while {counted(change.unarmed, 'producer')} did not hold the gate")
        return not change.unarmed
