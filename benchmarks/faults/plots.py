"""SVG pictures from results: latency over time, and failed records. Pure, self-contained, light and dark."""

import math
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.faults.metrics import BUCKET_S, Result, Run
from benchmarks.faults.plan import FROZEN_WHOLE_S, PRODUCERS, Scenario
from benchmarks.measure import Spread
from benchmarks.svg import LEFT, TOP, WIDTH, box, line, svg, text

_PLOT_WIDTH, _PLOT_HEIGHT = 520, 300
_BAR, _BAR_STEP, _LABELS = 18, 34, 300
_LOWEST_MS, _HIGHEST_MS = 1.0, 10_000.0
# What is written over the time of the fault, and how long that is; None if to the end.
_BAND = {
    "in-turns": ("one broker freezes again and again", None),
    "frozen": ("one broker is frozen", FROZEN_WHOLE_S),
}

# Of one lightness that can be told from white and from near black, for colour-blind eyes too; dashes help.
_LOOKS = {
    "librdkafka": ("#d1622b", ""),
    "java": ("#a8780a", "6 3"),
    "java-availability": ("#a8780a", "2 3"),
    "kafka-python": ("#d1622b", "2 3"),
    "ours": ("#2f7fd6", ""),
    "ours-hedge": ("#159a7b", ""),
    "attached": ("#2f7fd6", "2 3"),
}


def picture(scenario: Scenario, result: Result) -> str | None:
    """Return the scenario's picture as SVG; None if it has none, or nothing was measured."""
    runs = {name: measured.kept for name, measured in result.producers.items() if measured.kept}
    if not runs or scenario.plot is None:
        return None
    draw = _latency if scenario.plot == "latency" else _failed
    return draw(scenario, runs)


# -- latency over time -------------------------------------------------------------------------------


def median_series(runs: Sequence[Run]) -> list[float | None]:
    """Return the median over the runs of each bucket's p99; None where no run sent anything."""
    rows = [run.series.split() for run in runs]
    columns = ([float(cell) for cell in cells if cell != "-"] for cells in zip(*rows, strict=True))
    return [statistics.median(column) if column else None for column in columns]


def _latency(scenario: Scenario, runs: Mapping[str, Sequence[Run]]) -> str:
    def x(seconds: float) -> float:
        return LEFT + _PLOT_WIDTH * seconds / scenario.seconds

    bottom = TOP + _PLOT_HEIGHT
    words, lasts = _BAND[scenario.fault.name]
    begin = x(scenario.layout.calm_s)
    end = x(scenario.seconds if lasts is None else min(scenario.seconds, scenario.layout.calm_s + lasts))
    parts = [
        box(begin, TOP, end - begin, _PLOT_HEIGHT, 'class="fault"'),
        text(begin + 4, TOP + 14, words),
        text(LEFT, TOP - 8, "p99 of the records sent in each 0.1 s, ms; median of the runs"),
        text(x(scenario.seconds / 2), bottom + 36, "seconds", anchor="middle"),
    ]
    for power in range(5):
        parts.append(line(LEFT, _y(10**power), LEFT + _PLOT_WIDTH, _y(10**power), "grid"))
        parts.append(text(LEFT - 8, _y(10**power) + 4, f"{10**power:,}", anchor="end"))
    ticks = range(0, math.floor(scenario.seconds) + 1, 1 if scenario.seconds < 10 else 3)
    parts += [text(x(second), bottom + 18, str(second), anchor="middle") for second in ticks]
    for place, (name, kept) in enumerate(runs.items()):
        values = enumerate(median_series(kept))
        points = [(x((i + 0.5) * BUCKET_S), _y(value)) for i, value in values if value is not None]
        parts += _curve(name, points, place)
    return svg(bottom + 52, scenario.title.replace("`", ""), parts)


def _y(ms: float) -> float:
    """Return the height of a latency, on a logarithmic scale."""
    inside = min(max(ms, _LOWEST_MS), _HIGHEST_MS)
    return TOP + _PLOT_HEIGHT * (1 - math.log10(inside / _LOWEST_MS) / math.log10(_HIGHEST_MS / _LOWEST_MS))


def _curve(name: str, points: Sequence[tuple[float, float]], place: int) -> list[str]:
    """Return the curve, and its line in the legend."""
    colour, dashes = _LOOKS[name]
    look = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    left, height = LEFT + _PLOT_WIDTH + 14, TOP + 16 + 22 * place
    return [
        f'<polyline points="{path}" {look}/>',
        f'<polyline points="{left},{height} {left + 26},{height}" {look}/>',
        text(left + 32, height + 4, PRODUCERS[name].title),
    ]


# -- failed records ----------------------------------------------------------------------------------


def _failed(scenario: Scenario, runs: Mapping[str, Sequence[Run]]) -> str:
    spreads = {name: Spread.of([run.figures.failed for run in kept]) for name, kept in runs.items()}
    room = WIDTH - _LABELS - 150
    most = max(1.0, *(spread.high for spread in spreads.values()))
    parts = [
        text(
            LEFT,
            TOP - 8,
            f"records that failed, of {scenario.records:,}; median of the runs, with their range",
        )
    ]
    for place, (name, spread) in enumerate(spreads.items()):
        top = TOP + 12 + _BAR_STEP * place
        middle = top + _BAR / 2
        low, median, high = (
            _LABELS + room * value / most for value in (spread.low, spread.median, spread.high)
        )
        parts += [
            text(_LABELS - 10, middle + 4, PRODUCERS[name].title, anchor="end"),
            box(_LABELS, top, max(1.0, median - _LABELS), _BAR, f'fill="{_LOOKS[name][0]}"'),
            line(low, middle, high, middle, "whisker"),
            text(high + 8, middle + 4, _in_words(spread)),
        ]
    return svg(TOP + 24 + _BAR_STEP * len(spreads), scenario.title.replace("`", ""), parts)


def _in_words(spread: Spread) -> str:
    if spread.low == spread.high:
        return f"{spread.median:,.0f}"
    return f"{spread.median:,.0f} ({spread.low:,.0f} - {spread.high:,.0f})"
