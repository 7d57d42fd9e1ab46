"""What the pipeline has counted, and whom it tells how far it is. Pure."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import attrs
from attrs import field, frozen

from kafka_partition_events.spark.tables.days import Days
from kafka_partition_events.spark.tables.ledger import Counts


@frozen(kw_only=True)
class BatchDone:
    """A batch of a query is in its tables."""

    query: str
    batch: int
    counts: Counts
    seconds: float

    def __str__(self) -> str:
        return f"{self.query} batch {self.batch}: {self.counts} ({self.seconds:.1f} s)"


@frozen(kw_only=True)
class Refreshed:
    """The tables of these days are made anew.

    Attributes:
        ranges: The days that changed.
        totals: What was counted since the tables were begun.
        until: The last news.
        seconds: How long it took.
        clusters: The last news of each cluster.
    """

    ranges: Sequence[Days]
    totals: Counts
    until: datetime | None
    seconds: float
    clusters: Mapping[str, datetime] = field(factory=dict)

    def __str__(self) -> str:
        days = ", ".join(
            str(days.first) if days.first == days.last else f"{days.first} to {days.last}"
            for days in self.ranges
        )
        return f"made anew: {days or 'nothing'} ({self.seconds:.1f} s); in all {self.totals}"

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "days": [f"{days.first}..{days.last}" for days in self.ranges],
            "until": None if self.until is None else self.until.isoformat().replace("+00:00", "Z"),
            "seconds": round(self.seconds, 3),
            "totals": attrs.asdict(self.totals),
        }


class Progress:
    """Hears how far the pipeline is, from several threads, one at a time. This one does nothing with it."""

    def tell(self, what: str | BatchDone | Refreshed) -> None:
        """Tell that something begins that takes a while, or what is done; each is a line of text by `str`."""


class Lines(Progress):
    """Tells each step in a line of text."""

    def __init__(self, write: Callable[[str], object] = print) -> None:
        self._write = write

    def tell(self, what: str | BatchDone | Refreshed) -> None:
        """Tell it."""
        self._write(str(what))
