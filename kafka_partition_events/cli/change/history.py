"""``kpe change history``: who has asked for what of a topic, who has allowed it, and what came of it."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import typer
from attrs import asdict, frozen

from kafka_partition_events.cli.change.session import READ_S, session
from kafka_partition_events.cli.change.text import moment
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import Listing, tell
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.changes.commands import reply_to
from kafka_partition_events.control.protocol.records import Allowed, Change, Given
from kafka_partition_events.control.protocol.topics import CHANGES, PREFIX


@frozen(kw_only=True)
class Entry:
    """One thing that has happened.

    Attributes:
        at_ms: When, by the broker's clock, in milliseconds since 1970.
        change_id: To which change.
        what: A verb of a command, ``approve``, or the state that a change came to.
        actor: Who says he is who has done it; none for what the tracker has.
        reason: Why.
        outcome: What came of it.
        topic: The control topic with the record that tells it,
        offset: and where that is, in partition 0. None: the state of a change, which has no record for good.
    """

    at_ms: int
    change_id: str
    what: str
    actor: str = ""
    reason: str = ""
    outcome: str = ""
    topic: str | None = None
    offset: int | None = None


@with_options
def history_command(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic that was changed.")],
    where: ControlOptions,
    listing: Listing,
) -> None:
    """Show who requested changes of a topic, approved, cancelled or forced them, and what came of it.

    Oldest first. Each act is shown with its record, by topic and offset: a name is only what was typed; the
    broker's log of requests, or an ACL that lets one person write there, proves who it was. Growth without a
    request is listed, too. Kafka keeps these records for 30 days.

    \b
    kpe change history -b localhost:9092 orders
    kpe change history -b localhost:9092 orders | jq -r 'select(.what == "open_gate") | .actor'

    Exit codes: 0 shown, even if there is nothing; 2 no control topics, no right to read kpe.commands and
    kpe.approvals, wrong address, unknown option.
    """  # noqa: D301
    with session(context, where, listing.output, CHANGES) as at:
        given, allowed = at.desk.commands(READ_S), at.desk.approvals(READ_S)
        entries = history(
            topic, at.desk.ledger.changes, given, allowed, at.where.prefix, now_ms=1000 * time.time()
        )
    listing.write(entries, _document, ("TIME", "CHANGE", "WHAT", "BY", "RECORD", "OUTCOME"), _cells)
    if not entries:
        tell(f"note: nobody has asked for anything of topic {topic}, as far as Kafka keeps it")


def history(
    topic: str,
    changes: Mapping[str, Change],
    commands: Iterable[Given],
    approvals: Iterable[Allowed],
    prefix: str = PREFIX,
    *,
    now_ms: float,
) -> list[Entry]:
    """Return what has happened to a topic, oldest first.

    Args:
        topic: The topic.
        changes: All changes that are known, by id.
        commands: All that are kept.
        approvals: The same.
        prefix: What the names of the control topics begin with.
        now_ms: How late it is, as Kafka's timestamps tell it.
    """
    commands = list(commands)
    asked = {given.command.change_id for given in commands if _is_about(topic, given)}
    about = asked | {change.change_id for change in changes.values() if change.spec.topic == topic}
    entries = [
        _commanded(g, changes, f"{prefix}commands", now_ms) for g in commands if g.command.change_id in about
    ]
    entries += [
        _allowed(a, changes, f"{prefix}approvals") for a in approvals if a.approval.change_id in about
    ]
    entries += (entry for id_ in about if id_ in changes for entry in _came_to(changes[id_]))
    return sorted(entries, key=lambda entry: (entry.at_ms, entry.change_id))


def _is_about(topic: str, given: Given) -> bool:
    spec = given.command.spec
    return spec is not None and spec.topic == topic


def _commanded(given: Given, changes: Mapping[str, Change], topic: str, now_ms: float) -> Entry:
    command, change = given.command, changes.get(given.command.change_id)
    answer = reply_to(given, change)
    if change is None:
        waits = now_ms < given.at_ms + 1000 * command.ttl_s
        outcome = "waits for a tracker" if waits else "no such change is known any more"
    elif answer is None:
        outcome = "not taken up"
    else:
        outcome = "accepted" if answer.refusal is None else f"refused: {answer.refusal.detail}"
    return Entry(
        at_ms=given.at_ms,
        change_id=command.change_id,
        what=command.verb,
        actor=command.actor,
        reason=command.reason,
        outcome=outcome,
        topic=topic,
        offset=given.offset,
    )


def _allowed(allowed: Allowed, changes: Mapping[str, Change], topic: str) -> Entry:
    approval, change = allowed.approval, changes.get(allowed.approval.change_id)
    counts = change is not None and (change.approved_by, change.spec) == (approval.actor, approval.spec)
    return Entry(
        at_ms=allowed.at_ms,
        change_id=approval.change_id,
        what="approve",
        actor=approval.actor,
        reason=approval.reason,
        outcome="it counts" if counts else "it does not count",
        topic=topic,
        offset=allowed.offset,
    )


def _came_to(change: Change) -> Iterator[Entry]:
    id_ = change.change_id
    if change.observed_ms is not None:
        opened = f"gate opened by {change.opened_by}" if change.opened_by else ""
        yield Entry(at_ms=change.observed_ms, change_id=id_, what="happened", outcome=opened)
    if change.finished_ms is not None:
        yield Entry(at_ms=change.finished_ms, change_id=id_, what=change.state, outcome=change.detail)


def _document(entry: Entry) -> dict[str, Any]:
    return {**asdict(entry), "partition": None if entry.topic is None else 0}


def _cells(entry: Entry) -> tuple[str, ...]:
    record = "-" if entry.topic is None else f"{entry.topic}-0@{entry.offset}"
    why = f" ({entry.reason})" if entry.reason else ""
    return (
        moment(entry.at_ms),
        entry.change_id,
        entry.what,
        entry.actor or "-",
        record,
        f"{entry.outcome}{why}".strip(),
    )
