"""Numbers from records. Pure: what was seen goes in, figures come out."""

import math
from collections.abc import Iterable, Sequence

from attrs import frozen

from kafka_partition_events.demo.plan import DELIVERY_LIMIT_MS, LATE_MS
from kafka_partition_events.demo.tape import DELIVERED, FAILED, UNANSWERED, Row

_MS = 1_000_000


@frozen(kw_only=True)
class Figures:
    """What a producer's records came to, those of one scene for instance.

    Attributes:
        records: How many were sent.
        late: How many took over 100 ms, have been waiting for longer, or failed.
        p99_ms: Of the latency, which is from the call to the callback, or until now; the delivery limit for
            what failed.
        p99_open: Whether the record that p99 is of still waits, so that it may become more.
        longest_ms: The longest of them.
        stuck: How many have been waiting for over 100 ms.
        failed: How many the producer gave up.
    """

    records: int
    late: int
    p99_ms: float
    p99_open: bool
    longest_ms: float
    stuck: int
    failed: int

    @property
    def late_share(self) -> float:
        """Late ones, as a share of all."""
        return self.late / self.records if self.records else 0.0


def latency_ms(row: Row, now_ns: int) -> float:
    """Return how long a record took, or has been waiting; the delivery limit if it failed.

    When exactly a client gets round to giving it up is no merit.
    """
    if row.outcome == FAILED:
        return float(DELIVERY_LIMIT_MS)
    return ((row.done_ns if row.outcome == DELIVERED else now_ns) - row.sent_ns) / _MS


def is_late(row: Row, now_ns: int) -> bool:
    """Tell whether a record took over 100 ms; what failed did."""
    return latency_ms(row, now_ns) > LATE_MS


def figures_of(rows: Iterable[Row], now_ns: int) -> Figures:
    """Add up.

    Args:
        rows: The records.
        now_ns: When unanswered ones are looked at.
    """
    slowest = sorted((latency_ms(row, now_ns), row.outcome) for row in rows)
    p99, outcome = _quantile(slowest, 0.99)
    return Figures(
        records=len(slowest),
        late=sum(ms > LATE_MS for ms, _ in slowest),
        p99_ms=p99,
        p99_open=outcome == UNANSWERED,
        longest_ms=slowest[-1][0] if slowest else 0.0,
        stuck=sum(ms > LATE_MS and outcome == UNANSWERED for ms, outcome in slowest),
        failed=sum(outcome == FAILED for _, outcome in slowest),
    )


def _quantile(ordered: Sequence[tuple[float, int]], share: float) -> tuple[float, int]:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else (0.0, DELIVERED)


def p99_in_words(figures: Figures) -> str:
    """Return ``6 ms``, or ``2,200+ ms`` while the record that it is of still waits."""
    return f"{figures.p99_ms:,.0f}{'+' if figures.p99_open else ''} ms"


def percent(share: float) -> str:
    """Return a share with as many digits as it takes to tell it from nothing: ``67%``, ``0.45%``, ``0%``."""
    if share == 0:
        return "0%"
    return f"{100 * share:.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"
