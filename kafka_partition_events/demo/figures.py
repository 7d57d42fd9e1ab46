"""Numbers from records. Pure: what was seen goes in, figures come out."""

from collections.abc import Iterable

from attrs import frozen

from kafka_partition_events.demo.plan import DELIVERY_LIMIT_MS, LATE_MS
from kafka_partition_events.demo.tape import DELIVERED, FAILED, Taped

_MS = 1_000_000


@frozen(kw_only=True)
class Figures:
    """What a producer's records came to, those of one scene for instance.

    Attributes:
        records: How many were sent.
        late: How many took over 100 ms, have been waiting for longer, or failed.
        longest_ms: The longest latency, which is from the call to the callback, or until now; the delivery
            limit for what failed.
        failed: How many the producer gave up.
    """

    records: int
    late: int
    longest_ms: float
    failed: int

    @property
    def late_share(self) -> float:
        """Late ones, as a share of all."""
        return self.late / self.records if self.records else 0.0


def latency_ms(row: Taped, now_ns: int) -> float:
    """Return how long a record took, or has been waiting; the delivery limit if it failed.

    When exactly a client gets round to giving it up is no merit.
    """
    if row.outcome == FAILED:
        return float(DELIVERY_LIMIT_MS)
    return ((row.done_ns if row.outcome == DELIVERED else now_ns) - row.sent_ns) / _MS


def is_late(row: Taped, now_ns: int) -> bool:
    """Return whether a record took over 100 ms; what failed did."""
    return latency_ms(row, now_ns) > LATE_MS


def figures_of(rows: Iterable[Taped], now_ns: int) -> Figures:
    """Add up.

    Args:
        rows: The records.
        now_ns: Until when unanswered ones have waited.
    """
    seen = [(latency_ms(row, now_ns), row.outcome) for row in rows]
    return Figures(
        records=len(seen),
        late=sum(ms > LATE_MS for ms, _ in seen),
        longest_ms=max((ms for ms, _ in seen), default=0.0),
        failed=sum(outcome == FAILED for _, outcome in seen),
    )


def percent(share: float) -> str:
    """Return a share with as many digits as it takes to differ from 0%: ``67%``, ``0.45%``, ``0%``."""
    if share == 0:
        return "0%"
    return f"{100 * share:.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"
