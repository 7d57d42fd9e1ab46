"""Ranges of days and of hours, the units in which tables are replaced. All of them in UTC."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, TypeVar

from attrs import field, frozen
from attrs.validators import instance_of

EVER: Final = date(2199, 12, 31)
_HOUR = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class Days:
    """All days from ``first`` to ``last``, both included.

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


@frozen(order=True)
class Hours:
    """All hours from ``first`` to ``last``, both included, by their numbers since 1970.

    Raises:
        ValueError: ``last`` lies before ``first``.
    """

    first: int = field(validator=instance_of(int))
    last: int = field(validator=instance_of(int))

    def __attrs_post_init__(self) -> None:
        if self.last < self.first:
            raise ValueError(f"the range of hours ends ({self.last}) before it begins ({self.first})")

    @classmethod
    def touched(cls, first: datetime, last: datetime) -> "Hours":
        """Return the hours from the one that a moment lies in to that of another one."""
        return cls((first - _EPOCH) // _HOUR, (last - _EPOCH) // _HOUR)

    @property
    def begin(self) -> datetime:
        """The first moment of the range."""
        return _EPOCH + self.first * _HOUR

    @property
    def end(self) -> datetime:
        """The first moment after the range."""
        return _EPOCH + (self.last + 1) * _HOUR

    @property
    def days(self) -> Days:
        """The days that they lie in."""
        return Days(self.begin.date(), (self.end - _HOUR).date())


Period = Days | Hours
Span = TypeVar("Span", Days, Hours)


def since(moment: datetime) -> Days:
    """Return the day of a moment and all after it."""
    return Days(moment.date(), EVER)


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return ranges as few ones, ascending, without overlaps."""
    result: list[Span] = []
    for span in sorted(spans, key=lambda span: span.first):
        if result and _number(span.first) <= _number(result[-1].last) + 1:
            result[-1] = type(span)(result[-1].first, max(result[-1].last, span.last))
        else:
            result.append(span)
    return result


def _number(place: date | int) -> int:
    return place if isinstance(place, int) else place.toordinal()


def last_days(now: datetime, count: int) -> Days:
    """Return the last so many days, up to today."""
    today = now.astimezone(UTC).date()
    return Days(today - timedelta(days=count - 1), today)
