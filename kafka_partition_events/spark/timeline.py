"""The timeline as HTML: one lane for each broker that was away and each partition that was offline.

A bar is solid where the outage is certain and hatched where it may have begun or ended. Lanes are placed by
percentages, so the picture follows the width of the page and its text keeps its size.
"""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Final

from attrs import frozen

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.model import Change, Outage, ReportData, Span

MAX_LANES: Final = 60
"""Partitions in the picture, the longest outages first; the table below lists more."""

_STEPS_S: Final = (
    0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
)  # fmt: skip
_WEEK_S: Final = 7 * 86_400
_MOST_TICKS: Final = 7
_MARGIN: Final = 0.04
_ONE_MARK: Final = 1.0
"""Marks closer than this, in percent of the width, are drawn as one."""
_LABEL_WIDTH: Final = 40.0
"""Percent of the width that a mark's label may need."""

_GLYPHS: Final = {
    "partitions.added": ("grow", "M6 1l5 10H1z"),
    "topic.recreated": ("again", "M6 0l6 6-6 6-6-6z"),
    "topic.deleted": ("again", "M1 3l2-2 3 3 3-3 2 2-3 3 3 3-2 2-3-3-3 3-2-2 3-3z"),
    "topic.created": ("grow", "M4.5 1h3v3.5h3.5v3H7.5V11h-3V7.5H1v-3h3.5z"),
    "broker.joined": ("away", "M6 1l5 10H1z"),
    "cap.reached": ("cap", "M1 4.5h10v3H1z"),
    "cap.lifted": ("cap", "M1 2h10v2H1zM1 8h10v2H1z"),
}
"""Event -> CSS class and the outline of its mark in a 12 x 12 box, what matters most first."""


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


def timeline(data: ReportData) -> str:
    """Return the picture, or a sentence when nothing changed."""
    shown = sorted(data.outages, key=lambda outage: -outage.span.shortest_s)[:MAX_LANES]
    marked = [change for change in data.changes if change.name in _GLYPHS]
    if not (shown or marked or data.absences):
        return "<p>Nothing changed: no partition went offline, no topic grew, no broker left.</p>"
    scale = _scale(data, marked)
    axis = "".join(
        f'<i style="left:{scale.percent(tick)}%"><b>{scale.label(tick)}</b></i>' for tick in scale.ticks()
    )
    lanes = "".join(_lanes(data, shown, marked, scale))
    left_out = len(data.outages) - len(shown)
    rest = f"<p>{wording.plural(left_out, 'shorter outage')} not drawn.</p>" if left_out else ""
    return f'<div class="timeline"><div class="axis" aria-hidden="true">{axis}</div>{lanes}</div>{rest}'


def _scale(data: ReportData, marked: Iterable[Change]) -> Scale:
    """Return the time from the first change to the last, with a margin: quiet hours would hide seconds."""
    spans = [outage.span for outage in data.outages] + [absence.span for absence in data.absences]
    moments = [moment for span in spans for moment in _moments(span)]
    for change in marked:
        moments += [change.by] if change.after is None else [change.after, change.by]
    start, end = min(moments), max(moments)
    margin = max((end - start) * _MARGIN, timedelta(seconds=0.5))
    return Scale(start - margin, end + margin)


def _moments(span: Span) -> list[datetime]:
    ends = (span.began_after, span.began_by, span.ended_after, span.ended_by or span.seen_until)
    return [moment for moment in ends if moment is not None]


def _lanes(data: ReportData, outages: Iterable[Outage], marked: list[Change], scale: Scale) -> Iterator[str]:
    away: dict[int, list[Span]] = {}
    for absence in data.absences:
        away.setdefault(absence.broker, []).append(absence.span)
    for broker in sorted(away):
        yield _bar_lane("Broker", broker, away[broker], scale, "away")
    for change in marked:
        if change.broker is not None and change.broker not in away:
            yield _mark_lane("Broker", str(change.broker), [[change]], scale)
    offline: dict[tuple[str, int], list[Span]] = {}
    for outage in outages:
        offline.setdefault((outage.topic, outage.partition), []).append(outage.span)
    for topic in wording.names([topic for topic, _ in offline] + [c.topic for c in marked if c.topic]):
        for marks in _rows([change for change in marked if change.topic == topic], scale):
            yield _mark_lane(topic, "", marks, scale)
        for (owner, partition), spans in sorted(offline.items()):
            if owner == topic:
                yield _bar_lane(topic, partition, spans, scale, "down")


