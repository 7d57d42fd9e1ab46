"""The error budget: what was left of it hour by hour, and how fast it goes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.page import table
from kafka_partition_events.spark.report.model import BudgetPoint, BurnRate, FleetData, burn_down

_WIDTH: Final = 1000.0
_HEIGHT: Final = 240.0
_ALERTS: Final = {"5m": 14.4, "1h": 14.4, "6h": 6.0, "3d": 1.0}
"""Window -> the rate from which one is woken or told, as in the shipped alert rules (SRE workbook)."""


def budget(data: FleetData) -> str:
    """Return the burn-down and the table of rates, or a sentence when nothing was watched."""
    points = list(burn_down(data.hours, data.target))
    if not points:
        return "<p>No hour was watched.</p>"
    head = '<th>Window<th class="n">Burn rate<th class="n">Alert from<th>'
    rates = table(head, map(_rate, data.burn)) if data.burn else ""
    return f"{_left(points[-1])}{_picture(points)}{rates}"


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


def _rate(burn: BurnRate) -> str:
    limit = _ALERTS.get(burn.window)
    above = limit is not None and burn.hi >= limit
    rate = f"{burn.lo:.2f}" if burn.lo == burn.hi else f"{burn.lo:.2f}{wording.DASH}{burn.hi:.2f}"
    told = '<strong class="bad">above</strong>' if above else ""
    return (
        f'<tr><td>{burn.window}<td class="n">{rate}<td class="n">'
        f"{wording.DASH if limit is None else f'{limit:g}'}<td>{told}</tr>"
    )


PERIOD_NOTE: Final = (
    "The line is the least that is left, the band above it what may be left: outages are known by their "
    "bounds. Time that nobody watched is neither up nor down and spends nothing. A burn rate of 1 uses "
    "exactly all of the budget over the objective's period."
)
"""Stands above the picture."""
