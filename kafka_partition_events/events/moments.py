"""Moments, and bounds within which something happened. Pure."""

from datetime import UTC, datetime

from attrs import frozen

from kafka_partition_events.metadata.codec import encode_time

_NEVER = datetime.min.replace(tzinfo=UTC)


@frozen
class Bounds:
    """When something happened: later than ``after`` (None: nobody knows) and no later than ``by``."""

    after: datetime | None
    by: datetime

    @property
    def order(self) -> tuple[datetime, datetime]:
        """What to sort by; earliest first."""
        return self.by, self.after or _NEVER

    def as_json(self) -> dict[str, str | None]:
        """Return it as a CloudEvent's data tells it."""
        return {"after": None if self.after is None else encode_time(self.after), "by": encode_time(self.by)}


def moment_of(text: str | None) -> datetime | None:
    """Return, in UTC, what `encode_time` made a text of; None stays None.

    Raises:
        ValueError, TypeError: it is something else.
    """
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError as error:  # of the year 1 or 9999, and of another one in UTC
        raise ValueError(f"there is no {text} in UTC") from error
