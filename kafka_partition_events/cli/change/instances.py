"""``kpe instances``: the processes that run the library."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from kafka_partition_events.cli.change.session import session
from kafka_partition_events.cli.change.text import lasting
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import Listing, tell
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.protocol.ledger import Tenancy
from kafka_partition_events.control.protocol.records import Lease
from kafka_partition_events.control.protocol.vocabulary import LeaseState

instances_app = typer.Typer(rich_markup_mode=None)


class Presence(StrEnum):
    """Whether an instance is there."""

    UP = "up"
    STALE = "stale"
    """Its last lease is older than its time to live."""
    LOST = "lost"
    """Older than two of them: changes do not wait for it any more."""
    DOWN = "down"


@instances_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, in one line on stderr. "
    "`kpe instances COMMAND --help` has examples."
)
def instances() -> None:
    """See the processes that run the library and publish leases.

    \b
    kpe instances ls -b localhost:9092 --stale
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@instances_app.command("ls", short_help="List instances by their leases.")
@with_options
def ls_command(
    context: typer.Context,
    *,
    stale: Annotated[
        bool, typer.Option("--stale", help="Only those whose lease is older than its time to live.")
    ] = False,
    where: ControlOptions,
    listing: Listing,
) -> None:
    """List instances: the age of the lease, whether it is there, role, application, client, capacity, topics.

    up; stale, without a sign of life for its time to live (90 s unless it says otherwise); lost, for two of
    them, and no change waits for it any more; down, stopped in good order. Ages are by this machine's clock:
    if it is ahead of the brokers', all look older. Leases are kept for two days.

    \b
    kpe instances ls -b localhost:9092
    kpe instances ls -b localhost:9092 --stale
    kpe instances ls -b localhost:9092 | jq -r 'select(.topics[].topic == "orders") | .instance_id'

    Exit codes: 0 listed, even if there are none; 2 no control topics, wrong address, unknown option.
    """  # noqa: D301
    with session(context, where, listing.output) as at:
        now_ms, tenancies = at.now_ms(), at.desk.ledger.tenancies
        rows = [instance_row(tenancies[name], now_ms) for name in sorted(tenancies)]
    shown = [row for row in rows if not stale or row["state"] in {Presence.STALE, Presence.LOST}]
    listing.write(shown, lambda row: row, ("INSTANCE", "STATE", "AGE", "ROLE", "DETAILS"), _cells)
    if not shown:
        tell("note: no lease is stale" if stale and rows else "note: there are no leases")


def instance_row(tenancy: Tenancy, now_ms: int) -> dict[str, Any]:
    """Return an instance as one JSON object; pure."""
    lease, age_s = tenancy.holder.record, (now_ms - tenancy.holder.at_ms) / 1_000
    capacity = lease.capacity
    return {
        "kind": "instance",
        "instance_id": lease.instance_id,
        "state": presence(lease, age_s).value,
        "age_s": round(age_s, 1),
        "ttl_s": lease.ttl_s,
        "role": lease.role.value,
        "group": lease.group,
        "cluster_id": lease.cluster_id,
        "app": lease.app,
        "app_version": lease.app_version,
        "client": lease.client,
        "capacity": {
            "buffer_memory": capacity.buffer_memory,
            "batch_size": capacity.batch_size,
        },
        "topics": [
            {
                "topic": use.topic,
                "seen": use.seen,
                "used": use.used,
                "max_partitions": use.max_partitions,
            }
            for use in lease.view
        ],
        "topics_left_out": lease.topics_left_out,
    }


def presence(lease: Lease, age_s: float) -> Presence:
    """Return whether an instance is there; pure."""
    if lease.state is LeaseState.DOWN:
        return Presence.DOWN
    if age_s > 2 * lease.ttl_s:
        return Presence.LOST
    return Presence.STALE if age_s > lease.ttl_s else Presence.UP


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    topics = len(row["topics"]) + row["topics_left_out"]
    limits = [f"{name}={value:,}" for name, value in row["capacity"].items() if value is not None]
    app = " ".join(word for word in (row["app"], row["app_version"]) if word)
    group = f"group {row['group']}" if row["group"] else ""
    told = [word for word in (app, row["client"], group, counted(topics, "topic"), *limits) if word]
    age = lasting(max(0.0, row["age_s"]))
    return row["instance_id"], row["state"], age, row["role"], ", ".join(told)
