"""Refreshes the gold tables that are replaced by the hour or by the day."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events
from kafka_partition_events.spark.gold import availability
from kafka_partition_events.spark.gold.availability import Lasting
from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.gold.event_counts import leader_churn, skew
from kafka_partition_events.spark.gold.slo_burn import REACH, slo_burn
from kafka_partition_events.spark.refresh.lasting import Changed
from kafka_partition_events.spark.refresh.standing import TOGETHER, Standing
from kafka_partition_events.spark.tables.days import Hours, Period, joined, since
from kafka_partition_events.spark.tables.tables import COUNTS, RECORDS, Tables

LastingTable = Callable[[Lasting, Period], DataFrame]
EventTable = Callable[[DataFrame, Period], DataFrame]
"""Return the rows of one gold table whose time lies in the period, and no others. Pure."""

OF_LASTING: Final[Mapping[str, LastingTable]] = MappingProxyType(
    {
        "availability_hourly": availability.hourly,
        "availability_daily": availability.daily,
        "slo_burn": slo_burn,
    }
)
OF_EVENTS: Final[Mapping[str, tuple[str, EventTable]]] = MappingProxyType(
    {"leader_churn": ("leadership.moved", leader_churn), "skew": ("cluster.summary", skew)}
)
"""By name, the events that each counts, and how: each event once, as `events.distinct` returns it."""

_APART: Final = 12
"""So many hours between two ranges are refreshed with them: that costs less than one more query."""
_OUTAGE: Final = ("cluster_id", "topic", "began_after", "began_by", "ended_after", "ended_by")
_COUNT: Final = ("cluster_id", "topic", "count", "valid_from", "valid_to")


@frozen(kw_only=True)
class DueTables:
    """What a refresh makes again.

    Attributes:
        rated: Hours in which availability changes.
        burnt: Hours in which burn rates change.
        churned: Hours in which leadership moved.
        summed: Hours of which observers emitted summaries.
    """

    rated: Sequence[Hours] = field(factory=list)
    burnt: Sequence[Hours] = field(factory=list)
    churned: Sequence[Hours] = field(factory=list)
    summed: Sequence[Hours] = field(factory=list)


@frozen(kw_only=True)
class Gold:
    """Makes them from silver and from the records.

    Attributes:
        tables: Where all tables are.
        standing: Knows which days of outages matter.
        target: Which part of the time partitions shall be online.
        at_once: How many tables are made at once: most of their time is planning.
    """

    tables: Tables
    standing: Standing
    target: float = 0.999
    at_once: int = 4

    def make(self, due: DueTables, clusters: Clusters, found: Changed, counts: Changed) -> None:
        """Refresh what is due, from the outages and the counts of partitions as they will be."""
        together(self.at_once, *self._of_lasting(due, clusters, found, counts), *self._of_events(due))

    def _of_lasting(
        self, due: DueTables, clusters: Clusters, found: Changed, changed: Changed
    ) -> Iterator[Callable[[], None]]:
        rated, burnt = _near(due.rated), _near(due.burnt)
        wanted: list[tuple[str, Period]] = [
            *(("availability_hourly", hours) for hours in rated),
            *(("availability_daily", days) for days in joined(hours.days for hours in rated)),
            *(("slo_burn", hours) for hours in burnt),
        ]
        if not wanted:
            return
        begin = min([*(period.begin for _, period in wanted), *(hours.begin - REACH for hours in burnt)])
        end = F.lit(max(period.end for _, period in wanted))
        from_ = F.lit(begin)
        begins = F.coalesce("began_after", "began_by") < end
        ends = F.col("ended_by").isNull() | (F.col("ended_by") >= from_)
        there = (F.col("valid_from") < end) & (F.col("valid_to").isNull() | (F.col("valid_to") > from_))
        outages = found.applied(self.standing.outages_from(begin)).where(begins & ends).select(*_OUTAGE)
        counts = changed.applied(self.tables.read(COUNTS)).where(there).select(*_COUNT)
        outages, counts = together(self.at_once, outages.localCheckpoint, counts.localCheckpoint)
        lasting = Lasting(outages=outages, counts=counts, clusters=clusters, target=self.target)
        for name, period in wanted:
            yield partial(self._replace, name, partial(OF_LASTING[name], lasting), period)

    def _of_events(self, due: DueTables) -> Iterator[Callable[[], None]]:
        spans = {"leader_churn": due.churned, "skew": due.summed}
        for name, (event, table) in OF_EVENTS.items():
            for hours in _near(spans[name]):
                yield partial(self._replace, name, partial(table, self._read_events(event, hours)), hours)

    def _read_events(self, name: str, period: Period) -> DataFrame:
        """Return the events of one kind, of a period and so long before it that doubles are known as such."""
        begin, at = period.begin - TOGETHER, F.col("event.data.snapshot.at")
        near = (F.col("name") == name) & (at >= F.lit(begin)) & (at < F.lit(period.end + TOGETHER))
        return events.distinct(events.observations(self.tables.read(RECORDS, since(begin)).where(near)))

    def _replace(self, name: str, made: Callable[[Period], DataFrame], period: Period) -> None:
        self.tables.replace(f"gold/{name}", made(period), period)


def together(at_once: int, *acts: Callable[[], Any]) -> list[Any]:
    """Do so many of these at once, and return what they return."""
    with ThreadPoolExecutor(at_once) as pool:
        begun = [pool.submit(act) for act in acts]
    return [one.result() for one in begun]


def _near(spans: Sequence[Hours]) -> list[Hours]:
    wider = joined(Hours(one.first, one.last + _APART) for one in spans)
    return [Hours(one.first, one.last - _APART) for one in wider]
