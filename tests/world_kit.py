"""A time in which stories of tests begin."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)  # a Friday


def moment(seconds: float) -> datetime:
    """Return the moment so many seconds into a story."""
    return START + timedelta(seconds=seconds)
