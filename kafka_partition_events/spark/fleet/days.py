"""A range of days, the unit in which tables are replaced."""

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