def _rows(changes: Iterable[Change], scale: Scale) -> list[list[list[Change]]]:
    """Return as few rows of marks as keep their labels apart; what came in one look shares a mark."""
    rows: list[list[list[Change]]] = []
    for change in sorted(changes, key=lambda change: change.by):
        place = scale.percent(change.by)
        for row in rows:
            distance = place - scale.percent(row[-1][0].by)
            if distance < _ONE_MARK:
                row[-1].append(change)
                break
            if distance > _LABEL_WIDTH:
                row.append([change])
                break
        else:
            rows.append([[change]])
    return rows


def _bar_lane(owner: str, number: int, spans: list[Span], scale: Scale, kind: str) -> str:
    bars = "".join(_bar(span, scale, kind) for span in spans)
    return _lane(owner, str(number), bars, "<br>".join(wording.lasted(span) for span in spans))


def _mark_lane(owner: str, number: str, marks: list[list[Change]], scale: Scale) -> str:
    drawn = "".join(_mark(together, scale) for together in marks)
    # On a narrow page the labels do not fit beside the marks and stand here instead.
    beside = "<br>".join(_label(together) for together in marks)
    return _lane(owner, number, drawn, f'<span class="narrow">{beside}</span>')


def _lane(owner: str, number: str, track: str, beside: str) -> str:
    label = f"{escape(owner)} <b>{number}</b>" if number else escape(owner)
    return (
        f'<div class="lane"><div class="who">{label}</div><div class="track">{track}</div>'
        f'<div class="long">{beside}</div></div>'
    )


def _bar(span: Span, scale: Scale, kind: str) -> str:
    certain_until = max(span.began_by, span.ended_after or span.began_by)
    if span.ended_by is None:
        certain_until = span.seen_until
    parts = [_piece(scale, span.began_by, certain_until, f"{kind} sure{' open' if span.open else ''}")]
    if span.began_after is None:
        parts.append(_piece(scale, scale.start, span.began_by, f"{kind} unknown"))
    else:
        parts.append(_piece(scale, span.began_after, span.began_by, f"{kind} maybe"))
    if span.ended_by is not None:
        parts.append(_piece(scale, certain_until, span.ended_by, f"{kind} maybe"))
    end = "not seen to end" if span.ended_by is None else wording.between(span.ended_after, span.ended_by)
    told = f"began {wording.between(span.began_after, span.began_by)}, ended {end}"
    return f'<span class="bar" role="img" aria-label="{escape(told)}">{"".join(parts)}</span>'


def _piece(scale: Scale, start: datetime, end: datetime, classes: str) -> str:
    left, right = scale.percent(start), scale.percent(end)
    return f'<span class="{classes}" style="left:{left}%;width:{right - left:.3f}%"></span>'


def _mark(together: list[Change], scale: Scale) -> str:
    first = min(together, key=_weight)
    kind, outline = _GLYPHS[first.name]
    place = scale.percent(first.by)
    side = "before" if place > 60 else "behind"
    whisker = "" if first.after is None else _piece(scale, first.after, first.by, f"whisker {kind}")
    return (
        f'{whisker}<span class="mark {kind} {side}" style="left:{place}%">'
        f'<svg viewBox="0 0 12 12" aria-hidden="true"><path d="{outline}"/></svg>'
        f"<em>{_label(together)}</em></span>"
    )


def _label(together: Iterable[Change]) -> str:
    by_weight = sorted(together, key=_weight)
    return escape(", ".join(describe(change) for change in by_weight))


def _weight(change: Change) -> int:
    return list(_GLYPHS).index(change.name)


def describe(change: Change) -> str:
    """Return in a few words what changed, the topic left out."""
    subject, _, verb = change.name.partition(".")
    match subject:
        case "partitions":
            words = f"grew {change.detail or ''}".strip()
        case "topic":
            words = "re-created" if verb == "recreated" else verb
            words += f", {change.detail}" if verb == "recreated" and change.detail else ""
        case "broker":
            words = f"broker {change.broker} {verb}"
        case _:
            words = f"{subject} {verb}" + (f": {change.detail}" if change.detail else "")
    return words
