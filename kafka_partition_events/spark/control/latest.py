"""What holds of all records of changes: the last writer wins, by the order of `control.protocol.ledger`.

It does not matter in which order records come, or how often.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.gold.intervals import day_of

_OF_CHANGE: Final = ("tracker_epoch", "revision", "digest")


def latest_changes(changes: DataFrame) -> DataFrame:
    """Return the last record of each change: its columns, and ``retired``: whether a tombstone followed.

    One of which there is nothing but a tombstone is left out.
    """
    of_change = [name for name in changes.columns if name not in {"change_id", "tombstone"}]
    return (
        changes.groupBy("change_id")
        .agg(
            F.max(_record(_OF_CHANGE, of_change, F.expr("NOT tombstone"))).alias("_last"),
            F.max("tombstone").alias("retired"),
        )
        .where("_last IS NOT NULL")
        .select("change_id", "retired", "_last.*")
    )


def last_known(changes: DataFrame) -> DataFrame:
    """Return changes as `latest_changes` does, of rows that must be all of theirs, and ``gate_opened_ms``.

    That is when the first record was appended that told of an open gate; null if the first that was read
    did, or none has.
    """
    is_open = F.col("opened_by").isNotNull()
    opened, held = F.min(F.when(is_open, F.col("at_ms"))), F.min(F.when(~is_open, F.col("at_ms")))
    gates = changes.groupBy("change_id").agg(F.when(held <= opened, opened).alias("gate_opened_ms"))
    return latest_changes(changes).join(gates, "change_id", "left")


def has_one_of(name: str, words: Iterable[str]) -> Column:
    """Return whether a column has one of these words; false where it has none."""
    return F.coalesce(F.col(name).isin(*words), F.lit(False))


def day_of_change() -> Column:
    """Return ``day``: that of the request, by which the tables are replaced."""
    return day_of(F.col("requested_ms") * 1000).alias("day")


def _record(order: tuple[str, ...], columns: list[str], condition: Column | None = None) -> Column:
    """Return these columns as a struct that is the greater, the later it is by an order."""
    names = [*order, *(name for name in columns if name not in order)]
    record = F.struct(*names)
    return record if condition is None else F.when(condition, record)
