"""How often leadership moved, by broker."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.fleet.days import Period
from kafka_partition_events.spark.fleet.inputs import Inputs
from kafka_partition_events.spark.fleet.intervals import SECOND_US, during, parts_of, step_of, time_of

STEP_US: Final = 300 * SECOND_US


def leader_churn(inputs: Inputs, period: Period) -> DataFrame:
    """Return how many partitions each broker lost and took over, in windows of five minutes.

    Only ``leadership.moved`` counts: a partition that goes offline is an outage, not a move. A move lies in
    the window of its upper bound.

    Columns: ``cluster_id, broker, window_start, moves_from`` (partitions that it led before), ``moves_to``
    (that it leads since), ``reelections`` (it was elected again, in a new epoch; not a move), ``day``,
    ``hour_of_day``. A broker without any has no row.
    """
    moves = (
        inputs.events.where("name = 'leadership.moved'")
        .where(during(F.col("at"), period))
        .select(
            "cluster_id",
            step_of(F.unix_micros("at"), STEP_US).alias("step"),
            F.col("leader_before").alias("from"),
            F.col("leader_after").alias("to"),
        )
    )
    same = F.coalesce(F.col("from") == F.col("to"), F.lit(False))
    never = F.lit(False)
    sides = F.array(_side("from", ~same, never, same), _side("to", never, ~same, never))
    return (
        moves.select("cluster_id", "step", F.inline(sides))
        .where("broker IS NOT NULL")
        .groupBy("cluster_id", "broker", "step")
        .agg(*(F.sum(name).alias(name) for name in ("moves_from", "moves_to", "reelections")))
        .where("moves_from + moves_to + reelections > 0")
        .select(
            "cluster_id",
            "broker",
            time_of(F.col("step")).alias("window_start"),
            "moves_from",
            "moves_to",
            "reelections",
            *parts_of(F.col("step")),
        )
    )


def _side(broker: str, moved_from: Column, moved_to: Column, reelected: Column) -> Column:
    counts = {"moves_from": moved_from, "moves_to": moved_to, "reelections": reelected}
    return F.struct(
        F.col(broker).alias("broker"),
        *(told.cast("bigint").alias(name) for name, told in counts.items()),
    )
