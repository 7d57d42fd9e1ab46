"""Changes in words and as JSON. Pure."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.control.protocol.codec import Record, encode
from kafka_partition_events.control.protocol.records import Change, Refusal, Totals
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Gate, Kind, Reason, State
from kafka_partition_events.metadata.ranges import ranges

_STATE_WIDTH = max(len(state) for state in State)
_SAID = "applied", "capped", "held", "observed", "rejected", "failed", "rolled_back", "pending"
_APART = "departed", "late_joined", "duplicates"


def document(record: Record) -> dict[str, Any]:
    """Return a record as the JSON object that it is in its topic."""
    parsed: dict[str, Any] = json.loads(encode(record))
    return parsed


def subject(spec: Spec) -> str:
    """Return what is to be changed, and how."""
    if spec.kind in {Kind.OFFLINE, Kind.ONLINE}:
        what = f"broker {spec.broker}" if spec.topic is None else f"{spec.topic} {ranges(spec.partitions)}"
        return f"{what} {'offline' if spec.kind is Kind.OFFLINE else 'online'}"
    return f"{spec.topic} {spec.from_count} -> {spec.to_count}"


def change_cells(change: Change) -> tuple[str, str, str, str]:
    """Return a change as a row: its id, state, subject, and who has followed."""
    gate = "; gate held" if change.holds else ""
    return change.change_id, change.state, subject(change.spec), f"{producers(change.totals)}{gate}"


def change_line(change: Change) -> str:
    """Return a change in one line."""
    id_, state, about, followed = change_cells(change)
    return f"{id_:<26}  {state:<{_STATE_WIDTH}}  {about:<24}  {followed}"


def producers(totals: Totals) -> str:
    """Return how many producers say what; those counted apart behind a semicolon."""
    said = [f"{getattr(totals, name):,} {name}" for name in _SAID if getattr(totals, name)]
    apart = [f"{getattr(totals, name):,} {name}" for name in _APART if getattr(totals, name)]
    if totals.uncovered:
        apart.append(f"at least {totals.uncovered:,} without a lease")
    words = f"{counted(totals.live, 'producer')}" + (f": {', '.join(said)}" if said else "")
    return (words + (f"; {', '.join(apart)}" if apart else "")).replace("_", " ")


def change_lines(change: Change) -> Iterator[str]:
    """Return all that matters of a change, line by line."""
    yield change_line(change)
    why = f": {change.why}" if change.why else ""
    approved = f", approved by {change.approved_by}" if change.approved_by else ""
    yield f"  requested {moment(change.requested_ms)} by {change.requested_by or 'nobody'}{approved}{why}"
    yield from _times(change)
    if change.gate is not Gate.NONE and not _came_to_nothing(change):
        opened = "" if change.opened_by is None else f", by {change.opened_by}"
        yield f"  gate {change.gate}{opened}"
    if change.uncovered_groups and change.observed_ms is not None:
        yield f"  groups that have not followed: {', '.join(change.uncovered_groups)}"
    for doubt in change.unverified:
        yield f"  not verified: {doubt}"
    if change.detail:
        reason = "" if change.reason is None else f" ({_spoken(change.reason)})"
        yield f"  {_spoken(change.state)}: {change.detail}{reason}"
    for refusal in change.refusals:
        yield f"  {moment(refusal.at_ms)} {refused(refusal)}"


def _spoken(word: State | Reason) -> str:
    return word.replace("_", " ")


def _came_to_nothing(change: Change) -> bool:
    return change.state.final and change.observed_ms is None


def _times(change: Change) -> Iterator[str]:
    if change.state is State.REQUESTED and not change.released:
        yield f"  waits for another person's approval: kpe change approve {change.change_id}"
    if change.observed_ms is not None:
        yield f"  happened {moment(change.observed_ms)}"
    if change.finished_ms is not None:
        late = ", after the deadline" if change.late else ""
        yield f"  finished {moment(change.finished_ms)}{late}"
    elif change.deadline_ms is not None:
        yield f"  deadline {moment(change.deadline_ms)}"


def refused(refusal: Refusal) -> str:
    """Return a refusal in words: what, whose, why, and what to do."""
    by = f" by {refusal.actor}" if refusal.actor else ""
    return f"refused {refusal.verb}{by}: {refusal.detail} ({refusal.reason})"


def moment(ms: int) -> str:
    """Return a broker's time as text."""
    return f"{datetime.fromtimestamp(ms / 1_000, UTC):%Y-%m-%d %H:%M:%SZ}"


def lasting(seconds: float) -> str:
    """Return a duration in words: ``42 s``, ``3 min 5 s``, ``2 h 4 min``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.3g} s"
