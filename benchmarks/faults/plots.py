"""SVG pictures from results: latency over time, and failed records. Pure, self-contained, light and dark."""

import math
import statistics
from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.faults.metrics import BUCKET_S, Run
from benchmarks.faults.plan import FAULT_AT_S, PRODUCERS, Scenario
from benchmarks.faults.results import Result
from benchmarks.measure import Spread

_WIDTH, _LEFT, _TOP = 860, 64, 56
_PLOT_WIDTH, _PLOT_HEIGHT = 520, 300
_BAR, _BAR_STEP, _LABELS = 18, 34, 300
_LOWEST_MS, _HIGHEST_MS = 1.0, 10_000.0

# Of one lightness that can be told from white and from near black, for colour-blind eyes too; dashes help.
_LOOKS = {
    "librdkafka": ("#d1622b", ""),
    "java": ("#a8780a", "6 3"),
    "java-availability": ("#a8780a", "2 3"),
    "kafka-python": ("#d1622b", ""),
    "kafka-python-sticky": ("#a8780a", "6 3"),
    "ours": ("#2f7fd6", ""),
    "ours-failed": ("#2f7fd6", "6 3"),
    "ours-hedge": ("#159a7b", ""),
    "attached": ("#2f7fd6", ""),
    "attached-failed": ("#2f7fd6", "6 3"),
    "attached-hedge": ("#159a7b", ""),
}

_STYLE = """<style>
svg { --back: #ffffff; --ink: #1f2328; --faint: #d8dee4; --fault: #d1242f14 }
@media (prefers-color-scheme: dark) {
svg { --back: #0d1117; --ink: #e6edf3; --faint: #30363d; --fault: #f8514926 }
}
text { font: 12px system-ui, sans-serif; fill: var(--ink) }
.title { font-size: 15px; font-weight: 600 }
.back { fill: var(--back) }
.fault { fill: var(--fault) }
.grid { stroke: var(--faint) }
.whisker { stroke: var(--ink) }
</style>"""


def picture(scenario: Scenario, result: Result) -> str | None:
    """Return the scenario's picture as SVG; None if it has none, or nothing was measured."""
    runs = {name: measured.kept for name, measured in result.producers.items() if measured.kept}
    if not runs or scenario.plot is None:
        return None
    draw = _latency if scenario.plot == "latency" else _failed
    return draw(scenario, runs)


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}">'
    )
    back = _box(0, 0, _WIDTH, height, 'class="back"')
    return "\n".join([head, _STYLE, back, _text(_LEFT, 26, title, "title"), *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    css = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{css}>{escape(words)}</text>'


def _box(x: float, y: float, width: float, height: float, look: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {look}/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


# -- latency over time -------------------------------------------------------------------------------


def median_series(runs: Sequence[Run]) -> list[float | None]:
    """Return the median over the runs of each bucket's p99; None where no run sent anything."""
    rows = [run.series.split() for run in runs]
    columns = ([float(cell) for cell in cells if cell != "-"] for cells in zip(*rows, strict=True))
    return [statistics.median(column) if column else None for column in columns]


def _latency(scenario: Scenario, runs: Mapping[str, Sequence[Run]]) -> str:
    def x(seconds: float) -> float:
        return _LEFT + _PLOT_WIDTH * seconds / scenario.seconds

    bottom = _TOP + _PLOT_HEIGHT
    begin, end = x(FAULT_AT_S), x(scenario.seconds)
    parts = [
        _box(begin, _TOP, end - begin, _PLOT_HEIGHT, 'class="fault"'),
        _text(begin + 4, _TOP + 14, "one broker freezes again and again"),
        _text(_LEFT, _TOP - 8, "p99 of the records sent in each 0.1 s, ms; median of the runs"),
        _text(x(scenario.seconds / 2), bottom + 36, "seconds", anchor="middle"),
    ]
    for power in range(5):
        parts.append(_line(_LEFT, _y(10**power), _LEFT + _PLOT_WIDTH, _y(10**power), "grid"))
        parts.append(_text(_LEFT - 8, _y(10**power) + 4, f"{10**power:,}", anchor="end"))
    ticks = range(0, math.floor(scenario.seconds) + 1, 1 if scenario.seconds < 10 else 3)
    parts += [_text(x(second), bottom + 18, str(second), anchor="middle") for second in ticks]
    for place, (name, kept) in enumerate(runs.items()):
        values = enumerate(median_series(kept))
        points = [(x((i + 0.5) * BUCKET_S), _y(value)) for i, value in values if value is not None]
        parts += _curve(name, points, place)
    return _svg(bottom + 52, scenario.title.replace("`", ""), parts)


def _y(ms: float) -> float:
    """Return the height of a latency, on a logarithmic scale."""
    inside = min(max(ms, _LOWEST_MS), _HIGHEST_MS)
    return _TOP + _PLOT_HEIGHT * (1 - math.log10(inside / _LOWEST_MS) / math.log10(_HIGHEST_MS / _LOWEST_MS))


def _curve(name: str, points: Sequence[tuple[float, float]], place: int) -> list[str]:
    """Return the curve, and its line in the legend."""
    colour, dashes = _LOOKS[name]
    look = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    left, height = _LEFT + _PLOT_WIDTH + 14, _TOP + 16 + 22 * place
    return [
        f'<polyline points="{path}" {look}/>',
        f'<polyline points="{left},{height} {left + 26},{height}" {look}/>',
        _text(left + 32, height + 4, PRODUCERS[name].title),
    ]


# -- failed records ----------------------------------------------------------------------------------


def _failed(scenario: Scenario, runs: Mapping[str, Sequence[Run]]) -> str:
    spreads = {name: Spread.of([run.groups["all"].failed for run in kept]) for name, kept in runs.items()}
    room = _WIDTH - _LABELS - 150
    most = max(1.0, *(spread.high for spread in spreads.values()))
    sent = scenario.records * scenario.instances
    parts = [
        _text(_LEFT, _TOP - 8, f"records that failed, of {sent:,}; median of the runs, with their range")
    ]
    for place, (name, spread) in enumerate(spreads.items()):
        top = _TOP + 12 + _BAR_STEP * place
        middle = top + _BAR / 2
        low, median, high = (
            _LABELS + room * value / most for value in (spread.low, spread.median, spread.high)
        )
        parts += [
            _text(_LABELS - 10, middle + 4, PRODUCERS[name].title, anchor="end"),
            _box(_LABELS, top, max(1.0, median - _LABELS), _BAR, f'fill="{_LOOKS[name][0]}"'),
            _line(low, middle, high, middle, "whisker"),
            _text(high + 8, middle + 4, _in_words(spread)),
        ]
    return _svg(_TOP + 24 + _BAR_STEP * len(spreads), scenario.title.replace("`", ""), parts)


def _in_words(spread: Spread) -> str:
    if spread.low == spread.high:
        return f"{spread.median:,.0f}"
    return f"{spread.median:,.0f} ({spread.low:,.0f} - {spread.high:,.0f})"
