"""What the tables of changes are computed from."""

from collections.abc import Callable

from attrs import frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.control.followers import as_known, followers
from kafka_partition_events.spark.control.latest import latest_changes
from kafka_partition_events.spark.gold.intervals import day_of


@frozen(kw_only=True)
class ChangeInputs:
    """What was read of changes and of those whom they concern; still lazy.

    Attributes:
        changes: As `last_known` returns them.
        followers: As `kafka_partition_events.spark.control.followers.followers` returns them, of now.
        leases: Rows of ``silver/leases``.
        acks: Rows of ``silver/acks``.
        until_ms: The time now by the brokers' clock.
    """

    changes: DataFrame
    followers: DataFrame
    leases: DataFrame
    acks: DataFrame
    until_ms: int


ChangeTable = Callable[[ChangeInputs], DataFrame]
"""Returns the rows of one gold table, of all the changes. Pure."""


def last_known(changes: DataFrame) -> DataFrame:
    """Return changes as `latest_changes` does, and ``gate_opened_ms``.

    That is when the first record was appended that told of an open gate.

    Args:
        changes: Rows of ``silver/changes``: all of those changes whose rows are wanted.
    """
    return latest_changes(changes).join(_opened(changes), "change_id", "left")


def inputs_of(changes: DataFrame, leases: DataFrame, acks: DataFrame, until_ms: int) -> ChangeInputs:
    """Return inputs, with what follows from the records.

    Args:
        changes: As `last_known` returns them; they are read several times, so better computed already.
        leases: Rows of ``silver/leases``.
        acks: Rows of ``silver/acks``.
        until_ms: The time now by the brokers' clock: when the last record was appended.
    """
    known = followers(as_known(changes, until_ms), leases, acks)
    return ChangeInputs(changes=changes, followers=known, leases=leases, acks=acks, until_ms=until_ms)


def day_of_change() -> Column:
    """Return ``day``: that of the request, by which the tables are replaced."""
    return day_of(F.col("requested_ms") * 1000).alias("day")


def _opened(changes: DataFrame) -> DataFrame:
    """Return ``change_id, gate_opened_ms``: null if the first record that was read tells of an open gate."""
    is_open = F.col("gate") == "open"
    opened, held = F.min(F.when(is_open, F.col("at_ms"))), F.min(F.when(~is_open, F.col("at_ms")))
    return changes.groupBy("change_id").agg(F.when(held <= opened, opened).alias("gate_opened_ms"))
