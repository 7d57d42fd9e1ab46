"""Outages as a picture and as a table."""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Final

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.fleet.report.model import FleetData, FleetOutage
from kafka_partition_events.spark.model import Outage, ReportData
from kafka_partition_events.spark.report import legend
from kafka_partition_events.spark.timeline import timeline

MAX_ROWS: Final = 200
"""Rows of the table, the longest outages first."""


def outages(data: FleetData) -> str:
    """Return the timeline and the table."""
    told = ReportData(
        cluster=data.cluster,
        made_at=data.made_at,
        first=data.days.begin,
        last=data.until,
        outages=tuple(Outage(topic=o.topic, partition=o.partition, span=o.span) for o in data.outages),
        changes=data.changes,
    )
    return legend() + timeline(told) + _table(data.outages)


def _table(outages: Sequence[FleetOutage]) -> str:
    if not outages:
        return ""
    ordered = sorted(outages, key=lambda o: (-o.span.shortest_s, o.topic, o.partition))
    rows = "".join(_row(outage) for outage in ordered[:MAX_ROWS])
    rest = len(ordered) - MAX_ROWS
    more = f"<p>{wording.plural(rest, 'shorter outage')} not listed.</p>" if rest > 0 else ""
    return (
        '<div class="scroll"><table><thead><tr><th>Topic<th class="n">Partition<th>Began between<th>'
        'Ended between<th>Lasted<th class="n">Leader before<th class="n">After<th class="n">Broker that left'
        f"</thead><tbody>{rows}</tbody></table></div>{more}"
    )


def _row(outage: FleetOutage) -> str:
    span = outage.span
    ended = "still offline at the last news" if span.open else _between(span.ended_after, span.ended_by)
    brokers = "".join(
        f'<td class="n">{wording.DASH if broker is None else broker}'
        for broker in (outage.leader_before, outage.leader_after, outage.cause)
    )
    return (
        f'<tr><td>{escape(outage.topic)}<td class="n">{outage.partition}'
        f"<td>{_between(span.began_after, span.began_by)}<td>{ended}"
        f"<td><b>{wording.lasted(span)}</b>{brokers}</tr>"
    )


def _between(after: datetime | None, by: datetime | None) -> str:
    """Return the interval with its day; the second day only where it differs."""
    if by is None:
        return "not seen"
    if after is None:
        return f"by {by:%m-%d} {wording.clock(by)}"
    until = wording.clock(by) if after.date() == by.date() else f"{by:%m-%d} {wording.clock(by)}"
    return f"{after:%m-%d} {wording.clock(after)} {wording.DASH} {until}"
