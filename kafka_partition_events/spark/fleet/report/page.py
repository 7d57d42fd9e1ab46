"""The fleet report as one self-contained HTML file: no script, no request to anywhere. Pure."""

from html import escape
from importlib.resources import files
from typing import Final

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.fleet.report.brokers import brokers
from kafka_partition_events.spark.fleet.report.budget import PERIOD_NOTE, budget
from kafka_partition_events.spark.fleet.report.heatmap import heatmap, percent
from kafka_partition_events.spark.fleet.report.model import FleetData, total
from kafka_partition_events.spark.fleet.report.outages import outages
from kafka_partition_events.spark.report import section


def render(data: FleetData) -> str:
    """Return the whole page."""
    spark = files("kafka_partition_events.spark")
    style = spark.joinpath("report.css").read_text(encoding="utf-8")
    style += spark.joinpath("fleet", "report", "fleet.css").read_text(encoding="utf-8")
    title = f"Partitions of cluster {escape(data.cluster)}"
    sections = "".join(
        (
            section("Availability by topic and hour", heatmap(data.hours), _HEAT_CAPTION),
            section("Error budget", budget(data), PERIOD_NOTE),
            section("Outages", outages(data), _OUTAGES_CAPTION),
            section("Brokers", brokers(data), _BROKER_CAPTION),
            section("What this is made of", _sources(data)),
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>{style}</style></head><body><main>"
        f"<header><h1>{escape(verdict(data))}</h1><p>{_when(data)}</p></header>"
        f"{_figures(data)}{sections}</main></body></html>\n"
    )


def verdict(data: FleetData) -> str:
    """Return how it went, in one sentence or two."""
    whole = total(data.hours)
    share = None if whole is None else whole.availability
    if share is None:
        return "Nobody watched this cluster in the period."
    said = f"Partitions were available {percent(share)} of the watched time."
    if share[0] >= data.target:
        return f"{said} The promise of {_target(data)} was kept."
    if share[1] < data.target:
        return f"{said} The promise of {_target(data)} was broken."
    return f"{said} Whether the promise of {_target(data)} was kept can't be told."


def _target(data: FleetData) -> str:
    return f"{100 * data.target:.6g}%"


def _when(data: FleetData) -> str:
    return (
        f"Cluster <code>{escape(data.cluster)}</code>, {data.days.first} to {data.days.last}, last news "
        f"{data.until:%Y-%m-%d %H:%M:%S} UTC. Made {data.made_at:%Y-%m-%d %H:%M} UTC."
    )


def _figures(data: FleetData) -> str:
    longest = max(data.outages, key=lambda outage: outage.span.shortest_s, default=None)
    blind = sum(row.blind_s for row in data.hours)
    existed = sum(row.partition_s for row in data.hours)
    figures = (
        ("Outages", wording.count(len(data.outages))),
        ("Still open", wording.count(sum(outage.span.open for outage in data.outages))),
        ("Longest outage", wording.lasted(longest.span) if longest else "none"),
        ("Leaders moved", wording.count(sum(each.moved_from for each in data.brokers))),
        ("Not watched", f"{100 * blind / existed:.1f}%" if existed else wording.DASH),
    )
    cells = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in figures)
    return f'<dl class="figures">{cells}</dl>'


def _sources(data: FleetData) -> str:
    rows = "".join(
        f'<tr><td><code>{escape(name)}</code><td class="n">{wording.count(rows)}</tr>'
        for name, rows in data.counts.items()
    )
    return (
        '<div class="scroll"><table><thead><tr><th>Table<th class="n">Rows read</thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


_HEAT_CAPTION: Final = (
    "<p>Each square is an hour (UTC), coloured by the least availability that the topic's partitions may "
    "have had in it. The topics with the most offline time come first; on the right the whole period, from "
    "the least to the most.</p>"
)
_OUTAGES_CAPTION: Final = (
    "<p>The cluster is looked at every so often, so a begin and an end are known only to lie between two "
    "looks: solid is certain, hatched may be. All times are UTC.</p>"
)
_BROKER_CAPTION: Final = (
    "<p>Leaders that moved away from a broker or to it in the period, elections of the same broker left out; "
    "and what brokers held when the cluster was last summed up.</p>"
)
