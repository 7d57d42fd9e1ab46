"""Outages and what else changed, as HTML: a picture of both, and a table of each.

The picture has a lane for each partition that was offline, and for each topic and broker that changed. A bar
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
from kafka_partition_events.spark.report.model import Change, FleetData, Outage, Span

MAX_OUTAGES: Final = 200
"""Rows of the table, the longest outages first."""
MAX_CHANGES: Final = 200
"""Rows of the other one, the latest changes."""
MAX_LANES: Final = 60
"""Outages in the picture, the longest first, and marks, the latest; the tables below list more."""

_BARS: Final = (("down sure", "offline"), ("down maybe", "may have begun or ended here"))
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

_KINDS: Final = {
    "partitions.added": ("grew ", "grow", "M6 1l5 10H1z"),
    "topic.recreated": ("re-created, ", "again", "M6 0l6 6-6 6-6-6z"),
    "broker.left": ("left, ", "away", "M1 1h10L6 11z"),
    "broker.joined": ("joined, ", "away", "M6 1l5 10H1z"),
    "cap.reached": ("cap reached, ", "cap", "M1 4.5h10v3H1z"),
    "cap.lifted": ("cap lifted, ", "cap", "M1 2h10v2H1zM1 8h10v2H1z"),
}
"""A change's name -> what it is called, before its details; its CSS class; the outline of its mark, in a box
of 12 x 12. What matters most comes first."""


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


def _scale(outages: Iterable[Outage], marked: Iterable[Change]) -> Scale:
    """Return the time from the first change to the last, with a margin: quiet hours would hide seconds."""
    moments = [moment for outage in outages for moment in _moments(outage.span)]
    for change in marked:
        moments += [change.by] if change.after is None else [change.after, change.by]
    start, end = min(moments), max(moments)
    margin = max((end - start) * _MARGIN, timedelta(seconds=0.5))
    return Scale(start - margin, end + margin)


def _moments(span: Span) -> list[datetime]:
    ends = (span.began_after, span.began_by, span.ended_after, span.ended_by or span.seen_until)
    return [moment for moment in ends if moment is not None]


def _lanes(outages: Iterable[Outage], marked: Iterable[Change], scale: Scale) -> Iterator[str]:
    marks: dict[tuple[str, str], list[Change]] = {}
    for change in marked:
        owner = ("Broker", str(change.broker)) if change.topic is None else (change.topic, "")
        marks.setdefault(owner, []).append(change)
    offline: dict[str, dict[int, list[Span]]] = {}
    for outage in outages:
        offline.setdefault(outage.topic, {}).setdefault(outage.partition, []).append(outage.span)
    # Brokers first, then topics, each with its marks above its partitions.
    for name, number in sorted({*marks, *((topic, "") for topic in offline)}, key=lambda o: (not o[1], o)):
        for row in _rows(marks.get((name, number), ()), scale):
            # On a narrow page the labels do not fit beside the marks and stand at the end instead.
            beside = f'<span class="narrow">{"<br>".join(map(_label, row))}</span>'
            yield _lane(name, number, "".join(_mark(together, scale) for together in row), beside)
        for partition, spans in sorted(offline.get(name, {}).items()) if not number else ():
            lasted = "<br>".join(wording.lasted(*span.seconds) for span in spans)
            yield _lane(name, str(partition), "".join(_bar(span, scale) for span in spans), lasted)


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


def _lane(owner: str, number: str, track: str, beside: str) -> str:
    label = f"{escape(owner)} <b>{number}</b>" if number else escape(owner)
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
    told = f"began {wording.between(span.began_after, span.began_by)}, ended {end}"
    return f'<span class="bar" role="img" aria-label="{escape(told)}">{"".join(parts)}</span>'


def _piece(scale: Scale, start: datetime, end: datetime, classes: str) -> str:
    left, right = scale.percent(start), scale.percent(end)
    return f'<span class="{classes}" style="left:{left}%;width:{right - left:.3f}%"></span>'


def _mark(together: list[Change], scale: Scale) -> str:
    first = min(together, key=_weight)
    _, kind, outline = _KINDS[first.name]
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
    return escape(", ".join(described(change) for change in by_weight))


def _weight(change: Change) -> int:
    return list(_KINDS).index(change.name)


def described(change: Change) -> str:
    """Return in a few words what changed, the topic or broker left out."""
    return f"{_KINDS[change.name][0]}{change.detail or ''}".rstrip(", ")
