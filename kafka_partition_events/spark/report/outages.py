"""Outages as a table, and what else changed."""

from collections.abc import Iterable
from html import escape
from typing import Final

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.page import legend, table
from kafka_partition_events.spark.report.model import Change, FleetData, Outage
from kafka_partition_events.spark.report.timeline import described, timeline

MAX_OUTAGES: Final = 200
"""Rows of the table, the longest outages first."""
MAX_CHANGES: Final = 200
"""Rows of the other one, the latest changes."""

_BARS: Final = (("down sure", "offline"), ("down maybe", "may have begun or ended here"))


def outages(data: FleetData) -> str:
    """Return the timeline and the table."""
    if not data.outages:
        return timeline(data)
    head = (
        '<th>Topic<th class="n">Partition<th>Began between<th>Ended between<th>Lasted'
        '<th class="n">Leader before<th class="n">After<th class="n">Broker that left'
    )
    rest = data.outage_count - len(data.outages[:MAX_OUTAGES])
    more = f"<p>{wording.plural(rest, 'shorter outage')} not listed.</p>" if rest > 0 else ""
    return f"{legend(_BARS)}{timeline(data)}{table(head, map(_outage, data.outages[:MAX_OUTAGES]))}{more}"


def _outage(outage: Outage) -> str:
    span = outage.span
    ended = (
        "still offline at the last news"
        if span.ended_by is None
        else wording.between(span.ended_after, span.ended_by)
    )
    brokers = "".join(
        f'<td class="n">{wording.DASH if broker is None else broker}'
        for broker in (outage.leader_before, outage.leader_after, outage.cause)
    )
    return (
        f'<tr><td>{escape(outage.topic)}<td class="n">{outage.partition}'
        f"<td>{wording.between(span.began_after, span.began_by)}<td>{ended}"
        f"<td><b>{wording.lasted(*span.seconds)}</b>{brokers}</tr>"
    )


def changes(found: Iterable[Change], *, cut: bool) -> str:
    """Return the table of what else changed, or a sentence when nothing did."""
    shown = list(found)
    if not shown:
        return "<p>Nothing.</p>"
    more = f"<p>The latest {len(shown)}; there were more.</p>" if cut else ""
    return table("<th>Happened between<th>To what<th>What", map(_change, shown)) + more


def _change(change: Change) -> str:
    whom = f"broker {change.broker}" if change.topic is None else change.topic
    return (
        f"<tr><td>{wording.between(change.after, change.by)}<td>{escape(whom)}"
        f"<td>{escape(described(change))}</tr>"
    )
