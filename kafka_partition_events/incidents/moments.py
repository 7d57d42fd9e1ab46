"""Moments, and bounds within which something happened. Pure."""

from datetime import UTC, datetime

from attrs import frozen

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
        return {"after": None if self.after is None else rfc3339(self.after), "by": rfc3339(self.by)}


def rfc3339(moment: datetime) -> str:
    """Return an aware moment as text, UTC, microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment_of(text: str | None) -> datetime | None:
    """Return what `rfc3339` made a text of; None stays None."""
    return None if text is None else datetime.fromisoformat(text)
