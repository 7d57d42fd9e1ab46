"""The report as one self-contained HTML file: no script, no request to anywhere. Pure; knows no Spark."""

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import Final

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.model import Outage, ReportData
from kafka_partition_events.spark.report_records import missing, records_section, traffic_section
from kafka_partition_events.spark.timeline import describe, timeline

MAX_ROWS: Final = 200
"""Rows of the longer tables."""

_ENDINGS: Final = {
    "partition.online": "came back",
    "topic.created": "found online by a later observer",
    "topic.deleted": "topic deleted",
    "topic.recreated": "topic re-created",
}


def render(data: ReportData) -> str:
    """Return the whole page."""
    style = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    note = f'<p class="note">{escape(data.note)}</p>' if data.note else ""
    sections = "".join(
        (
            section("Timeline", timeline(data), _TIMELINE_CAPTION + legend()),
            section("Outages", _outages(data.outages), _OUTAGES_CAPTION),
            traffic_section(data.traffic),
            records_section(data.accounts, data.stored, data.replaced),
            section("Everything else that changed", _changes(data), _CHANGES_CAPTION),
            section("How good the events are", _quality(data)),
        )
    )
    title = f"Partition events of cluster {escape(data.cluster)}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>{style}</style></head><body><main>"
        f"<header>{note}<h1>{escape(verdict(data))}</h1><p>{_when(data)}</p></header>"
        f"{_figures(data)}{sections}</main></body></html>\n"
    )


def verdict(data: ReportData) -> str:
    """Return what happened in one or two sentences."""
    partitions = {(outage.topic, outage.partition) for outage in data.outages}
    if not partitions:
        said = "No partition went offline."
    else:
        said = f"{wording.plural(len(partitions), 'partition')} went offline"
        still = sum(outage.span.open for outage in data.outages)
        said += f", and {still} did not come back." if still else " and came back."
    lost = missing(data.accounts, data.stored)
    gone = sum(count for topic, count in lost.items() if topic in data.replaced)
    if gone:
        said += f" {wording.plural(gone, 'acknowledged record')} went with a topic that was deleted."
    if missed := sum(lost.values()) - gone:
        said += f" {wording.plural(missed, 'acknowledged record')} cannot be found."
    return said


def _when(data: ReportData) -> str:
    first, last = data.first, data.last
    same_day = first.date() == last.date()
    until = wording.clock(last, tenths=False) if same_day else f"{last:%Y-%m-%d %H:%M:%S}"
    return (
        f"Cluster <code>{escape(data.cluster)}</code>, events from {first:%Y-%m-%d %H:%M:%S} to {until} UTC. "
        f"Made {data.made_at:%Y-%m-%d %H:%M} UTC."
    )


def _figures(data: ReportData) -> str:
    longest = max(data.outages, key=lambda outage: outage.span.shortest_s, default=None)
    added = sum(len(traffic.added) for traffic in data.traffic)
    failed = sum(account.failed for account in data.accounts)
    sent = sum(account.sent for account in data.accounts)
    figures = [
        ("Partitions offline", wording.count(len({(o.topic, o.partition) for o in data.outages}))),
        ("Longest outage", wording.lasted(longest.span) if longest else "none"),
        ("Partitions added", wording.count(added)),
    ]
    if data.accounts:
        figures += [
            ("Records sent", wording.count(sent)),
            ("Reported as failed", wording.count(failed)),
            ("Acknowledged, not found", wording.count(sum(missing(data.accounts, data.stored).values()))),
        ]
    cells = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in figures)
    return f'<dl class="figures">{cells}</dl>'


def _outages(outages: Iterable[Outage]) -> str:
    ordered = sorted(outages, key=lambda o: (-o.span.shortest_s, o.topic, o.partition))
    if not ordered:
        return "<p>None.</p>"
    rows = "".join(_outage_row(outage) for outage in ordered[:MAX_ROWS])
    more = _more(len(ordered))
    return (
        '<div class="scroll"><table><thead><tr><th>Topic<th class="n">Partition<th>Began between<th>'
        f"Ended between<th>Lasted<th>How it ended</thead><tbody>{rows}</tbody></table></div>{more}"
    )


def _outage_row(outage: Outage) -> str:
    span = outage.span
    ended = "not seen" if span.ended_by is None else wording.between(span.ended_after, span.ended_by)
    how = _ENDINGS.get(outage.ended_with or "", outage.ended_with or "still offline at the last event")
    return (
        f'<tr><td>{escape(outage.topic)}<td class="n">{outage.partition}'
        f"<td>{wording.between(span.began_after, span.began_by)}<td>{ended}"
        f"<td><b>{wording.lasted(span)}</b><td>{escape(how)}</tr>"
    )


def _changes(data: ReportData) -> str:
    if not data.changes:
        return "<p>Nothing.</p>"
    rows = "".join(
        f"<tr><td>{wording.between(change.after, change.by)}{' *' if change.gap else ''}"
        f"<td>{escape(change.topic or '')}<td>{escape(describe(change))}</tr>"
        for change in data.changes[:MAX_ROWS]
    )
    gaps = (
        "<p>* Looks at the cluster failed in this interval.</p>" if any(c.gap for c in data.changes) else ""
    )
    return (
        '<div class="scroll"><table><thead><tr><th>Happened between<th>Topic<th>What</thead>'
        f"<tbody>{rows}</tbody></table></div>{_more(len(data.changes))}{gaps}"
    )


def _quality(data: ReportData) -> str:
    quality = data.quality
    return (
        f"<p>{wording.plural(quality.read, 'record')} read from the events topic: "
        f"{wording.plural(quality.distinct, 'different event')}, {wording.plural(quality.doubles, 'double')} "
        f"(the same transition told again), {wording.count(quality.unknown)} of a type or version unknown "
        f"here, {wording.count(quality.unparsed)} that could not be parsed.</p>"
    )


def _more(total: int) -> str:
    return f"<p>The first {MAX_ROWS} of {wording.count(total)}.</p>" if total > MAX_ROWS else ""


def section(title: str, body: str, caption: str = "") -> str:
    """Return one section of a page."""
    return f"<section><h2>{title}</h2>{caption}{body}</section>"


def legend() -> str:
    """Return what the timeline's bars mean."""
    entries = (
        ("down sure", "offline"),
        ("down maybe", "may have begun or ended here"),
        ("away sure", "broker not listed"),
    )
    keys = "".join(f'<li><span class="key {classes}"></span>{text}</li>' for classes, text in entries)
    return f'<ul class="legend">{keys}</ul>'


_TIMELINE_CAPTION: Final = (
    "<p>The cluster is looked at every so often, so a change is known only to lie between two looks. "
    "All times are UTC.</p>"
)
_OUTAGES_CAPTION: Final = (
    "<p>A partition is offline while no listed broker leads it. It lasted at least from the latest begin to "
    "the earliest end, and at most from the earliest begin to the latest end. This is what the metadata say: "
    "they go on naming a dead broker until its session times out (after 9 s, unless configured otherwise), "
    "so writing may have failed sooner.</p>"
)
_CHANGES_CAPTION: Final = "<p>In the order in which it was seen, without the state found at the start.</p>"
