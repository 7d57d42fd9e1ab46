"""The fleet report as one self-contained HTML file. Pure."""

from html import escape
from typing import Final

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.page import page, section
from kafka_partition_events.spark.report.heatmap import heatmap, percent
from kafka_partition_events.spark.report.model import FleetData, total
from kafka_partition_events.spark.report.outages import outages


def render(data: FleetData) -> str:
    """Return the whole page."""
    return page(
        __package__,
        title=f"Partitions of cluster {data.cluster}",
        heading=verdict(data),
        under=_when(data),
        figures=_figures(data),
        sections=(
            section("Availability by topic and hour", heatmap(data), _HEAT_CAPTION),
            section("Outages", outages(data), _OUTAGES_CAPTION),
        ),
    )


def verdict(data: FleetData) -> str:
    """Return how it went, in one sentence or two."""
    whole = total(data.hours)
    share = whole.availability
    if share is None:
        return "This cluster was not watched in the period."
    said = f"Partitions were available {percent(share)} of the watched time."
    promise = f"the promise of {100 * data.target:.6g}%"
    if share[0] >= data.target:
        if whole.offline_hi_s + whole.blind_s > (1 - data.target) * whole.partition_s:
            return f"{said} Whether {promise} was kept is not known: too much was not watched."
        return f"{said} {promise.capitalize()} was kept."
    if share[1] < data.target:
        return f"{said} {promise.capitalize()} was broken."
    return f"{said} Whether {promise} was kept is not known."


def _when(data: FleetData) -> str:
    since = f", data since {data.hours[0].hour:%Y-%m-%d %H:%M}" if data.hours else ""
    return (
        f"Cluster <code>{escape(data.cluster)}</code>, {data.days.first} to {data.days.last}{since}, "
        f"last news {data.until:%Y-%m-%d %H:%M:%S} UTC. Made {data.made_at:%Y-%m-%d %H:%M} UTC."
    )


def _figures(data: FleetData) -> dict[str, str]:
    whole = total(data.hours)
    unseen = f"{100 * whole.blind_s / whole.partition_s:.1f}%" if whole.partition_s else wording.DASH
    return {
        "Topics": wording.count(data.topic_count),
        "Outages": wording.count(data.outage_count),
        "Still open": wording.count(data.open_count),
        "Longest outage": wording.lasted(*data.outages[0].span.seconds) if data.outages else "none",
        "Not watched": unseen,
    }


_HEAT_CAPTION: Final = (
    "Each square is an hour (UTC), coloured by the least availability that the topic's partitions may "
    "have had in it. The topics with the most offline time come first; on the right the whole period, from "
    "the least to the most."
)
_OUTAGES_CAPTION: Final = (
    "A partition is offline while no listed broker leads it; the whole cluster is out while it answers none "
    "of those that watch it, whatever its partitions do. The cluster is polled every so often, so a begin "
    "and an end are known only to lie between two polls: solid is certain, hatched may be. All times "
    "are UTC. Metadata go on naming a dead broker until its session times out (after 9 s, unless configured "
    "otherwise), so writing may have failed sooner."
)
