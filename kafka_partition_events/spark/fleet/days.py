"""A range of days, the unit in which tables are replaced."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

from attrs import field, frozen
from attrs.validators import instance_of


@frozen
class Days:
    """All days from ``first`` to ``last``, both included, in UTC.

    Raises:
        ValueError: ``last`` lies before ``first``.
    """

    first: date = field(validator=instance_of(date))
    last: date = field(validator=instance_of(date))

    def __attrs_post_init__(self) -> None:
        if self.last < self.first:
            raise ValueError(f"the range of days ends ({self.last}) before it begins ({self.first})")

    @property
    def begin(self) -> datetime:
        """The first moment of the range."""
        return datetime.combine(self.first, time(), UTC)

    @property
    def end(self) -> datetime:
        """The first moment after the range."""
        return datetime.combine(self.last + timedelta(days=1), time(), UTC)

    def widened(self, days: int) -> "Days":
        """Return the range with so many more days at both ends."""
        more = timedelta(days=days)
        return Days(self.first - more, self.last + more)

    def joined(self, other: "Days") -> "Days":
        """Return the smallest range that holds both."""
        return Days(min(self.first, other.first), max(self.last, other.last))


def joined(spans: Iterable[Days], *, gap: int = 0) -> list[Days]:
    """Return these days as few ranges, ascending, without overlaps.

    Args:
        spans: Ranges in any order.
        gap: Two ranges with at most so many days between them become one.
    """
    result: list[Days] = []
    for days in sorted(spans, key=lambda days: days.first):
        if result and (days.first - result[-1].last).days <= gap + 1:
            result[-1] = result[-1].joined(days)
        else:
            result.append(days)
    return result


def clipped(spans: Iterable[Days], within: Days) -> list[Days]:
    """Return what of these ranges lies in another one."""
    cut = ((max(days.first, within.first), min(days.last, within.last)) for days in spans)
    return [Days(first, last) for first, last in cut if first <= last]


def last_days(now: datetime, count: int) -> Days:
    """Return the last so many days, up to today."""
    today = now.astimezone(UTC).date()
    return Days(today - timedelta(days=count - 1), today)
