"""``kpe instances``: the processes that run the library."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from kafka_partition_events.cli.change.session import session
from kafka_partition_events.cli.change.text import lasting
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import Bootstrap, ClientOptions, OutputChoice, Prefix, Verbose
from kafka_partition_events.cli.common.output import Output, tell, write_json_line, write_line
from kafka_partition_events.control.protocol.ledger import Tenancy
from kafka_partition_events.control.protocol.records import Lease
from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.control.protocol.vocabulary import LeaseState

instances_app = typer.Typer(rich_markup_mode=None)

_NAME_WIDTH = 32


class Presence(StrEnum):
    """Whether an instance is there."""

    UP = "up"
    STALE = "stale"
    """Its last lease is older than its time to live."""
    LOST = "lost"
    """Older than two of them: changes do not wait for it any more."""
    DOWN = "down"


@instances_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, told in one line on stderr. "
    "`kpe instances COMMAND --help` has examples."
)
def instances() -> None:
    """See the processes that run the library and publish leases.

    \b
    kpe instances ls -b localhost:9092 --stale
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@instances_app.command("ls", short_help="List instances by their leases.")
def ls_command(
    context: typer.Context,
    bootstrap: Bootstrap,
    stale: Annotated[
        bool, typer.Option("--stale", help="Only those whose lease is older than its time to live.")
    ] = False,
    client_options: ClientOptions = None,
    prefix: Prefix = PREFIX,
    output: OutputChoice = None,
    verbose: Verbose = False,
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
    with session(context, bootstrap, client_options, prefix=prefix, output=output, verbose=verbose) as at:
        now_ms, tenancies = at.now_ms(), at.desk.ledger.tenancies
        rows = [instance_row(tenancies[name], now_ms) for name in sorted(tenancies)]
    shown = [row for row in rows if not stale or row["state"] in {Presence.STALE, Presence.LOST}]
    for row in shown:
        if at.output is Output.JSONL:
            write_json_line(row)
        else:
            write_line(_line(row))
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


def _line(row: dict[str, Any]) -> str:
    topics = len(row["topics"]) + row["topics_left_out"]
    limits = [f"{name}={value:,}" for name, value in row["capacity"].items() if value is not None]
    app = " ".join(word for word in (row["app"], row["app_version"]) if word)
    group = f"group {row['group']}" if row["group"] else ""
    told = [word for word in (app, row["client"], group, counted(topics, "topic"), *limits) if word]
    age = f"{lasting(max(0.0, row['age_s'])):>11}"
    return (
        f"{row['instance_id']:<{_NAME_WIDTH}}  {row['state']:<5}  {age}  {row['role']:<8}  {', '.join(told)}"
    )
