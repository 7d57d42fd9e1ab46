"""What became of producers' records, from the counters that they publish."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.fleet.days import Period
from kafka_partition_events.spark.fleet.inputs import Inputs
from kafka_partition_events.spark.fleet.intervals import HOUR_US, during, parts_of, step_of, time_of

COUNTS: Final = ("sent", "rerouted", "avoided", "capped", "rescued")

_BODY: Final = f"""
    client STRING, topics ARRAY<STRUCT<topic: STRING, {", ".join(f"{name}: BIGINT" for name in COUNTS)}>>
"""


def reroutes(inputs: Inputs, period: Period) -> DataFrame:
    """Return by the hour what producers counted.

    Columns: ``cluster_id, topic, client, hour`` (in which it was told), ``sent, rerouted, avoided,
    capped, rescued``, ``day, hour_of_day``. Empty where no producer publishes its counters.
    """
    told = (
        inputs.events.where("name = 'producer.counters' AND body IS NOT NULL")
        .where(during(F.col("at"), period))
        .select(
            "cluster_id",
            step_of(F.unix_micros("at"), HOUR_US).alias("step"),
            F.from_json("body", _BODY).alias("told"),
        )
    )
    return (
        told.select("cluster_id", "step", F.col("told.client").alias("client"), F.inline("told.topics"))
        .groupBy("cluster_id", "topic", "client", "step")
        .agg(*(F.coalesce(F.sum(name), F.lit(0).cast("bigint")).alias(name) for name in COUNTS))
        .select(
            "cluster_id",
            "topic",
            "client",
            time_of(F.col("step")).alias("hour"),
            *COUNTS,
            *parts_of(F.col("step")),
        )
    )
