"""What the pipeline has counted, and whom it tells how far it is. Pure."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import attrs
from attrs import field, frozen

from kafka_partition_events.spark.fleet.days import Days


@frozen(kw_only=True)
class Counts:
    """How many records. Each that is read is good, or in quarantine for one of the other reasons.

    Attributes:
        read: Records of the source.
        good: Records that are events of ours.
        unparsed: Those that are no CloudEvents of ours.
        unknown: CloudEvents of an unknown type or major version.
        future: Events of an observer whose clock is ahead of the broker's.
        past: Events of an observer whose clock is behind.
        doubles: Observations of an event that another one in the same batches told, too.
        missing: Offsets that were gone before they were read: by retention, or with a topic that was deleted.
            Markers of transactions count as such, too.
    """

    read: int = 0
    good: int = 0
    unparsed: int = 0
    unknown: int = 0
    future: int = 0
    past: int = 0
    doubles: int = 0
    missing: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{name: n + getattr(other, name) for name, n in attrs.asdict(self).items()})

    def __str__(self) -> str:
        said = [f"{n:,} {name}" for name, n in attrs.asdict(self).items() if n or name in {"read", "good"}]
        return ", ".join(said)


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
    """Hears how far the pipeline is, from several threads, one at a time.

    Override what is of interest: `tell` for all of it. This one does nothing with it.
    """

    def step(self, text: str) -> None:
        """Something begins that takes a while."""
        self.tell(text)

    def batch(self, done: BatchDone) -> None:
        """A batch is in its tables."""
        self.tell(done)

    def refreshed(self, done: Refreshed) -> None:
        """Days are made anew."""
        self.tell(done)

    def tell(self, what: str | BatchDone | Refreshed) -> None:
        """Tell any of these; each is a line of text by `str`."""


class Lines(Progress):
    """Tells each step in a line of text."""

    def __init__(self, write: Callable[[str], object] = print) -> None:
        self._write = write

    def tell(self, what: str | BatchDone | Refreshed) -> None:
        """Tell it."""
        self._write(str(what))
