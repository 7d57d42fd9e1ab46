"""Makes the tables of changes anew. Doing it twice changes nothing."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.spark.control.convergence import change_convergence
from kafka_partition_events.spark.control.latest import day_of_change, has_one_of, last_known
from kafka_partition_events.spark.tables.days import Days, joined
from kafka_partition_events.spark.tables.tables import Tables

TABLES: Final = ("change_convergence",)
"""The rows of a change have the ``day`` of its request, by which they are replaced."""


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

        These are the days on which changes were requested of which there is news, or that are open.
        """
        known = self._known()
        changed = self.tables.read("silver/changes", batches=new).select("change_id")
        news = F.broadcast(changed.distinct().withColumn("_news", F.lit(True)))
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
        changes = last_known(self.tables.read("silver/changes").where(F.col("batch") <= self.last))
        return changes.withColumn("day", day_of_change()).localCheckpoint()

    def _make(self, days: Days, known: DataFrame) -> None:
        changes = known.where(F.col("day").between(days.first, days.last)).drop("day")
        until_ms = round(self.until.timestamp() * 1_000)
        self.tables.replace(f"gold/{TABLES[0]}", change_convergence(changes, until_ms), days)
