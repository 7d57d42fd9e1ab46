"""What this lane heeds of the journal: an entry, parsed. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from attrs import field, frozen

from kafka_partition_events.events.digests import changes_of
from kafka_partition_events.events.moments import Bounds, moment_of
from kafka_partition_events.metadata.json_text import json_in
from kafka_partition_events.outbox import Entry

PASSING: Final = frozenset({
    "topic.created", "topic.deleted", "topic.recreated", "partitions.added", "cap.reached", "cap.lifted",
    "observer.resync",
})  # fmt: skip
"""Structural changes, and losses of the journal's own: they are final, so nothing is to be held down."""

DOWN: Final = frozenset({
    "partition.offline", "broker.left", "broker.suspected", "metadata.unavailable", "metadata.stale",
})  # fmt: skip
"""What begins; it is held down."""

UP: Final = frozenset({"partition.online", "broker.joined", "broker.cleared", "metadata.recovered"})
"""What ends it."""

_HEEDED: Final = PASSING | DOWN | UP


@frozen(kw_only=True)
class Happening:
    """An entry of the journal, as far as this lane needs it.

    Attributes:
        id: The entry's id.
        name: The event's name, such as ``partition.offline``.
        cluster: Kafka's cluster id, None where nobody can tell.
        severity: OpenTelemetry's severity number.
        at: The upper bound of when it happened.
        prev_at: The lower bound, None if there is none.
        initial: Whether it tells what *is*, not what changed.
        data: The CloudEvent's data.
    """

    id: str
    name: str
    cluster: str | None = None
    severity: int = 0
    at: datetime
    prev_at: datetime | None = None
    initial: bool = False
    data: Mapping[str, Any] = field(factory=dict)

    @property
    def known_to(self) -> datetime:
        """Up to when things are known to have stood as they did before it: until the look before it.

        What a look finds to be back may have been so for as long as nobody looked.
        """
        found_by_looking = self.name.partition(".")[0] in {"topic", "partition", "partitions"}
        if found_by_looking or self.name in {"broker.joined", "broker.left"}:
            return self.prev_at or self.at
        return self.at

    @property
    def planned(self) -> bool:
        """Whether a change had asked for it."""
        return self.data.get("planned") is True

    @property
    def bounds(self) -> Bounds:
        """When it happened."""
        return Bounds(self.prev_at, self.at)


def happenings_of(entry: Entry) -> Iterator[Happening]:
    """Yield what an entry tells: a digest tells several, what this lane does not heed is not parsed.

    Raises:
        ValueError, KeyError, TypeError: the entry is no event of the journal.
    """
    if entry.name not in _HEEDED:
        return
    for id_, data in changes_of(json_in(entry.body)):
        yield Happening(
            id=id_,
            name=entry.name,
            cluster=data["cluster_id"],
            severity=entry.severity,
            at=entry.at,
            prev_at=moment_of(data["snapshot"]["prev_at"]),
            initial=data["initial"],
            data=data,
        )
