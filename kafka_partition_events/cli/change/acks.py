"""``kpe ack``: what instances and groups say of a change."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from kafka_partition_events.cli.change.session import ChangeId, session
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import Listing, tell
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.changes.evidence import ClusterView, Coverage, coverage
from kafka_partition_events.control.changes.followers import Follower, followers
from kafka_partition_events.control.changes.progress import fleet_of, groups_of, is_awaited
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import GROUP_PREFIX, Ack, Capacity, Change, TopicUse
from kafka_partition_events.metadata.ranges import ranges

acks_app = typer.Typer(rich_markup_mode=None)

_LEVELS = "assigned", "positioned", "flowing", "drained"


@acks_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, in one line on stderr. `kpe ack COMMAND --help` has examples."
)
def acks() -> None:
    """List what instances and groups report of a change.

    \b
    kpe ack ls -b localhost:9092 --pending 01JD5V1ZJ8Q0000000000000AB
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@acks_app.command("ls", short_help="List what each reports of a change.")
@with_options
def ls_command(
    context: typer.Context,
    change_id: ChangeId,
    *,
    pending: Annotated[bool, typer.Option("--pending", help="Only those that are still to answer.")] = False,
    where: ControlOptions,
    listing: Listing,
) -> None:
    """List the producers that a change concerns, by what they report or their leases show, and its groups.

    A producer's status: observed (seen, not applied), held (ready, waits for the gate), applied, capped (its
    memory affords fewer partitions: see the limit), rejected (by a policy), failed, rolled_back, or none. Who
    has departed, came late (after the change had happened) or shares its id with another process is marked. A
    group: how many of the affected partitions are assigned, positioned (a restart keeps that), flowing
    (committed beyond), drained. Departed is judged by this machine's clock.

    \b
    kpe ack ls -b localhost:9092 01JD5V1ZJ8Q0000000000000AB
    kpe ack ls -b localhost:9092 --pending 01JD5V1ZJ8Q0000000000000AB
    kpe ack ls -b localhost:9092 01JD5V1ZJ8Q0000000000000AB | jq -c 'select(.status == "capped")'

    Exit codes: 0 listed, even if there are none; 2 no such change, no control topics, wrong address, unknown
    option.
    """  # noqa: D301
    with session(context, where, listing.output) as at:
        change = at.change(change_id)
        # Who is there now does not matter to a change that is over.
        now_ms = at.now_ms() if change.finished_ms is None else change.finished_ms
        rows = [row for row in _rows(change, at.desk.ledger, now_ms) if row["pending"] or not pending]
    listing.write(rows, lambda row: row, ("INSTANCE", "STATUS", "DETAILS"), _cells)
    if not rows:
        tell(f"note: nobody is {'still to answer' if pending else 'known to be concerned'}")


def _rows(change: Change, ledger: Ledger, now_ms: int) -> Iterator[dict[str, Any]]:
    fleet = fleet_of(change, ledger)
    for follower in followers(change, fleet, now_ms):
        appended = fleet.acks.get(follower.instance_id)
        # Its lease may tell of more than it has said.
        said = None if appended is None or appended.record.status != follower.status else appended.record
        lease = fleet.tenancies[follower.instance_id].holder.record
        yield _producer_row(change, follower, said, lease.use_of(change.spec.topic, change.spec.topic_id))
    seen = ClusterView(readers=frozenset(groups_of(change, ledger)))
    for group in coverage(change, fleet, seen, now_ms) or ():
        yield _group_row(change, group)


def _producer_row(
    change: Change, follower: Follower, ack: Ack | None, use: TopicUse | None
) -> dict[str, Any]:
    limit = None if ack is None else ack.limit
    seen, used = (ack.seen_count, ack.used_count) if ack else (use.seen, use.used) if use else (None, None)
    return {
        "kind": "ack",
        "change_id": change.change_id,
        "instance_id": follower.instance_id,
        "status": follower.status,
        "reason": follower.reason,
        "limit": limit and _limit_document(limit),
        "seen": seen,
        "used": used,
        "departed": follower.departed,
        "late": follower.late,
        "duplicate": follower.duplicate,
        "pending": not change.state.final and is_awaited(follower),
    }


def _limit_document(limit: Capacity) -> dict[str, int | None]:
    return {
        "buffer_memory": limit.buffer_memory,
        "batch_size": limit.batch_size,
        "max_partitions": limit.max_partitions,
    }


def _group_row(change: Change, group: Coverage) -> dict[str, Any]:
    return {
        "kind": "ack",
        "change_id": change.change_id,
        "instance_id": GROUP_PREFIX + group.group,
        "group": group.group,
        "members": group.members,
        "affected": ranges(change.spec.affected),
        **{level: ranges(getattr(group, level)) for level in _LEVELS},
        "pending": not change.state.final and group.group in change.uncovered_groups,
    }


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["instance_id"], *(_of_group(row) if "group" in row else _of_producer(row))


def _of_producer(row: dict[str, Any]) -> tuple[str, str]:
    limit = row["limit"] or {}
    told = [row["reason"]] if row["reason"] else []
    told += [f"{name}={value:,}" for name, value in limit.items() if value is not None]
    told += [] if row["used"] is None else [f"uses {row['used']} of {row['seen']}"]
    told += [mark for mark in ("departed", "late", "duplicate") if row[mark]]
    return row["status"] or "-", ", ".join(told)


def _of_group(row: dict[str, Any]) -> tuple[str, str]:
    levels = [f"{level} {row[level]}" for level in _LEVELS if row[level]]
    members = "" if row["members"] is None else f", {counted(row['members'], 'member')}"
    reached = [level for level in ("flowing", "positioned", "assigned") if row[level] == row["affected"]]
    status = "waits" if row["pending"] else next(iter(reached), "-")
    return status, f"of {row['affected']}: {', '.join(levels) or 'nothing'}{members}"
