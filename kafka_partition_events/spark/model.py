"""What a report says, as plain values: no Spark here, and no HTML. All times are aware UTC times."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from attrs import field, frozen


@frozen(kw_only=True)
class Span:
    """When something was down, as far as anybody knows.

    It began after ``began_after`` and no later than ``began_by``; it ended after ``ended_after`` and no
    later than ``ended_by``. ``began_after`` is None when nobody saw the time before it; ``ended_by`` is None
    when it had not ended by ``seen_until``, the last news of all.
    """

    began_after: datetime | None
    began_by: datetime
    ended_after: datetime | None = None
    ended_by: datetime | None = None
    seen_until: datetime

    @property
    def open(self) -> bool:
        """Whether nobody saw it end."""
        return self.ended_by is None

    @property
    def shortest_s(self) -> float:
        """How many seconds it lasted at the least."""
        end = self.seen_until if self.ended_by is None else self.ended_after or self.began_by
        return max(0.0, (end - self.began_by).total_seconds())

    @property
    def longest_s(self) -> float | None:
        """How many seconds it lasted at the most; None when only the least is known."""
        if self.began_after is None or self.ended_by is None:
            return None
        return (self.ended_by - self.began_after).total_seconds()


@frozen(kw_only=True)
class Outage:
    """A partition without a leader; ``ended_with`` is the name of the event that told of the end."""

    topic: str
    partition: int
    span: Span
    ended_with: str | None = None


@frozen(kw_only=True)
class Absence:
    """A broker that was not listed."""

    broker: int
    span: Span


@frozen(kw_only=True)
class Change:
    """Another event worth a line: growth, a broker, a re-created topic, a cap, trouble with the metadata.

    It happened after ``after`` (None: at any time before) and no later than ``by``. ``gap`` tells that looks
    failed in between.
    """

    name: str
    after: datetime | None
    by: datetime
    topic: str | None = None
    partitions: str | None = None
    broker: int | None = None
    detail: str | None = None
    gap: bool = False


class Phase(StrEnum):
    """When a record was made, seen from the outages of its topic."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


@frozen(kw_only=True)
class TopicTraffic:
    """The records of one topic: partition -> phase -> count, and how many seconds each phase lasted."""

    topic: str
    records: Mapping[int, Mapping[Phase, int]]
    seconds: Mapping[Phase, float]
    offline: frozenset[int] = frozenset()
    """The partitions that had an outage."""
    added: frozenset[int] = frozenset()
    """The partitions that came by growth."""

    def total(self, phase: Phase) -> int:
        """Return the records of all partitions in a phase."""
        return sum(counts.get(phase, 0) for counts in self.records.values())

    def rate(self, partition: int, phase: Phase) -> float | None:
        """Return records per second; None when the phase has no length."""
        seconds = self.seconds.get(phase, 0.0)
        return self.records[partition].get(phase, 0) / seconds if seconds > 0 else None


@frozen(kw_only=True)
class Account:
    """What one client was told about its records to one topic."""

    client: str
    topic: str
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    rerouted: int = 0
    capped: int = 0

    @property
    def unaccounted(self) -> int:
        """Records that were neither acknowledged nor reported as failed."""
        return self.sent - self.acknowledged - self.failed


@frozen(kw_only=True)
class Stored:
    """What one topic holds.

    Of its records, ``labelled`` carry a producer and a number, ``numbers`` of them different ones; rerouted
    and capped are what labelled records say of themselves.
    """

    topic: str
    records: int
    labelled: int = 0
    numbers: int = 0
    rerouted: int = 0
    capped: int = 0

    @property
    def doubles(self) -> int | None:
        """Records that the topic holds more than once; None where records carry no number."""
        return self.labelled - self.numbers if self.comparable else None

    @property
    def comparable(self) -> bool:
        """Whether every record carries a number, so that different ones can be counted."""
        return self.records == self.labelled


@frozen(kw_only=True)
class EventQuality:
    """How good the events themselves were: records read, and what could not be used of them."""

    read: int = 0
    unparsed: int = 0
    unknown: int = 0
    distinct: int = 0

    @property
    def doubles(self) -> int:
        """Good events that told what another one tells."""
        return self.read - self.unparsed - self.unknown - self.distinct


@frozen(kw_only=True)
class ReportData:
    """Everything that the report says."""

    cluster: str
    made_at: datetime
    first: datetime
    last: datetime
    outages: tuple[Outage, ...] = ()
    absences: tuple[Absence, ...] = ()
    changes: tuple[Change, ...] = ()
    traffic: tuple[TopicTraffic, ...] = ()
    accounts: tuple[Account, ...] = ()
    stored: Mapping[str, Stored] = field(factory=dict)
    quality: EventQuality = EventQuality()
    note: str | None = None
    """Shown at the top, for instance that the data are made up."""

    @property
    def replaced(self) -> frozenset[str]:
        """The topics that were deleted or re-created: their earlier records went with them."""
        names = ("topic.deleted", "topic.recreated")
        return frozenset(c.topic for c in self.changes if c.topic and c.name in names)


COUNTERS: Final = ("sent", "acknowledged", "failed", "rerouted", "capped")


def accounts_of(counters: Mapping[str, Mapping[str, Mapping[str, int]]]) -> tuple[Account, ...]:
    """Return the accounts in ``{client: {topic: {"sent": 1, ...}}}``; what is left out is 0.

    Raises:
        ValueError: a counter has another name than those in `COUNTERS`.
    """
    accounts = []
    for client, topics in counters.items():
        for topic, counts in topics.items():
            if unknown := counts.keys() - set(COUNTERS):
                raise ValueError(
                    f"counters of {client}, {topic}: {sorted(unknown)} are not among {', '.join(COUNTERS)}"
                )
            accounts.append(Account(client=client, topic=topic, **counts))
    return tuple(sorted(accounts, key=lambda account: (account.topic, account.client)))


def phase_seconds(
    first: datetime, last: datetime, windows: Iterable[tuple[datetime, datetime | None]]
) -> dict[Phase, float]:
    """Return how long each phase lasted between a topic's first and last record.

    Args:
        first: The first record.
        last: The last record.
        windows: When some partition may have been offline, ascending, without overlaps; None: to this day.
    """
    cut = [(max(start, first), min(end or last, last)) for start, end in windows]
    if not cut:
        return {Phase.BEFORE: (last - first).total_seconds(), Phase.DURING: 0.0, Phase.AFTER: 0.0}
    during = sum(max(0.0, (end - start).total_seconds()) for start, end in cut)
    before = max(0.0, (min(cut[0][0], last) - first).total_seconds())
    total = (last - first).total_seconds()
    return {Phase.BEFORE: before, Phase.DURING: during, Phase.AFTER: max(0.0, total - before - during)}
