"""Changes in words and as JSON. Pure."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.control.protocol.bounds import MOST_NUMBER
from kafka_partition_events.control.protocol.codec import Record, encode
from kafka_partition_events.control.protocol.records import Answer, Change, Totals
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import State

_STATE_WIDTH = max(len(state) for state in State)
_SAID = "applied", "capped", "held", "pending"


def document(record: Record) -> dict[str, Any]:
    """Return a record as the JSON object that it is in its topic."""
    parsed: dict[str, Any] = json.loads(encode(record))
    return parsed


def subject(spec: Spec) -> str:
    """Return what is to be changed, and how."""
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
    """Return how many producers say what."""
    said = [f"{getattr(totals, name):,} {name}" for name in _SAID if getattr(totals, name)]
    return counted(totals.live, "producer") + (f": {', '.join(said)}" if said else "")


def change_lines(change: Change) -> Iterator[str]:
    """Return all that matters of a change, line by line."""
    yield change_line(change)
    why = f": {change.why}" if change.why else ""
    yield f"  requested {moment(change.requested_ms)} by {change.requested_by}{why}"
    yield from _times(change)
    if change.spec.gate and (change.observed_ms is not None or not change.state.final):
        yield "  gate held" if change.opened_by is None else f"  gate open, by {change.opened_by}"
    if change.holds and change.observed_ms is None and change.totals.unarmed:
        waits = counted(change.totals.unarmed, "producer")
        yield f"  waits for {waits} of the cluster that may use the topic and do not hold the gate yet"
    if change.groups and change.observed_ms is None and not change.state.final:
        yield f"  waits for groups: {', '.join(one.group for one in change.groups)}"
    if change.uncovered_groups and change.observed_ms is not None:
        yield f"  groups that have not followed: {', '.join(change.uncovered_groups)}"
    for doubt in change.unverified:
        yield f"  not verified: {doubt}"
    if change.detail:
        yield f"  {change.state.replace('_', ' ')}: {change.detail}"
    for answer in change.answers:
        if answer.refused:
            yield f"  {moment(answer.at_ms)} {refused(answer)}"


def _times(change: Change) -> Iterator[str]:
    if change.observed_ms is not None:
        yield f"  happened {moment(change.observed_ms)}"
    if change.finished_ms is not None:
        yield f"  finished {moment(change.finished_ms)}"
    elif change.deadline_ms is not None:
        yield f"  deadline {moment(change.deadline_ms)}"


def refused(refusal: Answer) -> str:
    """Return a refusal in words: what, whose, why, and what to do."""
    return f"refused {refusal.verb} by {refusal.actor}: {refusal.detail}"


def moment(ms: int) -> str:
    """Return a broker's time as text."""
    return f"{datetime.fromtimestamp(min(ms, MOST_NUMBER) / 1_000, UTC):%Y-%m-%d %H:%M:%SZ}"
