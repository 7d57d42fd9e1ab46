"""The error budget: what was left of it hour by hour, and how fast it goes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kafka_partition_events.spark.report.model import BudgetPoint, FleetData, burn_down

_WIDTH: Final = 1000.0
_HEIGHT: Final = 240.0


def budget(data: FleetData) -> str:
    """Return the burn-down, or a sentence when nothing was watched."""
    points = list(burn_down(data.hours, data.target))
    if not points:
        return "<p>No hour was watched.</p>"
    return f"{_left(points[-1])}{_picture(points)}"


def _left(last: BudgetPoint) -> str:
    if last.hi < -1:
        used = _range(f"{1 - last.hi:.0f}", f"{1 - last.lo:.0f}")
        return (
            f'<p><strong class="bad">spent</strong>: {used} times what the period\'s error budget allows.</p>'
        )
    left = _range(*(f"{100 * share:.1f}%" for share in (last.lo, last.hi)))
    spent = '<strong class="bad">spent</strong>: ' if last.hi < 0 else ""
    return f"<p>{spent}{left} of the period's error budget is left.</p>"


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _picture(points: Sequence[BudgetPoint]) -> str:
    low = min(0.0, *(point.lo for point in points))
    start, end = points[0].at, points[-1].at

    def place(at: datetime, share: float) -> str:
        x = _WIDTH * ((at - start) / (end - start) if end > start else 0.0)
        y = _HEIGHT * (1 - (share - low) / (1 - low))
        return f"{x:.1f},{y:.1f}"

    upper = [place(point.at, point.hi) for point in points]
    lower = [place(point.at, point.lo) for point in points]
    zero = place(start, 0.0).partition(",")[2]
    return (
        f'<svg class="burn" viewBox="0 -6 {_WIDTH:.0f} {_HEIGHT + 12:.0f}" preserveAspectRatio="none" '
        f'role="img" aria-label="error budget left, from 100% at {start:%Y-%m-%d %H:%M}">'
        f'<line class="zero" x1="0" x2="{_WIDTH:.0f}" y1="{zero}" y2="{zero}"/>'
        f'<polygon class="maybe-band" points="{" ".join(upper)} {" ".join(reversed(lower))}"/>'
        f'<polyline class="least" points="{" ".join(lower)}"/></svg>'
        f'<div class="ends"><span>{start:%Y-%m-%d %H:%M}, 100%</span>'
        f"<span>{end:%Y-%m-%d %H:%M}, {100 * points[-1].lo:.1f}%</span></div>"
    )


PERIOD_NOTE: Final = (
    "The line is the least that is left, the band above it what may be left: outages are known by their "
    "bounds. Time that nobody watched is neither up nor down and spends nothing."
)
"""Stands above the picture."""
