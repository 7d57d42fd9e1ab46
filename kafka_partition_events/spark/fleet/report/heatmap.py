"""Availability by topic and hour: one small square for each hour, the worst topics first."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from html import escape
from typing import Final

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.fleet.report.model import HOUR, TopicHour, by_topic, total

MAX_TOPICS: Final = 40
"""Topics with a line of their own; the others had less offline time."""
MAX_HOURS: Final = 14 * 24
"""Hours in the picture, the latest; more would be squares of a pixel."""

_CLASSES: Final = ((1.0, "up"), (0.9999, "a"), (0.999, "b"), (0.99, "c"), (0.9, "d"), (0.0, "e"))
"""The least availability of a class, and its name in the style sheet."""
_LEGEND: Final = (
    ("up", "no outage"),
    ("a", "99.99% or more"),
    ("b", "99.9%"),
    ("c", "99%"),
    ("d", "90%"),
    ("e", "less"),
    ("blind", "not watched"),
)


def heatmap(hours: Iterable[TopicHour]) -> str:
    """Return the picture with its legend, or a sentence when there is nothing to show."""
    found = by_topic(hours)
    if not found:
        return "<p>No hour was watched.</p>"
    last = max(row.hour for own in found.values() for row in own)
    first = max(min(row.hour for own in found.values() for row in own), last - (MAX_HOURS - 1) * HOUR)
    count = round((last - first) / HOUR) + 1
    shown = list(found)[:MAX_TOPICS]
    lanes = "".join(_lane(topic, found[topic], first, count) for topic in shown)
    rest = len(found) - len(shown)
    more = f"<p>{wording.plural(rest, 'topic')} with less offline time not drawn.</p>" if rest else ""
    return f'{_legend()}<div class="heat">{_axis(first, count)}{lanes}</div>{more}'


def class_of(row: TopicHour) -> str:
    """Return the style of an hour, by the least availability that it may have had."""
    share = row.availability
    if share is None:
        return "blind"
    return next(name for least, name in _CLASSES if share[0] >= least)


def _lane(topic: str, rows: list[TopicHour], first: datetime, count: int) -> str:
    cells = "".join(
        f'<rect class="{class_of(row)}" x="{place}" y="0" width="1" height="1"><title>'
        f"{escape(_told(row))}</title></rect>"
        for row in rows
        if (place := round((row.hour - first) / HOUR)) >= 0
    )
    whole = total(rows)
    share = None if whole is None else whole.availability
    return (
        f'<div class="lane"><div class="who">{escape(topic)}</div>'
        f'<svg viewBox="0 0 {count} 1" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(topic)}: {percent(share)}">{cells}</svg>'
        f'<div class="long">{percent(share)}</div></div>'
    )


def _axis(first: datetime, count: int) -> str:
    days = [n for n in range(count) if (first + n * HOUR).hour == 0]
    step = -(-len(days) // 7) or 1
    ticks = days[::step] or [0]
    marks = "".join(
        f'<i style="left:{100 * tick / count:.3f}%"><b>{_label(first + tick * HOUR)}</b></i>'
        for tick in ticks
    )
    return f'<div class="axis" aria-hidden="true">{marks}</div>'


def _label(moment: datetime) -> str:
    return f"{moment:%m-%d}" if moment.hour == 0 else f"{moment:%m-%d %H:%M}"


def _told(row: TopicHour) -> str:
    end = row.hour + timedelta(hours=1)
    said = f"{row.topic}, {row.hour:%Y-%m-%d %H:%M} to {end:%H:%M}: {percent(row.availability)}"
    if row.incidents:
        said += f", {wording.plural(row.incidents, 'outage')} began"
    if row.blind_s:
        share = 100 * row.blind_s / row.partition_s if row.partition_s else 100.0
        said += f", {share:.0f}% not watched"
    return said


def percent(share: tuple[float, float] | None) -> str:
    """Return a range of shares as percent, one number where both read the same."""
    if share is None:
        return "not watched"
    low, high = (_exact(each) for each in share)
    return f"{low}%" if low == high else f"{low}{wording.DASH}{high}%"


def _exact(share: float) -> str:
    # A tiny outage must not read as none: never round up to 100.
    if share == 1:
        return "100"
    return f"{min(100 * share, 99.999):.3f}"


def _legend() -> str:
    keys = "".join(
        f'<li><svg class="key heat-key" viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{name}" width="1" height="1"/></svg>{text}</li>'
        for name, text in _LEGEND
    )
    return f'<ul class="legend">{keys}</ul>'
