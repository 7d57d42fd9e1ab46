"""How each change went, in one row, as the tracker has written it: the last record of a change decides.

By the order of `control.protocol.ledger`, so it does not matter in which order records come, or how often.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.spark.control.records import TOTALS
from kafka_partition_events.spark.gold.intervals import day_of

CONVERGENCE: Final = "gold/change_convergence"

_ORDER: Final = ("tracker_epoch", "revision", "digest")


def change_convergence(records: DataFrame) -> DataFrame:
    """Return one row per change, of all rows of ``silver/changes``.

    What was asked for and became of it: ``cluster_id, change_id, topic, from_count, to_count, requested_by,
    state, final, retired, opened_by, detail, requested_at, observed_at, gate_opened_at, deadline_at,
    finished_at, overdue_s`` (by how much it passed its deadline), ``day`` of the request.

    As the tracker counted last: producers (``applied, capped, held, pending, unarmed``),
    ``groups_required``, ``groups_covered``, ``unverified``: how many reasons there are why the numbers may
    not be complete.

    ``retired`` says whether a tombstone followed; a change of which there is nothing but that is left out. A
    gate has opened when the first record was appended that says so; null if the first of all did.
    """
    deadline_ms = F.col("observed_ms") + (F.col("spec.deadline_s") * 1_000).cast("bigint")
    passed = F.coalesce("finished_ms", F.col("until_ms")) - F.col("deadline_ms")
    groups = F.coalesce(F.col("groups"), F.array().cast("array<struct<group: string, followed: boolean>>"))
    return (
        _last_known(records.where("defect IS NULL"))
        .withColumn("deadline_ms", deadline_ms)
        .withColumn("groups", groups)
        .select(
            "change_id",
            *(
                F.col(f"spec.{name}").alias(name)
                for name in ("cluster_id", "topic", "from_count", "to_count")
            ),
            *("requested_by", "state", "retired", "opened_by", "detail"),
            _has_one_of("state", (state for state in State if state.final)).alias("final"),
            *(
                F.timestamp_millis(f"{name}_ms").alias(f"{name}_at")
                for name in ("requested", "observed", "gate_opened", "deadline", "finished")
            ),
            (F.greatest(F.lit(0), passed) / 1_000).alias("overdue_s"),
            *(F.col(f"totals.{name}").alias(name) for name in TOTALS),
            F.size("groups").alias("groups_required"),
            F.size(F.filter("groups", lambda one: one["followed"])).alias("groups_covered"),
            F.coalesce(F.size("unverified"), F.lit(0)).alias("unverified"),
            day_of(F.col("requested_ms") * 1000).alias("day"),
        )
    )


def _last_known(records: DataFrame) -> DataFrame:
    """Return the last record of each change, with when its gate opened and the last record of all came."""
    others = [name for name in records.columns if name not in {"change_id", "tombstone", *_ORDER}]
    is_open = F.col("opened_by").isNotNull()
    opened, held = F.min(F.when(is_open, F.col("at_ms"))), F.min(F.when(~is_open, F.col("at_ms")))
    until = records.agg(F.max("at_ms").alias("until_ms"))
    return (
        records.groupBy("change_id")
        .agg(
            F.max(F.when(F.expr("NOT tombstone"), F.struct(*_ORDER, *others))).alias("_last"),
            F.max("tombstone").alias("retired"),
            F.when(held <= opened, opened).alias("gate_opened_ms"),
        )
        .where("_last IS NOT NULL")
        .select("change_id", "retired", "gate_opened_ms", "_last.*")
        .crossJoin(F.broadcast(until))
    )


def _has_one_of(name: str, words: Iterable[str]) -> Column:
    """Return whether a column has one of these words; false where it has none."""
    return F.coalesce(F.col(name).isin(*words), F.lit(False))
