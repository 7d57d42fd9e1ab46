"""Ranges of days and of hours, the units in which tables are replaced. All of them in UTC."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Protocol

from attrs import field, frozen
from attrs.validators import instance_of

EVER: Final = date(2199, 12, 31)
_HOUR = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Period(Protocol):
    """A time that begins and ends with a day, or with an hour."""

    @property
    def begin(self) -> datetime:
        """The first moment."""

    @property
    def end(self) -> datetime:
        """The first moment after it."""


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

    @property
    def hours(self) -> "Hours":
        """All of their hours."""
        return Hours.touched(self.begin, self.end - timedelta(microseconds=1))


@frozen(order=True)
class Hours:
    """All hours from ``first`` to ``last``, both included, by their numbers since 1970.

    Raises:
        ValueError: ``last`` lies before ``first``.
    """

    first: int
    last: int

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


def since(moment: datetime) -> Days:
    """Return the day of a moment and all after it."""
    return Days(moment.date(), EVER)


def joined_days(spans: Iterable[Days]) -> list[Days]:
    """Return these days as few ranges, ascending, without overlaps."""
    result: list[Days] = []
    for days in sorted(spans, key=lambda days: days.first):
        if result and (days.first - result[-1].last).days <= 1:
            result[-1] = Days(result[-1].first, max(result[-1].last, days.last))
        else:
            result.append(days)
    return result


def joined_hours(spans: Iterable[Hours]) -> list[Hours]:
    """Return these hours as few ranges, ascending, without overlaps."""
    result: list[Hours] = []
    for hours in sorted(spans):
        if result and hours.first <= result[-1].last + 1:
            result[-1] = Hours(result[-1].first, max(result[-1].last, hours.last))
        else:
            result.append(hours)
    return result


def last_days(now: datetime, count: int) -> Days:
    """Return the last so many days, up to today."""
    today = now.astimezone(UTC).date()
    return Days(today - timedelta(days=count - 1), today)
