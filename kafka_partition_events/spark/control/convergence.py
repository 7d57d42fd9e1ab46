"""How each change went, in one row, as the tracker has written it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.spark.control.latest import day_of_change, has_one_of
from kafka_partition_events.spark.control.records import TOTALS


def change_convergence(changes: DataFrame, until_ms: int) -> DataFrame:
    """Return one row per change.

    What was asked for and became of it: ``cluster_id, change_id, topic, from_count, to_count, requested_by,
    state, final, retired, opened_by, detail, requested_at, observed_at, gate_opened_at, deadline_at,
    finished_at, overdue_s`` (by how much it passed its deadline), ``day`` of the request.

    As the tracker counted last: producers (``applied, capped, held, pending, unarmed``),
    ``groups_required``, ``groups_covered``, ``unverified``: how many reasons there are why the numbers may
    not be complete.

    Args:
        changes: As `last_known` returns them.
        until_ms: When the last record of all was appended.
    """
    deadline_ms = F.col("observed_ms") + (F.col("spec.deadline_s") * 1_000).cast("bigint")
    passed = F.coalesce("finished_ms", F.lit(until_ms)) - F.col("deadline_ms")
    groups = F.coalesce(F.col("groups"), F.array().cast("array<struct<group: string, followed: boolean>>"))
    return (
        changes.withColumn("deadline_ms", deadline_ms)
        .withColumn("groups", groups)
        .select(
            "change_id",
            *(
                F.col(f"spec.{name}").alias(name)
                for name in ("cluster_id", "topic", "from_count", "to_count")
            ),
            *("requested_by", "state", "retired", "opened_by", "detail"),
            has_one_of("state", (state for state in State if state.final)).alias("final"),
            *(
                F.timestamp_millis(f"{name}_ms").alias(f"{name}_at")
                for name in ("requested", "observed", "gate_opened", "deadline", "finished")
            ),
            (F.greatest(F.lit(0), passed) / 1_000).alias("overdue_s"),
            *(F.col(f"totals.{name}").alias(name) for name in TOTALS),
            F.size("groups").alias("groups_required"),
            F.size(F.filter("groups", lambda one: one["followed"])).alias("groups_covered"),
            F.coalesce(F.size("unverified"), F.lit(0)).alias("unverified"),
            day_of_change(),
        )
    )
