"""What the report says, as plain values: no Spark here, and no HTML. All times are aware UTC times."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from attrs import fields, frozen

from kafka_partition_events.spark.tables.days import Days

HOUR: Final = timedelta(hours=1)


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
    def seconds(self) -> tuple[float, float | None]:
        """How long it lasted at the least and at the most; None when only the least is known."""
        end = self.seen_until if self.ended_by is None else self.ended_after or self.began_by
        least = max(0.0, (end - self.began_by).total_seconds())
        if self.began_after is None or self.ended_by is None:
            return least, None
        return least, (self.ended_by - self.began_after).total_seconds()


@frozen(kw_only=True)
class Outage:
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
class Change:
    """Something else that is worth a mark: growth, a re-created topic, a broker, a cap.

    It happened after ``after`` (None: at any time before) and no later than ``by``.
    """

    name: str
    after: datetime | None
    by: datetime
    topic: str | None = None
    broker: int | None = None
    detail: str | None = None


@frozen(kw_only=True)
class Rated:
    """How available something was in some time.

    Attributes:
        partition_s: Seconds that its partitions existed in, all together.
        offline_lo_s: Of these, the seconds in which partitions were offline, at the least.
        offline_hi_s: The same at the most.
        blind_s: Seconds of ``partition_s`` in which nobody looked; neither up nor down.
        incidents: Outages that began in it.
    """

    partition_s: float = 0.0
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
class RatedHour(Rated):
    """An hour (UTC)."""

    hour: datetime


@frozen(kw_only=True)
class RatedTopic(Rated):
    """A topic in the whole period; ``hours`` are the latest ones of it, in order."""

    topic: str
    hours: tuple[RatedHour, ...] = ()


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
class Brokers:
    """The brokers with the most moves, and what holds of all.

    Attributes:
        count: How many brokers there are.
        moves: How many leaders moved away from one.
        counted_at: When ``leaders`` and ``replicas`` were counted; None: never.
        leaders_spread: How many times the mean the largest broker leads; None if nobody led anything.
        replicas_spread: The same of replicas.
    """

    shown: tuple[BrokerLoad, ...] = ()
    count: int = 0
    moves: int = 0
    counted_at: datetime | None = None
    leaders_spread: float | None = None
    replicas_spread: float | None = None


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
        changes_cut: Whether there are more.
        burn: The rates at ``until``.
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
    changes: tuple[Change, ...] = ()
    changes_cut: bool = False
    burn: tuple[BurnRate, ...] = ()
    brokers: Brokers = Brokers()


def total(parts: Iterable[Rated]) -> Rated:
    """Return parts added up."""
    rows = list(parts)
    return Rated(**{one.name: sum(getattr(row, one.name) for row in rows) for one in fields(Rated)})


def burn_down(hours: Sequence[RatedHour], target: float) -> Iterator[BudgetPoint]:
    """Yield how much of the period's error budget was left at the end of each hour, from 1 downwards.

    The budget is ``(1 - target)`` of the watched partition seconds of all hours together.
    """
    budget = (1 - target) * sum(row.watched_s for row in hours)
    if not budget:
        return
    lo = hi = 0.0
    yield BudgetPoint(at=hours[0].hour, lo=1.0, hi=1.0)
    for row in hours:
        lo, hi = lo + row.offline_lo_s, hi + row.offline_hi_s
        yield BudgetPoint(at=row.hour + HOUR, lo=1 - hi / budget, hi=1 - lo / budget)
