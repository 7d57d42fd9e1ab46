"""``kpe incident``: what is open, who looks after it, and an end to what will not end by itself."""

import json
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import typer

from kafka_partition_events.cli.common.errors import CliError, needing
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import Listing, tell, write_json, write_line
from kafka_partition_events.cli.observe.config import OutboxOptions
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.outbox import SqliteOutbox

incident_app = typer.Typer(rich_markup_mode=None)

_HEADERS = ("ID", "OPENED", "CAUSE", "OFFLINE", "TOLD")
_Id = Annotated[str, typer.Argument(metavar="ID", help="As `kpe incident ls` shows it.")]
_Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; others will want to know.")]
_Author = Annotated[
    str | None, typer.Option("--author", metavar="NAME", help="Who wants it; by default $USER.")
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the record; write nothing.")]


@incident_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, in one line on stderr. "
    "`kpe incident COMMAND --help` has examples."
)
def incident() -> None:
    """List open incidents, acknowledge them, and close those that will not end by themselves.

    Each observer has incidents of its own, under ids of its own. What you decide is about the cause. With
    [election] in the configuration it is a record of topic kpe.observers, which all observers read; else it
    is for the one whose outbox is named.

    \b
    kpe incident ls --config kpe.toml
    kpe incident show ce63e373-fdbb-5ce4-a109-d2dca6134974 --config kpe.toml
    kpe incident ack ce63e373-fdbb-5ce4-a109-d2dca6134974 --config kpe.toml --reason "new disk is on its way"
    kpe incident close ce63e373-fdbb-5ce4-a109-d2dca6134974 --config kpe.toml --reason "broker 3 is scrapped"
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@incident_app.command("ls", short_help="List what is open or held down.")
@with_options
def ls_command(context: typer.Context, where: OutboxOptions, listing: Listing) -> None:
    """List what is open or held down, as the observer wrote it last.

    \b
    kpe incident ls --config kpe.toml
    kpe incident ls --outbox outbox.db --output jsonl | jq -r .incident_id

    Exit codes: 0 listed, even if there are none; 2 no such outbox, wrong option.
    """  # noqa: D301
    with where.opened() as opened:
        found = _standing(opened, context.obj)
    listing.write(found, lambda each: each, _HEADERS, _cells)


@incident_app.command("show", short_help="Show one in full.")
@with_options
def show_command(context: typer.Context, id_: _Id, *, where: OutboxOptions) -> None:
    """Show one incident as it would be delivered to its sinks now.

    \b
    kpe incident show ce63e373-fdbb-5ce4-a109-d2dca6134974 --config kpe.toml

    Exit codes: 0 shown; 2 there is none of that id, no such outbox.
    """  # noqa: D301
    with where.opened() as opened:
        document = _found(id_, opened, context.obj)
    write_json(json.dumps(document, indent=2, ensure_ascii=False))


@incident_app.command("ack", short_help="Acknowledge one: you take care of it.")
@with_options
def ack_command(
    context: typer.Context,
    id_: _Id,
    *,
    reason: _Reason,
    author: _Author = None,
    dry_run: _DryRun = False,
    where: OutboxOptions,
) -> None:
    """Acknowledge an incident: sinks are notified who takes care of it, and reminders stop.

    Updates still come: when more goes down, or some of it is back.

    \b
    kpe incident ack ce63e373-fdbb-5ce4-a109-d2dca6134974 --config kpe.toml --reason "new disk is on its way"

    Exit codes: 0 it was written; 2 there is no open one of that id, no such outbox, no answer from Kafka.
    """  # noqa: D301
    _decide("ack", id_, author, reason, dry_run=dry_run, where=where, services=context.obj)


@incident_app.command("close", short_help="Close one that is not over.")
@with_options
def close_command(
    context: typer.Context,
    id_: _Id,
    *,
    reason: _Reason,
    author: _Author = None,
    dry_run: _DryRun = False,
    where: OutboxOptions,
) -> None:
    """Close an incident although it is not over. Sinks are notified, with your name and the reason.

    There are no more notifications of what is down until all of it has been up; what goes down after that is
    a new incident. A broker that no partition is assigned to needs no closing: its incident ends by itself.

    \b
    kpe incident close ce63e373-fdbb-5ce4-a109-d2dca6134974 --config kpe.toml --reason "broker 3 is scrapped"
    kpe incident close ce63e373-fdbb-5ce4-a109-d2dca6134974 --outbox outbox.db --reason test --dry-run

    Exit codes: 0 it was written; 2 there is no open one of that id, no such outbox, no answer from Kafka.
    """  # noqa: D301
    _decide("close", id_, author, reason, dry_run=dry_run, where=where, services=context.obj)


def _decide(
    verb: Literal["ack", "close"],
    id_: str,
    author: str | None,
    reason: str,
    *,
    dry_run: bool,
    where: OutboxOptions,
    services: Services,
) -> None:
    with where.opened() as opened:
        document = _found(id_, opened, services)
    if not document["open"]:
        raise CliError(f"incident {id_} is not open; see `kpe incident ls`")
    name = author or os.environ.get("USER", "")
    key, record = _decision(verb, document, name, reason, services.clock.now())
    if dry_run:
        write_json(record.decode())
        tell("note: nothing was written; it would be")
        return
    with where.trail(services).act(f"incident.{verb}", decision=json.loads(record)):
        where.share(key, record)
    write_line(id_)


def _standing(outbox: SqliteOutbox, services: Services) -> list[Mapping[str, Any]]:
    with needing("observe"):
        from kafka_partition_events.incidents import standing  # noqa: PLC0415 - an extra
    return standing.standing_in(outbox, services.clock.now())


def _found(id_: str, outbox: SqliteOutbox, services: Services) -> Mapping[str, Any]:
    for document in _standing(outbox, services):
        if document["incident_id"] == id_:
            return document
    raise CliError(f"there is no incident {id_}; see `kpe incident ls`")


def _decision(
    verb: Literal["ack", "close"], document: Mapping[str, Any], author: str, reason: str, now: datetime
) -> tuple[str, bytes]:
    from kafka_partition_events.incidents.causes import Cause  # noqa: PLC0415 - an extra
    from kafka_partition_events.incidents.decisions import Decision, encode_decision  # noqa: PLC0415

    cause = Cause(**(document["cause"] or {})).subject or ""
    try:
        decision = Decision(verb=verb, cause=cause, at=now, author=author, reason=reason)
    except ValueError:
        raise CliError("--author and --reason must have 1 to 500 characters") from None
    return decision.key, encode_decision(decision)


def _cells(document: Mapping[str, Any]) -> tuple[str, ...]:
    cause = " ".join(f"{kind} {name}" for kind, name in (document["cause"] or {"metadata": ""}).items())
    opened = document["opened_at"] or "held down"
    told = document["told_at"] or "-"
    if "closed_by" in document:
        told = f"closed by {document['closed_by']}"
    elif "acknowledged_by" in document:
        told += f", {document['acknowledged_by']} looks after it"
    return document["incident_id"], opened, cause.strip(), str(document["offline_count"]), told
