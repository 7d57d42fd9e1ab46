"""The picture of the page: a dot for each record. Pure.

Widths are shares of the page's, so that text keeps its size when it is narrow.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from attrs import frozen

from kafka_partition_events.demo.figures import is_late, latency_ms
from kafka_partition_events.demo.plan import LATE_MS
from kafka_partition_events.demo.story import UNKEYED, Performance, Played, Story
from kafka_partition_events.demo.tape import DELIVERED, Taped

_NS: Final = 1_000_000_000
_WIDTH, _HEIGHT = 1_000, 100
_LOWEST_MS, _HIGHEST_MS = 2.0, 20_000.0
_LEVELS: Final = ((10, "10 ms"), (100, "100 ms"), (1_000, "1 s"), (10_000, "10 s"))
_TICK_S: Final = 10


@frozen
class ChartScale:
    """Time (ns, monotonic) -> place in the picture."""

    begin_ns: int
    end_ns: int

    def share(self, moment_ns: int) -> float:
        """Return the share of the width, from 0 to 1; what lies outside is put on the edge."""
        return min(1.0, max(0.0, (moment_ns - self.begin_ns) / (self.end_ns - self.begin_ns)))

    def percent(self, moment_ns: int) -> str:
        """Return the same as CSS has it."""
        return f"{100 * self.share(moment_ns):.2f}%"


def height_of(ms: float) -> float:
    """Return how far below the top a latency is drawn, on a logarithmic scale."""
    inside = min(max(ms, _LOWEST_MS), _HIGHEST_MS)
    return _HEIGHT * (1 - math.log10(inside / _LOWEST_MS) / math.log10(_HIGHEST_MS / _LOWEST_MS))


def strips(story: Story) -> str:
    """Return a strip for each producer: a dot for each record, by when it was sent and how long it took."""
    scale = ChartScale(story.scenes[0].begin_ns, story.scenes[-1].end_ns)
    rows = "".join(
        f'<div class="name{" ours" if each.part.ours else ""}">{escape(each.part.title)}'
        f"<small>{story.figures(each, *UNKEYED).late:,} records without a key over 100 ms</small></div>"
        f"{_plot(each, story, scale)}"
        for each in story.performances
    )
    return f'<div class="strips">{_scenes(story.scenes, scale)}{rows}{_axis(scale)}</div>'


def _plot(performance: Performance, story: Story, scale: ChartScale) -> str:
    shades = "".join(_shade(played, scale) for played in story.scenes[1::2])
    levels = "".join(
        f'<path class="{"limit" if ms == LATE_MS else "level"}" d="M0 {height_of(ms):.1f}H{_WIDTH}"/>'
        for ms, _ in _LEVELS
    )
    labels = "".join(f'<i style="top:{height_of(ms):.1f}%">{text}</i>' for ms, text in _LEVELS)
    inside = [row for row in performance.rows if scale.begin_ns <= row.sent_ns < scale.end_ns]
    summary = escape(f"{performance.part.title}: latency of {len(inside):,} records over time")
    return (
        f'<div class="plot"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{summary}">{shades}{levels}{_dots(inside, story.end_ns, scale)}</svg>{labels}</div>'
    )


def _shade(played: Played, scale: ChartScale) -> str:
    left = _WIDTH * scale.share(played.begin_ns)
    width = _WIDTH * scale.share(played.end_ns) - left
    return f'<rect class="shade" x="{left:.1f}" y="0" width="{width:.1f}" height="{_HEIGHT}"/>'


def _dots(rows: Iterable[Taped], now_ns: int, scale: ChartScale) -> str:
    """Return the dots as three paths; what would be drawn at the same place is drawn once."""
    drawn: dict[str, dict[str, None]] = {"fine": {}, "late": {}, "lost": {}}
    for row in rows:
        x = f"{_WIDTH * scale.share(row.sent_ns):.1f}"
        y = height_of(latency_ms(row, now_ns))
        if row.outcome == DELIVERED:
            drawn["late" if is_late(row, now_ns) else "fine"][f"M{x} {y:.1f}h0"] = None
        else:
            drawn["lost"][f"M{x} {y:.1f}m-3-4l6 8m0-8l-6 8"] = None
    return "".join(f'<path class="{kind}" d="{"".join(marks)}"/>' for kind, marks in drawn.items() if marks)


def _scenes(scenes: Sequence[Played], scale: ChartScale) -> str:
    names = (
        f'<span style="left:{scale.percent(played.begin_ns)};'
        f'width:{100 * (scale.share(played.end_ns) - scale.share(played.begin_ns)):.2f}%">'
        f"{escape(_short(played))}</span>"
        for played in scenes
    )
    return f'<div class="scenes" aria-hidden="true">{"".join(names)}</div>'


def _short(played: Played) -> str:
    who = f" {played.broker}" if played.broker else ""
    return {
        "calm": "calm", "brown-out": f"broker{who} stalls", "kill": f"broker{who} killed",
        "back": f"broker{who} back", "keys": f"keys; broker{who} killed",
    }[played.scene.name]  # fmt: skip


def _axis(scale: ChartScale) -> str:
    seconds = (scale.end_ns - scale.begin_ns) // _NS
    ticks = (
        f'<span style="left:{scale.percent(scale.begin_ns + tick * _NS)}">{tick} s</span>'
        for tick in range(_TICK_S, seconds, _TICK_S)
    )
    return f'<div class="axis" aria-hidden="true">{"".join(ticks)}</div>'
