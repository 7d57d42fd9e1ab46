"""SVG pictures from results: p99 by partitions, one panel for each linger. Pure."""

import math
from collections.abc import Mapping

from benchmarks.kept import Result
from benchmarks.kip480.metrics import Run
from benchmarks.kip480.plan import KINDS, LINGERS_MS, PARTITIONS, Load
from benchmarks.kip480.targets import median_p99
from benchmarks.svg import LEFT, TOP, box, line, svg, text

_PANEL, _GAP, _HEIGHT = 160, 24, 260
_LOWEST_MS, _HIGHEST_MS = 1.0, 100_000.0

# Of one lightness that can be told from white and from near black, for colour-blind eyes too; dashes help.
_LOOKS = {
    "librdkafka": ("#d1622b", ""),
    "librdkafka-5": ("#d1622b", "6 3"),
    "round-robin": ("#a8780a", "6 3"),
    "random": ("#a8780a", "2 3"),
    "ours": ("#2f7fd6", ""),
}


def picture(load: Load, results: Mapping[str, Result[Run]]) -> str | None:
    """Return a load's picture as SVG; None if nothing was measured."""
    points = {
        (kind, linger): [
            (partitions, p99)
            for partitions in PARTITIONS
            if (p99 := median_p99(results, f"{partitions}p-{linger}ms-{load.name}", kind)) is not None
        ]
        for kind in KINDS
        for linger in LINGERS_MS
    }
    if not any(points.values()):
        return None
    bottom = TOP + 20 + _HEIGHT
    parts = [text(LEFT, TOP - 2, "p99 in ms by partitions; median of the runs")]
    for power in range(6):
        height = _y(10**power)
        parts.append(text(LEFT - 8, height + 4, f"{10**power:,}", anchor="end"))
        parts += [line(_left(i), height, _left(i) + _PANEL, height, "grid") for i in range(len(LINGERS_MS))]
    for place, linger in enumerate(LINGERS_MS):
        middle = _left(place) + _PANEL / 2
        parts.append(text(middle, TOP + 16, f"linger {linger} ms", anchor="middle"))
        parts += [text(_x(place, each), bottom + 18, str(each), anchor="middle") for each in PARTITIONS]
        for kind in KINDS:
            parts += _curve(kind, [(_x(place, n), _y(p99)) for n, p99 in points[kind, linger]])
    parts += [part for place, kind in enumerate(KINDS) for part in _legend(load, kind, place)]
    return svg(bottom + 34, load.title, parts)


def _left(place: int) -> float:
    return LEFT + place * (_PANEL + _GAP)


def _x(place: int, partitions: int) -> float:
    return _left(place) + _PANEL * (PARTITIONS.index(partitions) + 0.5) / len(PARTITIONS)


def _y(ms: float) -> float:
    """Return the height of a latency, on a logarithmic scale."""
    inside = min(max(ms, _LOWEST_MS), _HIGHEST_MS)
    return TOP + 20 + _HEIGHT * (1 - math.log(inside / _LOWEST_MS) / math.log(_HIGHEST_MS / _LOWEST_MS))


def _curve(kind: str, points: list[tuple[float, float]]) -> list[str]:
    colour, dashes = _LOOKS[kind]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    look = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"'
    marks = [box(x - 3, y - 3, 6, 6, f'fill="{colour}"') for x, y in points]
    return [f'<polyline points="{path}" {look}/>', *marks]


def _legend(load: Load, kind: str, place: int) -> list[str]:
    left, height = _left(len(LINGERS_MS)) - 4, TOP + 30 + 22 * place
    return [
        *_curve(kind, [(left, height), (left + 26, height)]),
        text(left + 34, height + 4, load.title_of(kind)),
    ]
