"""What the pipeline has counted, and where it reports how far it is. Pure."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import attrs
from attrs import field, frozen

from kafka_partition_events.spark.tables.counts import Counts
from kafka_partition_events.spark.tables.days import Days


@frozen(kw_only=True)
class Refreshed:
    """The tables of these days are refreshed.

    Attributes:
        ranges: The days that changed.
        counts: What was taken up, by the query that had read it.
        totals: What was counted since the tables were begun.
        until: The last news.
        seconds: How long it took.
        clusters: The last news of each cluster.
        behind: By query, how many offsets there were that it had not read.
    """

    ranges: Sequence[Days] = ()
    counts: Mapping[str, Counts]
    totals: Counts
    until: datetime | None
    seconds: float = 0.0
    clusters: Mapping[str, datetime] = field(factory=dict)
    behind: Mapping[str, int] = field(factory=dict)

    def __str__(self) -> str:
        days = ", ".join(
            str(days.first) if days.first == days.last else f"{days.first} to {days.last}"
            for days in self.ranges
        )
        came = "".join(f"{query}: {counts}; " for query, counts in self.counts.items())
        return f"{came}refreshed: {days or 'nothing'} ({self.seconds:.1f} s); in all {self.totals}"

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "days": [f"{days.first}..{days.last}" for days in self.ranges],
            "until": None if self.until is None else self.until.isoformat().replace("+00:00", "Z"),
            "seconds": round(self.seconds, 3),
            "totals": attrs.asdict(self.totals),
        }


class Progress:
    """Hears how far the pipeline is. This one does nothing with it."""

    def report(self, what: str | Refreshed) -> None:
        """Report what begins, if it takes a while, or what is done; each is a line of text by `str`."""


class Lines(Progress):
    """Writes each step in a line of text."""

    def __init__(self, write: Callable[[str], object] = print) -> None:
        self._write = write

    def report(self, what: str | Refreshed) -> None:
        """Write it."""
        self._write(str(what))
