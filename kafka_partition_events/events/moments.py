"""Moments as text. Pure."""

from datetime import UTC, datetime


def encode_time(moment: datetime) -> str:
    """Return an aware time as ISO-8601 UTC with microseconds: ``2024-01-31T12:00:00.000000Z``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
