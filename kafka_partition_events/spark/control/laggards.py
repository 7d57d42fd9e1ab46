"""Who has not followed a change."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.control.inputs import ChangeInputs, day_of_change

MOST: Final = 1_000
"""How many instances of a change are listed."""


def change_laggards(inputs: ChangeInputs) -> DataFrame:
    """Return the producers of each change that are not there, or were not when it was finished.

    First those that it waits for, then those that came late, then the departed; at most `MOST` of a change.

    Columns: ``cluster_id, change_id, rank, instance_id, status`` (null: nothing heard), ``reason``, ``seen,
    used`` (partitions of the topic), ``lease_age_s, departed, late, duplicate, client, app, app_version``,
    ``day`` (of the request).
    """
    first = Window.partitionBy("change_id").orderBy("departed", "late", "instance_id")
    of_change = inputs.changes.select(
        "change_id", F.col("spec.cluster_id").alias("cluster_id"), day_of_change()
    )
    return (
        inputs.followers.where("NOT coalesce(followed, false)")
        .withColumn("rank", F.row_number().over(first))
        .where(F.col("rank") <= MOST)
        .join(F.broadcast(of_change), "change_id")
        .select(
            "cluster_id",
            "change_id",
            "rank",
            "instance_id",
            "status",
            "reason",
            "seen",
            "used",
            (F.col("lease_age_ms") / 1_000).alias("lease_age_s"),
            "departed",
            "late",
            "duplicate",
            "client",
            "app",
            "app_version",
            "day",
        )
    )
