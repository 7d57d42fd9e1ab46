"""Outages and what else changed, as HTML: a picture of both, and a table of outages.

The picture has a lane for each partition that was offline, and for each topic that changed. A bar
is solid where the outage is certain and hatched where it may have begun or ended. Lanes are placed by
percentages, so the picture follows the width of the page and its text keeps its size.
"""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Final

from attrs import frozen

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.page import legend, table
from kafka_partition_events.spark.report.model import FleetData, Outage, Span, TopicChange

MAX_OUTAGES: Final = 200
"""Rows of the table, the longest outages first."""
MAX_LANES: Final = 60
"""Outages in the picture, the longest first, and marks, the latest; the table below lists more outages."""

_BARS: Final = (("down sure", "offline"), ("down maybe", "may have begun or ended here"))
_STEPS_S: Final = (
    0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
)  # fmt: skip
_WEEK_S: Final = 7 * 86_400
_MOST_TICKS: Final = 7
_MARGIN: Final = 0.04
_LABEL_WIDTH: Final = 40.0
"""Percent of the width that a mark's label may need."""

_GROWN: Final = ("grew", "grow", "M6 1l5 10H1z")
_RECREATED: Final = ("re-created,", "again", "M6 0l6 6-6 6-6-6z")
"""What a change is called, its CSS class, and the outline of its mark, in a box of 12 x 12."""


