"""Makes the tables of changes anew. Doing it twice changes nothing."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Final

from attrs import evolve, frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.control.changes.round import LOST_AFTER_MS
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.spark.control.ack_curve import change_ack_curve
from kafka_partition_events.spark.control.convergence import change_convergence, change_laggards
from kafka_partition_events.spark.control.followers import ChangeTable, day_of_change, has_one_of, inputs_of
from kafka_partition_events.spark.control.latest import last_known
from kafka_partition_events.spark.tables.days import Days, joined
from kafka_partition_events.spark.tables.tables import Tables

TABLES: Final[Mapping[str, ChangeTable]] = MappingProxyType(
    {
        "change_convergence": change_convergence,
        "change_ack_curve": change_ack_curve,
        "change_laggards": change_laggards,
    }
)
"""By name. The rows of a change have the ``day`` of its request, by which they are replaced."""

_LEASES_REACH: Final = timedelta(milliseconds=LOST_AFTER_MS)
_CLOCKS: Final = timedelta(days=1)
"""By so much at the most do the brokers' clocks differ."""


@frozen(kw_only=True)
class ChangeRefresher:
    """Writes the gold tables of changes.

    Attributes:
        tables: Where silver is read and gold is written.
        last: The last batch that counts; a later one is being written now.
        until: When the last record of all batches was appended.
    """

    tables: Tables
    last: int
    until: datetime

    def refresh(self, new: Collection[int]) -> list[Days]:
        """Take up batches, by their numbers; return the days that were made anew.

        These are the days on which changes were requested of which there is news, or that are open: whoever
        follows an open change is told by leases, too.
        """
        known = self._known()
        told = (self.tables.read(f"silver/{topic}", batches=new) for topic in ("changes", "acks"))
        changed, answered = (rows.select("change_id") for rows in told)
        news = F.broadcast(changed.union(answered).distinct().withColumn("_news", F.lit(True)))
        is_open = ~has_one_of("state", (state for state in State if state.final))
        touched = known.join(news, "change_id", "left").where(F.col("_news") | is_open)
        found = touched.select("day").distinct().toArrow().column("day").to_pylist()
        ranges = joined(Days(day, day) for day in found)
        for days in ranges:
            self._make(days, known)
        return ranges

    def recompute(self, days: Days) -> None:
        """Make the tables anew of changes that were requested on these days."""
        self._make(days, self._known())

    def _known(self) -> DataFrame:
        """Return all changes; they are few."""
        changes = last_known(self._read("changes"))
        return changes.withColumn("day", day_of_change()).localCheckpoint()

    def _make(self, days: Days, known: DataFrame) -> None:
        changes = known.where(F.col("day").between(days.first, days.last)).drop("day")
        now_ms = round(self.until.timestamp() * 1_000)
        # The last day of which leases matter to these changes.
        finished = F.timestamp_millis(F.max(F.coalesce("finished_ms", F.lit(now_ms))))
        (row,) = changes.agg(finished.alias("end")).toArrow().to_pylist()
        end = _date((row["end"] or self.until) + _CLOCKS)
        leases = self._read("leases", Days(_date(days.begin - _LEASES_REACH), end))
        acks = self._read("acks", Days(days.first, _date(self.until + _CLOCKS)))
        made = inputs_of(changes, leases, acks, now_ms)
        inputs = evolve(made, followers=made.followers.persist())
        try:
            # The tables do not need one another, and most of their time is planning.
            with ThreadPoolExecutor(len(TABLES)) as pool:
                written = [
                    pool.submit(self.tables.replace, f"gold/{name}", table(inputs), days)
                    for name, table in TABLES.items()
                ]
            for one in written:
                one.result()
        finally:
            inputs.followers.unpersist()

    def _read(self, topic: str, *days: Days) -> DataFrame:
        return self.tables.read(f"silver/{topic}", *days).where(F.col("batch") <= self.last)


def _date(moment: datetime) -> date:
    return moment.astimezone(UTC).date()
