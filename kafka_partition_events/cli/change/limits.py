"""``kpe change limits``: what producers leave unused now, because of changes that may be over for long."""

from collections.abc import Iterable
from typing import Any

import typer
from attrs import frozen

from kafka_partition_events.cli.change.session import session
from kafka_partition_events.cli.change.text import moment
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import Listing, tell
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.protocol.orders import NO_ORDER, last_change
from kafka_partition_events.control.protocol.records import Change, Order
from kafka_partition_events.control.protocol.topics import CHANGES
from kafka_partition_events.metadata.ranges import ranges


@frozen
class InForce:
    """An order that holds now, and the change that gives it."""

    change: Change
    order: Order


@with_options
def limits_command(
    context: typer.Context,
    where: ControlOptions,
    listing: Listing,
) -> None:
    """Show which partitions producers with the library leave unused now, and since which change.

    An order outlasts its change: after a decrease or a rollback producers keep to fewer partitions until
    another change of the topic, over all restarts. A topic that was created anew has no order any more; this
    shows the one of the former topic until its change is compacted away.

    \b
    kpe change limits -b localhost:9092
    kpe change limits -b localhost:9092 | jq -r 'select(.limit != null) | [.topic, .limit] | @tsv'

    Exit codes: 0 shown, even if there is nothing; 2 no control topics, wrong address, unknown option.
    """  # noqa: D301
    with session(context, where, listing.output, CHANGES) as at:
        found = in_force(at.desk.ledger.changes.values())
    listing.write(found, _document, ("SUBJECT", "ORDER", "SINCE", "CHANGE", "STATE"), _cells)
    if not found:
        tell("note: no order is in force: producers use all partitions that there are")


def in_force(changes: Iterable[Change]) -> list[InForce]:
    """Return the orders that hold now, by their subjects."""
    changes = list(changes)
    subjects = sorted({change.spec.subject for change in changes})
    last = (last_change(changes, subject, None) for subject in subjects)
    return [InForce(change, change.order) for change in last if change and change.order != NO_ORDER]


def _document(found: InForce) -> dict[str, Any]:
    spec, order = found.change.spec, found.order
    return {
        "kind": "order",
        "cluster_id": spec.cluster_id,
        "topic": spec.topic,
        "broker": spec.broker,
        "limit": order.limit,
        "offline": ranges(order.offline),
        "broker_offline": order.broker_offline,
        "change_id": found.change.change_id,
        "state": str(found.change.state),
        "requested_ms": found.change.requested_ms,
    }


def _cells(found: InForce) -> tuple[str, ...]:
    change, order = found.change, found.order
    what = [f"use the first {order.limit} partitions"] if order.limit is not None else []
    what += [f"leave {ranges(order.offline)}"] if order.offline else []
    what += ["leave what it leads"] if order.broker_offline else []
    subject = change.spec.topic or f"broker {change.spec.broker}"
    return subject, ", ".join(what), moment(change.requested_ms), change.change_id, change.state
