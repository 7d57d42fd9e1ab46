"""``kpe change wait``: wait until producers are ready for a change, or until it is over."""

from typing import Annotated

import typer

from kafka_partition_events.cli.change.context import ChangeId, CommandContext, command_context
from kafka_partition_events.cli.change.text import change_line
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN, CliError
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import parse_duration, with_options
from kafka_partition_events.cli.common.output import OutputChoice, tell
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.changes.evidence import (
    GROUPS_UNKNOWN,
    ClusterView,
    Evidence,
    Fleet,
    evidence,
)
from kafka_partition_events.control.protocol.clock import newest_ms
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.topics import CHANGES, EVERYTHING
from kafka_partition_events.control.protocol.vocabulary import Gate, State

_NAMED = 5


@with_options
def wait_command(
    context: typer.Context,
    change_id: ChangeId,
    *,
    armed: Annotated[
        bool, typer.Option("--armed", help="Until every live producer holds the gate; else until it is over.")
    ] = False,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Wait no longer than this.")] = "1h",
    output: OutputChoice = None,
    where: ControlOptions,
) -> None:
    """Wait until a change is finished, or until every live producer holds its gate.

    \b
    kpe change wait -b localhost:9092 01JD5V1ZJ8Q0000000000000AB --armed --timeout 5m &&
        kafka-topics.sh --bootstrap-server localhost:9092 --alter --topic orders --partitions 24
    kpe change wait -b localhost:9092 01JD5V1ZJ8Q0000000000000AB

    If you let a topic grow by hand, wait until producers are armed, and then do it: so no producer writes to
    the new partitions before consumers have a position there. Shows each state on stderr, and writes the
    change to stdout in the end.

    Exit codes: 0 armed, or converged; 1 it can't be any more: finished otherwise (partially_converged,
    rejected, cancelled, expired), or it happened while some were not armed; 2 no such change, no
    gate to arm, no control topics, wrong address, unknown option; 3 the time was over first.
    """  # noqa: D301
    seconds = parse_duration(timeout)
    reads = EVERYTHING if armed else CHANGES
    with command_context(context, where, output, reads) as at:
        if armed and at.change(change_id).gate is Gate.NONE:
            raise CliError(f"{change_id} has no gate: no producer is to be armed")
        waiting = _Waiting(at, change_id, armed=armed)
        reached = next((r for _ in at.looks(seconds) if (r := waiting.look()) is not None), None)
        at.show(at.change(change_id))
        if reached is None:
            tell(f"not {'armed' if armed else 'converged'} within {seconds:g} s{waiting.missing()}")
            raise typer.Exit(EXIT_UNKNOWN)
        if not reached:
            raise typer.Exit(EXIT_DIFFERENT)


class _Waiting:
    """Looks at one change again and again."""

    def __init__(self, at: CommandContext, change_id: str, *, armed: bool) -> None:
        self._at = at
        self._id = change_id
        self._to_be_armed = armed
        self._state: State | None = None

    def look(self) -> bool | None:
        """Tell whether it is reached; None as long as it is open."""
        change = self._at.change(self._id)
        if change.state is not self._state:
            self._state = change.state
            tell(change_line(change))
        if not self._to_be_armed:
            return change.state is State.CONVERGED if change.state.final else None
        if change.state.happened:
            return self._happened(change)
        if change.state.final:
            return False
        return self._armed(change, self._evidence(change))

    def missing(self) -> str:
        """Return what is missing, in words."""
        if not self._to_be_armed:
            return ""
        change = self._at.change(self._id)
        names = self._evidence(change).unarmed
        if not names:
            return ": the tracker does not yet know which groups to wait for"
        more = ", ..." if len(names) > _NAMED else ""
        return f": {counted(len(names), 'producer')} ({', '.join(names[:_NAMED])}{more})"

    def _evidence(self, change: Change) -> Evidence:
        ledger = self._at.client.ledger
        fleet = Fleet(leases=ledger.leases, acks=ledger.acks.get(change.change_id, {}))
        return evidence(change, fleet, ClusterView(), newest_ms(ledger))

    def _armed(self, change: Change, found: Evidence) -> bool | None:
        """Tell whether all producers hold the gate, and the tracker has seen which groups there are."""
        if found.unarmed or GROUPS_UNKNOWN in change.unverified:
            return None
        if not found.totals.live:
            tell("note: no live producer runs the library, so none had to be armed")
        else:
            tell(f"{counted(found.totals.live, 'producer')} hold the gate")
        return True

    def _happened(self, change: Change) -> bool:
        unarmed = change.totals.unarmed
        if unarmed:
            tell(f"it happened while {counted(unarmed, 'producer')} did not hold the gate")
        return not unarmed
