"""Makes the tables of changes anew. Doing it twice changes nothing."""

from collections.abc import Collection, Iterable, Mapping
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
from kafka_partition_events.spark.control.convergence import change_convergence
from kafka_partition_events.spark.control.followers import has_one_of
from kafka_partition_events.spark.control.inputs import ChangeTable, day_of_change, inputs_of, last_known
from kafka_partition_events.spark.control.laggards import change_laggards
from kafka_partition_events.spark.tables.days import Days, joined_days
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
    """

    tables: Tables

    def refresh(self, new: Collection[int], last: int, until: datetime) -> list[Days]:
        """Take up batches; return the days that were made anew.

        These are the days on which changes were requested of which there is news, or that are open: whoever
        follows an open change is told by leases, too.

        Args:
            new: The numbers of the batches.
            last: The last one that counts; a later one is being written now.
            until: When the last record of all batches was appended.
        """
        known = self._known(last)
        told = (self.tables.read(f"silver/{topic}", batches=new) for topic in ("changes", "acks"))
        changed, answered = (rows.select("change_id") for rows in told)
        news = F.broadcast(changed.union(answered).distinct().withColumn("_news", F.lit(True)))
        is_open = ~has_one_of("state", (state for state in State if state.final))
        touched = known.join(news, "change_id", "left").where(F.col("_news") | is_open)
        found = touched.select("day").distinct().toArrow().column("day").to_pylist()
        return self._refresh_days([Days(day, day) for day in found], known, last, until)

    def recompute(self, days: Days, last: int, until: datetime) -> list[Days]:
        """Make the tables anew of changes that were requested on these days.

        Args:
            days: The days.
            last: The last batch that counts.
            until: When the last record of all batches was appended.
        """
        return self._refresh_days([days], self._known(last), last, until)

    def _known(self, last: int) -> DataFrame:
        """Return all changes; they are few."""
        changes = self.tables.read("silver/changes").where(F.col("batch") <= last)
        return last_known(changes).withColumn("day", day_of_change()).localCheckpoint()

    def _refresh_days(
        self, spans: Iterable[Days], known: DataFrame, last: int, until: datetime
    ) -> list[Days]:
        ranges = joined_days(spans)
        for days in ranges:
            self._refresh_range(days, known.where(F.col("day").between(days.first, days.last)), last, until)
        return ranges

    def _refresh_range(self, days: Days, changes: DataFrame, last: int, until: datetime) -> None:
        end = self._end_of(changes, until)
        leases = self._read("leases", Days(_date(days.begin - _LEASES_REACH), end), last)
        acks = self._read("acks", Days(days.first, _date(until + _CLOCKS)), last)
        made = inputs_of(changes.drop("day"), leases, acks, round(until.timestamp() * 1_000))
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

    def _end_of(self, changes: DataFrame, until: datetime) -> date:
        """Return the last day of which leases matter to these changes."""
        finished = F.timestamp_millis(
            F.max(F.coalesce("finished_ms", F.lit(round(until.timestamp() * 1_000))))
        )
        (row,) = changes.agg(finished.alias("end")).toArrow().to_pylist()
        return _date((row["end"] or until) + _CLOCKS)

    def _read(self, topic: str, days: Days, last: int) -> DataFrame:
        return self.tables.read(f"silver/{topic}", days).where(F.col("batch") <= last)


def _date(moment: datetime) -> date:
    return moment.astimezone(UTC).date()
