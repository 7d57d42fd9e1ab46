"""What holds of all records: the last writer wins, by the orders of `control.protocol.ledger`.

It does not matter in which order records come, or how often.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

_OF_CHANGE: Final = ("tracker_epoch", "revision", "digest")
_OF_LEASE: Final = ("born_ms", "incarnation", "lease_seq", "at_ms", "digest")
_OF_ACK: Final = ("born_ms", "incarnation", "ack_seq", "at_ms", "digest")


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

    That is when the first record was appended that told of an open gate; null if the first that was read did.
    """
    is_open = F.col("gate") == "open"
    opened, held = F.min(F.when(is_open, F.col("at_ms"))), F.min(F.when(~is_open, F.col("at_ms")))
    gates = changes.groupBy("change_id").agg(F.when(held <= opened, opened).alias("gate_opened_ms"))
    return latest_changes(changes).join(gates, "change_id", "left")


def tenancies(leases: DataFrame, *by: str) -> DataFrame:
    """Return ``holder`` and ``rival`` of each instance: structs of the other columns.

    The holder is the last lease of all; the rival the last one of all other processes, null if there is none.
    Rows that differ in the columns ``by`` have nothing to do with each other.
    """
    of_lease = [name for name in leases.columns if name not in {*by, "instance_id"}]
    last = F.max(_record(_OF_LEASE, of_lease)).alias("_lease")
    by_process = leases.groupBy(*by, "instance_id", "incarnation").agg(last)
    newest_first = F.sort_array(F.collect_list("_lease"), asc=False)
    return (
        by_process.groupBy(*by, "instance_id")
        .agg(newest_first.alias("_leases"))
        .select(
            *by,
            "instance_id",
            F.get("_leases", F.lit(0)).alias("holder"),
            F.get("_leases", F.lit(1)).alias("rival"),
        )
    )


def latest_acks(acks: DataFrame) -> DataFrame:
    """Return the last answer of each instance to each change."""
    of_ack = [name for name in acks.columns if name not in {"change_id", "instance_id"}]
    return (
        acks.groupBy("change_id", "instance_id")
        .agg(F.max(_record(_OF_ACK, of_ack)).alias("_last"))
        .select("change_id", "instance_id", "_last.*")
    )


def _record(order: tuple[str, ...], columns: list[str], condition: Column | None = None) -> Column:
    """Return these columns as a struct that is the greater, the later it is by an order."""
    names = [*order, *(name for name in columns if name not in order)]
    record = F.struct(*names)
    return record if condition is None else F.when(condition, record)
