"""The pictures of the page: a dot for each record, and who knew of the fault when. Pure.

Widths are shares of the page's, so that text keeps its size when it is narrow.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Final

from attrs import frozen

from kafka_partition_events.demo.figures import is_late, latency_ms
from kafka_partition_events.demo.plan import LATE_MS
from kafka_partition_events.demo.story import METADATA, Deed, Mark, Performance, Played, Story
from kafka_partition_events.demo.tape import DELIVERED, Row

_NS: Final = 1_000_000_000
_WIDTH, _HEIGHT = 1_000, 100
_LOWEST_MS, _HIGHEST_MS = 2.0, 20_000.0
_LEVELS: Final = ((10, "10 ms"), (100, "100 ms"), (1_000, "1 s"), (10_000, "10 s"))
_TICK_S: Final = 10
_RIGHTMOST: Final = 0.78
"""Bars that end further to the right have their label on the left."""

_SLACK_NS: Final = _NS
"""For how long after its end a fault may still be what was noticed."""

_DEEDS: Final = {"frozen": "stalls", "dead": "killed", "starting": "starts"}


@frozen
class Scale:
    """Time (ns, monotonic) -> place in the picture."""

    begin_ns: int
    end_ns: int

    @classmethod
    def of(cls, story: Story) -> "Scale":
        """Return the time from the first scene to the last."""
        return cls(story.scenes[0].begin_ns, story.scenes[-1].end_ns)

    def share(self, moment_ns: int) -> float:
        """Return the share of the width, from 0 to 1; what lies outside is put on the edge."""
        return min(1.0, max(0.0, (moment_ns - self.begin_ns) / (self.end_ns - self.begin_ns)))

    def percent(self, moment_ns: int) -> str:
        """Return the same as CSS has it."""
        return f"{100 * self.share(moment_ns):.2f}%"

    def piece(self, kind: str, begin_ns: int, end_ns: int, title: str) -> str:
        """Return a bar."""
        width = 100 * (self.share(end_ns) - self.share(begin_ns))
        return (
            f'<b class="{kind}" style="left:{self.percent(begin_ns)};width:{width:.2f}%" '
            f'title="{escape(title)}"></b>'
        )


def height_of(ms: float) -> float:
    """Return how far below the top a latency is drawn, on a logarithmic scale."""
    inside = min(max(ms, _LOWEST_MS), _HIGHEST_MS)
    return _HEIGHT * (1 - math.log10(inside / _LOWEST_MS) / math.log10(_HIGHEST_MS / _LOWEST_MS))


def strips(story: Story, beside: Callable[[Performance], str]) -> str:
    """Return a strip for each producer: a dot for each record, by when it was sent and how long it took.

    Args:
        story: Whose records.
        beside: Returns what stands under a producer's name, as HTML.
    """
    scale = Scale.of(story)
    rows = "".join(
        f'<div class="name{" ours" if each.part.ours else ""}">{escape(each.part.title)}'
        f"<small>{beside(each)}</small></div>{_plot(each, story, scale)}"
        for each in story.performances
    )
    return f'<div class="strips">{_scenes(story.scenes, scale)}{rows}{_axis(scale)}</div>'


def _plot(performance: Performance, story: Story, scale: Scale) -> str:
    shades = "".join(_shade(played, scale) for played in story.scenes[1::2])
    levels = "".join(
        f'<path class="{"limit" if ms == LATE_MS else "level"}" d="M0 {height_of(ms):.1f}H{_WIDTH}"/>'
        for ms, _ in _LEVELS
    )
    labels = "".join(f'<i style="top:{height_of(ms):.1f}%">{text}</i>' for ms, text in _LEVELS)
    inside = [row for row in performance.rows if scale.begin_ns <= row.sent_ns < scale.end_ns]
    told = escape(f"{performance.part.title}: latency of {len(inside):,} records over time")
    return (
        f'<div class="plot"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{told}">{shades}{levels}{_dots(inside, story.end_ns, scale)}</svg>{labels}</div>'
    )


def _shade(played: Played, scale: Scale) -> str:
    left = _WIDTH * scale.share(played.begin_ns)
    width = _WIDTH * scale.share(played.end_ns) - left
    return f'<rect class="shade" x="{left:.1f}" y="0" width="{width:.1f}" height="{_HEIGHT}"/>'


def _dots(rows: Iterable[Row], now_ns: int, scale: Scale) -> str:
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


def _scenes(scenes: Sequence[Played], scale: Scale) -> str:
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


def _axis(scale: Scale) -> str:
    seconds = (scale.end_ns - scale.begin_ns) // _NS
    ticks = (
        f'<span style="left:{scale.percent(scale.begin_ns + tick * _NS)}">{tick} s</span>'
        for tick in range(_TICK_S, seconds, _TICK_S)
    )
    return f'<div class="axis" aria-hidden="true">{"".join(ticks)}</div>'


# -- who knew when -----------------------------------------------------------------------------------------


def lanes(story: Story) -> str:
    """Return what was done to brokers, and below it when metadata and each of our producers knew."""
    scale = Scale.of(story)
    brokers = dict.fromkeys(deed.broker for deed in story.deeds)  # in the order of the deeds
    body = "".join(_broker(story, broker, scale) for broker in brokers)
    return f'<div class="strips lanes">{_scenes(story.scenes, scale)}{body}{_axis(scale)}</div>'


def _broker(story: Story, broker: int, scale: Scale) -> str:
    deeds = [deed for deed in story.deeds if deed.broker == broker]
    pieces = "".join(scale.piece(deed.kind, deed.begin_ns, deed.end_ns, _DEEDS[deed.kind]) for deed in deeds)
    who = [(METADATA, "Kafka's metadata", "gone", "unlisted")]
    who += [
        (each.part.key, each.part.title, "suspected", "suspect")
        for each in story.performances
        if each.part.ours
    ]
    return _lane(f"done to broker {broker}", pieces) + "".join(
        _lane(title, _knew(story, scale, deeds, key, kind, style)) for key, title, kind, style in who
    )


def _lane(name: str, track: str) -> str:
    return f'<div class="name">{escape(name)}</div><div class="track">{track}</div>'


def _knew(story: Story, scale: Scale, deeds: Sequence[Deed], key: str, kind: str, style: str) -> str:
    marks = [mark for mark in story.marks if mark.who == key and mark.broker == deeds[0].broker]
    drawn = []
    for begin, end in spells(marks, kind, scale.end_ns):
        if end <= scale.begin_ns:
            continue
        after = _after(deeds, begin)
        drawn.append(scale.piece(style, begin, end, after or "nothing was done to it then"))
        if after:
            beside = f"left:{scale.percent(end)}"
            if scale.share(end) >= _RIGHTMOST:
                beside = f"right:{100 - 100 * scale.share(begin):.2f}%"
            drawn.append(f'<em style="{beside}">{after}</em>')
    return "".join(drawn) or f'<em style="left:{scale.percent(deeds[0].begin_ns)}">noticed nothing</em>'


def _after(deeds: Sequence[Deed], moment_ns: int) -> str:
    """Return how long after a fault had begun somebody knew; nothing where there was none at that time."""
    for deed in deeds:
        if deed.kind != "starting" and deed.begin_ns <= moment_ns <= deed.end_ns + _SLACK_NS:
            return f"after {(moment_ns - deed.begin_ns) / _NS:.2f} s"
    return ""


def spells(marks: Iterable[Mark], kind: str, end_ns: int) -> Iterator[tuple[int, int]]:
    """Yield from when until when somebody thought ill of a broker; the last may last to the end."""
    since: int | None = None
    for mark in marks:
        if mark.kind == kind and since is None:
            since = mark.at_ns
        elif mark.kind != kind and since is not None:
            yield since, mark.at_ns
            since = None
    if since is not None:
        yield since, end_ns
