"""What the report says, as plain values: no Spark here, and no HTML. All times are aware UTC times."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from attrs import fields, frozen

from kafka_partition_events.spark.tables.days import Days

HOUR: Final = timedelta(hours=1)


@frozen(kw_only=True)
class Span:
    """When something was down, as far as anybody knows.

    It began after ``began_after`` and no later than ``began_by``; it ended after ``ended_after`` and no
    later than ``ended_by``. ``began_after`` is None when no observer saw the time before it; ``ended_by`` is
    None when it had not ended by ``seen_until``, the last news of all.
    """

    began_after: datetime | None
    began_by: datetime
    ended_after: datetime | None = None
    ended_by: datetime | None = None
    seen_until: datetime

    @property
    def open(self) -> bool:
        """Whether no observer saw it end."""
        return self.ended_by is None

    @property
    def seconds(self) -> tuple[float, float | None]:
        """How long it lasted at the least and at the most; None when only the least is known."""
        end = self.seen_until if self.ended_by is None else self.ended_after or self.began_by
        least = max(0.0, (end - self.began_by).total_seconds())
        if self.began_after is None or self.ended_by is None:
            return least, None
        return least, (self.ended_by - self.began_after).total_seconds()


@frozen(kw_only=True)
class Outage:
    """A partition without a leader, or a cluster that answered no observer.

    Attributes:
        partition: None of a cluster.
        leader_before: The broker that led it last, as far as anybody saw.
        leader_after: The one that led it next.
        cause: The broker that left the cluster with it; None if no broker's leaving explains it.
    """

    topic: str
    partition: int | None
    span: Span
    leader_before: int | None = None
    leader_after: int | None = None
    cause: int | None = None


@frozen(kw_only=True)
class TopicChange:
    """A topic that grew, or was created again: how many partitions it had, and has since a moment."""

    topic: str
    at: datetime
    before: int
    after: int
    recreated: bool = False


@frozen(kw_only=True)
class Rated:
    """How available something was in some time.

    Attributes:
        partition_s: Seconds that its partitions existed in, all together.
        offline_lo_s: Of these, the seconds in which partitions were offline, at the least.
        offline_hi_s: The same at the most.
        blind_s: Seconds of ``partition_s`` in which no observer polled; neither up nor down.
        incidents: Outages that began in it.
    """

    partition_s: float = 0.0
    offline_lo_s: float = 0.0
    offline_hi_s: float = 0.0
    blind_s: float = 0.0
    incidents: int = 0

    @property
    def watched_s(self) -> float:
        """Partition seconds that were watched."""
        return max(0.0, self.partition_s - self.blind_s)

    @property
    def availability(self) -> tuple[float, float] | None:
        """The least and the most share of watched time that partitions were up; None: none is watched."""
        if not self.watched_s:
            return None
        return (
            max(0.0, 1 - self.offline_hi_s / self.watched_s),
            max(0.0, 1 - self.offline_lo_s / self.watched_s),
        )


@frozen(kw_only=True)
class RatedHour(Rated):
    """An hour (UTC)."""

    hour: datetime


@frozen(kw_only=True)
class RatedTopic(Rated):
    """A topic in the whole period; ``hours`` are the latest ones of it, in order."""

    topic: str
    hours: tuple[RatedHour, ...] = ()


@frozen(kw_only=True)
class FleetData:
    """Everything that the report says. How much of it there is does not depend on the fleet's size.

    Attributes:
        until: The last news; what was open then is censored.
        target: The availability that was promised, as a share.
        hours: All topics together, in order; an hour that is missing is one without data.
        topics: Those with the most offline time, the worst first.
        topic_count: How many topics there are.
        outages: The longest, the longest first.
        outage_count: How many there are.
        open_count: How many of these had not ended.
        changes: The latest, in order.
    """

    cluster: str
    made_at: datetime
    days: Days
    until: datetime
    target: float
    hours: tuple[RatedHour, ...] = ()
    topics: tuple[RatedTopic, ...] = ()
    topic_count: int = 0
    outages: tuple[Outage, ...] = ()
    outage_count: int = 0
    open_count: int = 0
    changes: tuple[TopicChange, ...] = ()


def total(parts: Iterable[Rated]) -> Rated:
    """Return parts added up."""
    rows = list(parts)
    return Rated(**{one.name: sum(getattr(row, one.name) for row in rows) for one in fields(Rated)})
