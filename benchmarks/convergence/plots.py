"""The picture: how what a change costs grows with the fleet. Pure."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.convergence.one_run import Run
from benchmarks.svg import LEFT, TOP, box, line, svg, text

_PANEL, _GAP, _HEIGHT = 170, 80, 200
_COLOUR: Final = "#2f7fd6"

_PANELS: Final[tuple[tuple[str, Callable[[Run], float]], ...]] = (
    ("request to converged, s", lambda run: run.converged_s),
    ("acks and leases, MB", lambda run: (run.bytes["acks"] + run.bytes["leases"]) / 1e6),
    ("tracker's memory, MiB", lambda run: run.tracker_peak_mib),
)


def picture(fleets: Sequence[Sequence[Run]]) -> str | None:
    """Return the picture of each fleet's runs as SVG; None if nothing was measured."""
    if not fleets:
        return None
    bottom = TOP + 20 + _HEIGHT
    parts = [part for place, panel in enumerate(_PANELS) for part in _panel(place, *panel, fleets)]
    told = "by the number of instances; the median, and the least and the most; both axes begin at 0"
    parts.append(text(LEFT, bottom + 40, told))
    return svg(bottom + 56, "One change of a topic, and its fleet", parts)


def _panel(place: int, title: str, of: Callable[[Run], float], fleets: Sequence[Sequence[Run]]) -> list[str]:
    left, bottom = LEFT + place * (_PANEL + _GAP), TOP + 20 + _HEIGHT
    values = [[of(run) for run in runs] for runs in fleets]
    sizes = [runs[0].instances for runs in fleets]
    highest = _round_up(max(map(max, values)))
    across = [left + _PANEL * size / max(sizes) for size in sizes]

    def height(value: float) -> float:
        return bottom - _HEIGHT * value / highest

    middles = [height(statistics.median(found)) for found in values]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, middles, strict=True))
    parts = [text(left, TOP + 8, title)]
    for value in (0.0, highest / 2, highest):
        parts.append(line(left, height(value), left + _PANEL, height(value), "grid"))
        parts.append(text(left - 6, height(value) + 4, f"{value:,.0f}", anchor="end"))
    parts.append(f'<polyline points="{path}" fill="none" stroke="{_COLOUR}" stroke-width="2"/>')
    for x, y, size, found in zip(across, middles, sizes, values, strict=True):
        top, low = height(max(found)), height(min(found))
        parts.append(box(x - 1, top, 2, low - top, f'fill="{_COLOUR}"'))
        parts.append(box(x - 3, y - 3, 6, 6, f'fill="{_COLOUR}"'))
        parts.append(text(x, bottom + 18, f"{size:,}", anchor="middle"))
    return parts


def _round_up(value: float) -> float:
    """Return the next 1, 2 or 5 with zeros."""
    power = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
