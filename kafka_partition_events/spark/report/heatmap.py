"""Availability by topic and hour: one small square for each hour, the worst topics first."""

from datetime import datetime, timedelta
from html import escape
from typing import Final

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.page import legend
from kafka_partition_events.spark.report.model import HOUR, FleetData, Rated, RatedTopic

MAX_TOPICS: Final = 40
"""Topics with a line of their own; the others had less offline time."""
MAX_HOURS: Final = 14 * 24
"""Hours in the picture, the latest; more would be squares of a pixel."""

_CLASSES: Final = ((1.0, "up"), (0.9999, "a"), (0.999, "b"), (0.99, "c"), (0.9, "d"), (0.0, "e"))
"""The least availability of a class, and its name in the style sheet."""
_LEGEND: Final = (
    ("square up", "no outage"),
    ("square a", "99.99% or more"),
    ("square b", "99.9%"),
    ("square c", "99%"),
    ("square d", "90%"),
    ("square e", "less"),
    ("square blind", "not watched"),
)


def heatmap(data: FleetData) -> str:
    """Return the picture with its legend, or a sentence when there is nothing to show."""
    if not data.hours:
        return "<p>No hour was watched.</p>"
    last = data.hours[-1].hour
    first = max(data.hours[0].hour, last - (MAX_HOURS - 1) * HOUR)
    count = round((last - first) / HOUR) + 1
    lanes = "".join(_lane(topic, first, count) for topic in data.topics)
    rest = data.topic_count - len(data.topics)
    more = f"<p>{wording.plural(rest, 'topic')} with less offline time not drawn.</p>" if rest > 0 else ""
    return f'{legend(_LEGEND)}<div class="heat">{_axis(first, count)}{lanes}</div>{more}'


def class_of(row: Rated) -> str:
    """Return the style of an hour, by the least availability that it may have had."""
    share = row.availability
    if share is None:
        return "blind"
    return next(name for least, name in _CLASSES if share[0] >= least)


def _lane(topic: RatedTopic, first: datetime, count: int) -> str:
    cells = "".join(
        f'<rect class="{class_of(row)}" x="{round((row.hour - first) / HOUR)}" y="0" width="1" height="1">'
        f"<title>{escape(_title(topic.topic, row.hour, row))}</title></rect>"
        for row in topic.hours
        if row.hour >= first
    )
    name, share = escape(topic.topic), percent(topic.availability)
    return (
        f'<div class="lane"><div class="who">{name}</div>'
        f'<svg viewBox="0 0 {count} 1" preserveAspectRatio="none" role="img" '
        f'aria-label="{name}: {share}">{cells}</svg>'
        f'<div class="long">{share}</div></div>'
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


def _title(topic: str, hour: datetime, row: Rated) -> str:
    end = hour + timedelta(hours=1)
    said = f"{topic}, {hour:%Y-%m-%d %H:%M} to {end:%H:%M}: {percent(row.availability)}"
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
