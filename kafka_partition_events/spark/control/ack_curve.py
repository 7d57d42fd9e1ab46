"""How a change spread: how many producers had answered, every ten seconds."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.control.protocol.vocabulary import Role, Status
from kafka_partition_events.spark.control.followers import SETTLED, ChangeInputs, day_of_change, has_one_of

BUCKET_MS: Final = 10_000

_COUNTED: Final = {
    "acked": SETTLED,
    "applied": (Status.APPLIED,),
    "capped": (Status.CAPPED,),
    "rejected": (Status.REJECTED,),
}


def change_ack_curve(inputs: ChangeInputs) -> DataFrame:
    """Return, for each change and ten seconds in which a number changed, the numbers at the end of these.

    Columns: ``cluster_id, change_id, bucket`` (when the ten seconds begin), ``seconds`` (from ``observed_at``
    to their end), ``acked`` (have said what they will do: ``applied, capped, rejected``, failed or rolled
    back), ``applied, capped, rejected``, ``day`` (of the request).
    """
    step = F.col("at_ms") - F.pmod(F.col("at_ms"), F.lit(BUCKET_MS))
    so_far = Window.partitionBy("change_id").orderBy("_step")
    of_change = inputs.changes.select(
        "change_id", F.col("spec.cluster_id").alias("cluster_id"), "observed_ms", day_of_change()
    )
    gained = {name: F.sum(f"_{name}").alias(f"_{name}") for name in _COUNTED}
    return (
        _turns(inputs.acks)
        .withColumn("_step", step)
        .groupBy("change_id", "_step")
        .agg(*gained.values())
        .where(" OR ".join(f"_{name} != 0" for name in _COUNTED))
        .withColumns({name: F.sum(f"_{name}").over(so_far) for name in _COUNTED})
        .join(F.broadcast(of_change), "change_id")
        .select(
            "cluster_id",
            "change_id",
            F.timestamp_millis("_step").alias("bucket"),
            ((F.col("_step") + BUCKET_MS - F.col("observed_ms")) / 1_000).alias("seconds"),
            *_COUNTED,
            "day",
        )
    )


def _turns(acks: DataFrame) -> DataFrame:
    """Return by how much each ack changes each of the numbers: 1, 0 or -1.

    What an instance says at a moment is the last one, by the order of answers, of all that came until then.
    """
    by_instance = Window.partitionBy("change_id", "instance_id").orderBy("at_ms", "_ack")
    until_now = by_instance.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    order = F.struct("born_ms", "incarnation", "ack_seq", "at_ms", "digest", "status")
    said = (
        acks.where(F.col("role") == Role.PRODUCER)
        .withColumn("_ack", order)
        .withColumn("_said", F.max("_ack").over(until_now)["status"])
    )
    before = F.lag("_said").over(by_instance)
    counted = {
        f"_{name}": has_one_of("_said", words).cast("bigint")
        - F.coalesce(before.isin(*words), F.lit(False)).cast("bigint")
        for name, words in _COUNTED.items()
    }
    return said.select("change_id", "at_ms", *(column.alias(name) for name, column in counted.items()))