@frozen
class Scale:
    """Time -> percent of the picture's width."""

    start: datetime
    end: datetime

    def percent(self, moment: datetime) -> float:
        """Return the place of a moment, from 0 to 100; what lies outside is put on the edge."""
        share = (moment - self.start) / (self.end - self.start)
        return round(100 * min(1.0, max(0.0, share)), 3)

    def ticks(self) -> list[datetime]:
        """Return at most seven round moments."""
        seconds = (self.end - self.start).total_seconds()
        weeks = math.ceil(seconds / _WEEK_S / _MOST_TICKS)
        step = next((s for s in _STEPS_S if seconds / s <= _MOST_TICKS), weeks * _WEEK_S)
        first = -(-self.start.timestamp() // step) * step
        count = int((self.end.timestamp() - first) // step) + 1
        return [datetime.fromtimestamp(first, UTC) + timedelta(seconds=n * step) for n in range(count)]

    def label(self, tick: datetime) -> str:
        """Return the time of day, or the date as well when the picture covers days."""
        days = self.end - self.start > timedelta(days=1)
        return f"{tick:%m-%d %H:%M}" if days else wording.clock(tick, tenths=False)


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
    partition, *brokers = (
        f'<td class="n">{wording.DASH if number is None else number}'
        for number in (outage.partition, outage.leader_before, outage.leader_after, outage.cause)
    )
    return (
        f"<tr><td>{escape(outage.topic)}{partition}"
        f"<td>{wording.between(span.began_after, span.began_by)}<td>{ended}"
        f"<td><b>{wording.lasted(*span.seconds)}</b>{''.join(brokers)}</tr>"
    )


# -- the picture -------------------------------------------------------------------------------------------


def timeline(data: FleetData) -> str:
    """Return the picture, or a sentence when nothing changed."""
    shown = data.outages[:MAX_LANES]
    marked = data.changes[-MAX_LANES:]
    if not (shown or marked):
        return "<p>Nothing changed: no partition went offline, no topic grew.</p>"
    scale = _scale(shown, marked)
    axis = "".join(
        f'<i style="left:{scale.percent(tick)}%"><b>{scale.label(tick)}</b></i>' for tick in scale.ticks()
    )
    lanes = "".join(_lanes(shown, marked, scale))
    left_out = data.outage_count - len(shown)
    rest = f"<p>{wording.plural(left_out, 'shorter outage')} not drawn.</p>" if left_out > 0 else ""
    return f'<div class="timeline"><div class="axis" aria-hidden="true">{axis}</div>{lanes}</div>{rest}'


def _scale(outages: Iterable[Outage], marked: Iterable[TopicChange]) -> Scale:
    """Return the time from the first change to the last, with a margin: quiet hours would hide seconds."""
    moments = [moment for outage in outages for moment in _moments(outage.span)]
    moments += [change.at for change in marked]
    start, end = min(moments), max(moments)
    margin = max((end - start) * _MARGIN, timedelta(seconds=0.5))
    return Scale(start - margin, end + margin)


def _moments(span: Span) -> list[datetime]:
    ends = (span.began_after, span.began_by, span.ended_after, span.ended_by or span.seen_until)
    return [moment for moment in ends if moment is not None]


def _lanes(outages: Iterable[Outage], marked: Iterable[TopicChange], scale: Scale) -> Iterator[str]:
    marks: dict[str, list[TopicChange]] = {}
    for change in marked:
        marks.setdefault(change.topic, []).append(change)
    offline: dict[str, dict[int | None, list[Span]]] = {}
    for outage in outages:
        offline.setdefault(outage.topic, {}).setdefault(outage.partition, []).append(outage.span)
    for topic in sorted({*marks, *offline}):  # each with its marks above its partitions
        for row in _rows(marks.get(topic, ()), scale):
            # On a narrow page the labels do not fit beside the marks and stand at the end instead.
            beside = f'<span class="narrow">{"<br>".join(map(_label, row))}</span>'
            yield _lane(topic, None, "".join(_mark(change, scale) for change in row), beside)
        for partition, spans in sorted(offline.get(topic, {}).items(), key=lambda lane: lane[0] or 0):
            lasted = "<br>".join(wording.lasted(*span.seconds) for span in spans)
            yield _lane(topic, partition, "".join(_bar(span, scale) for span in spans), lasted)


def _rows(changes: Iterable[TopicChange], scale: Scale) -> list[list[TopicChange]]:
    """Return as few rows of marks as keep their labels apart."""
    rows: list[list[TopicChange]] = []
    for change in sorted(changes, key=lambda change: change.at):
        place = scale.percent(change.at)
        row = next((row for row in rows if place - scale.percent(row[-1].at) > _LABEL_WIDTH), None)
        if row is None:
            rows.append([change])
        else:
            row.append(change)
    return rows


def _lane(owner: str, number: int | None, track: str, beside: str) -> str:
    label = escape(owner) if number is None else f"{escape(owner)} <b>{number}</b>"
    return (
        f'<div class="lane"><div class="who">{label}</div><div class="track">{track}</div>'
        f'<div class="long">{beside}</div></div>'
    )


def _bar(span: Span, scale: Scale) -> str:
    certain_until = max(span.began_by, span.ended_after or span.began_by)
    if span.ended_by is None:
        certain_until = span.seen_until
    parts = [_piece(scale, span.began_by, certain_until, f"down sure{' open' if span.open else ''}")]
    if span.began_after is None:
        parts.append(_piece(scale, scale.start, span.began_by, "down unknown"))
    else:
        parts.append(_piece(scale, span.began_after, span.began_by, "down maybe"))
    if span.ended_by is not None:
        parts.append(_piece(scale, certain_until, span.ended_by, "down maybe"))
    end = "not seen to end" if span.ended_by is None else wording.between(span.ended_after, span.ended_by)
    label = f"began {wording.between(span.began_after, span.began_by)}, ended {end}"
    return f'<span class="bar" role="img" aria-label="{escape(label)}">{"".join(parts)}</span>'


def _piece(scale: Scale, start: datetime, end: datetime, classes: str) -> str:
    left, right = scale.percent(start), scale.percent(end)
    return f'<span class="{classes}" style="left:{left}%;width:{right - left:.3f}%"></span>'


def _mark(change: TopicChange, scale: Scale) -> str:
    _, kind, outline = _RECREATED if change.recreated else _GROWN
    place = scale.percent(change.at)
    side = "before" if place > 60 else "behind"
    return (
        f'<span class="mark {kind} {side}" style="left:{place}%">'
        f'<svg viewBox="0 0 12 12" aria-hidden="true"><path d="{outline}"/></svg>'
        f"<em>{_label(change)}</em></span>"
    )


def _label(change: TopicChange) -> str:
    name, *_ = _RECREATED if change.recreated else _GROWN
    return f"{name} {change.before} \N{RIGHTWARDS ARROW} {change.after} partitions"
