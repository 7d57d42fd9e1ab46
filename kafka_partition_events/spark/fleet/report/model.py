"""What the fleet report says, as plain values: no Spark here, and no HTML. All times are aware UTC times."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from attrs import field, frozen

from kafka_partition_events.spark.fleet.days import Days
from kafka_partition_events.spark.model import Change, Span

HOUR: Final = timedelta(hours=1)


@frozen(kw_only=True)
class FleetOutage:
    """A partition without a leader.

    Attributes:
        leader_before: The broker that led it last, as far as anybody saw.
        leader_after: The one that led it next.
        cause: The broker that left the cluster with it; None if no broker's leaving explains it.
    """

    topic: str
    partition: int
    span: Span
    leader_before: int | None = None
    leader_after: int | None = None
    cause: int | None = None


@frozen(kw_only=True)
class TopicHour:
    """One topic in one hour (UTC).

    Attributes:
        partition_s: Seconds that its partitions existed in, all together.
        offline_lo_s: Of these, the seconds in which partitions were offline, at the least.
        offline_hi_s: The same at the most.
        blind_s: Seconds of ``partition_s`` in which nobody looked; neither up nor down.
        incidents: Outages that began in this hour.
    """

    topic: str
    hour: datetime
    partition_s: float
    offline_lo_s: float = 0.0
    offline_hi_s: float = 0.0
    blind_s: float = 0.0
    incidents: int = 0

    @property
    def watched_s(self) -> float:
        """Partition seconds that somebody watched."""
        return max(0.0, self.partition_s - self.blind_s)

    @property
    def availability(self) -> tuple[float, float] | None:
        """The least and the most share of watched time that partitions were up; None: nobody watched."""
        if not self.watched_s:
            return None
        return (
            max(0.0, 1 - self.offline_hi_s / self.watched_s),
            max(0.0, 1 - self.offline_lo_s / self.watched_s),
        )


@frozen(kw_only=True)
class BurnRate:
    """How fast an error budget is used up: 1 uses exactly all of it over the SLO's period.

    Attributes:
        window: Such as ``5m``.
        lo: The rate at the least.
        hi: The rate at the most.
    """

    window: str
    lo: float
    hi: float


@frozen(kw_only=True)
class BudgetPoint:
    """How much of the error budget of the report's period is left at a moment, as shares; may be negative."""

    at: datetime
    lo: float
    hi: float


@frozen(kw_only=True)
class BrokerLoad:
    """One broker: what it holds now, and how many leaders came and went in the period."""

    broker: int
    leaders: int | None = None
    replicas: int | None = None
    offline_replicas: int | None = None
    moved_to: int = 0
    moved_from: int = 0


@frozen(kw_only=True)
class FleetData:
    """Everything that the report says.

    Attributes:
        until: The last news; what was open then is censored.
        target: The availability that was promised, as a share.
        hours: In no order; an hour without a row is one without data.
        burn: The rates at ``until``.
        skewed_at: When the brokers' ``leaders`` and ``replicas`` were counted; None: never.
    """

    cluster: str
    made_at: datetime
    days: Days
    until: datetime
    target: float
    outages: tuple[FleetOutage, ...] = ()
    changes: tuple[Change, ...] = ()
    hours: tuple[TopicHour, ...] = ()
    burn: tuple[BurnRate, ...] = ()
    brokers: tuple[BrokerLoad, ...] = ()
    skewed_at: datetime | None = None
    counts: Mapping[str, int] = field(factory=dict)
    """Rows of the tables that were read, by table."""


def total(hours: Iterable[TopicHour]) -> TopicHour | None:
    """Return hours added up, under the name of the first; None if there are none."""
    rows = list(hours)
    if not rows:
        return None
    return TopicHour(
        topic=rows[0].topic,
        hour=min(row.hour for row in rows),
        partition_s=sum(row.partition_s for row in rows),
        offline_lo_s=sum(row.offline_lo_s for row in rows),
        offline_hi_s=sum(row.offline_hi_s for row in rows),
        blind_s=sum(row.blind_s for row in rows),
        incidents=sum(row.incidents for row in rows),
    )


def by_topic(hours: Iterable[TopicHour]) -> dict[str, list[TopicHour]]:
    """Return each topic's hours in order, the topic with the most offline time first."""
    ordered = sorted(hours, key=lambda row: (row.topic, row.hour))
    found = {topic: list(own) for topic, own in groupby(ordered, key=lambda row: row.topic)}

    def worst(topic: str) -> tuple[float, str]:
        return -sum(row.offline_hi_s for row in found[topic]), topic

    return {topic: found[topic] for topic in sorted(found, key=worst)}


def burn_down(hours: Sequence[TopicHour], target: float) -> Iterator[BudgetPoint]:
    """Yield how much of the period's error budget was left at the end of each hour, from 1 downwards.

    The budget is ``(1 - target)`` of the watched partition seconds of all hours together.

    Raises:
        ValueError: ``target`` is not between 0 and 1.
    """
    if not 0 < target < 1:
        raise ValueError(f"target is {target}; it must lie between 0 and 1, such as 0.999")
    budget = (1 - target) * sum(row.watched_s for row in hours)
    if not budget:
        return
    lo = hi = 0.0
    ordered = sorted(hours, key=lambda row: row.hour)
    yield BudgetPoint(at=ordered[0].hour, lo=1.0, hi=1.0)
    for hour, rows in groupby(ordered, key=lambda row: row.hour):
        for row in rows:
            lo, hi = lo + row.offline_lo_s, hi + row.offline_hi_s
        yield BudgetPoint(at=hour + HOUR, lo=1 - hi / budget, hi=1 - lo / budget)


def spread(values: Sequence[int]) -> float | None:
    """Return the largest value by the mean; None if there is nothing to compare."""
    mean = sum(values) / len(values) if values else 0
    return max(values) / mean if mean else None
