"""The picture: how what a change costs grows with the fleet. Pure."""

import math
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


def picture(runs: Sequence[Run]) -> str | None:
    """Return the picture as SVG; None if nothing was measured."""
    if not runs:
        return None
    bottom = TOP + 20 + _HEIGHT
    parts = [part for place, panel in enumerate(_PANELS) for part in _panel(place, *panel, runs)]
    parts.append(text(LEFT, bottom + 40, "by the number of instances; both axes begin at 0"))
    return svg(bottom + 56, "One change of a topic, and its fleet", parts)


def _panel(place: int, title: str, of: Callable[[Run], float], runs: Sequence[Run]) -> list[str]:
    left, bottom = LEFT + place * (_PANEL + _GAP), TOP + 20 + _HEIGHT
    widest, highest = max(run.instances for run in runs), _round_up(max(map(of, runs)))
    points = [(left + _PANEL * run.instances / widest, bottom - _HEIGHT * of(run) / highest) for run in runs]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [text(left, TOP + 8, title)]
    for share in (0.0, 0.5, 1.0):
        height = bottom - _HEIGHT * share
        parts.append(line(left, height, left + _PANEL, height, "grid"))
        parts.append(text(left - 6, height + 4, f"{highest * share:,.0f}", anchor="end"))
    parts.append(f'<polyline points="{path}" fill="none" stroke="{_COLOUR}" stroke-width="2"/>')
    parts += [box(x - 3, y - 3, 6, 6, f'fill="{_COLOUR}"') for x, y in points]
    ticks = zip(points, runs, strict=True)
    return [*parts, *(text(x, bottom + 18, f"{run.instances:,}", anchor="middle") for (x, _), run in ticks)]


def _round_up(value: float) -> float:
    """Return the next 1, 2 or 5 with zeros."""
    power = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
