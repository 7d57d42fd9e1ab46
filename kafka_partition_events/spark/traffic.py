"""Data records -> how many came per partition before, during and after the outages, and what they carry.

The time of a record is its timestamp: with Kafka's default, when the producer *made* it. A record that waited
for its partition to come back therefore counts for "during".
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

_LABEL_SCHEMA: Final = "producer STRING, number BIGINT, rerouted BOOLEAN, capped BOOLEAN"


def by_phase(records: DataFrame, windows: DataFrame) -> DataFrame:
    """Return ``topic, partition, phase, records, first, last``; the last two are timestamps.

    ``phase`` is *during* while some partition of the topic was (perhaps) offline, *before* when none had
    been so far, *after* at any other time. A topic without an outage of its own is seen by the windows of
    all topics together, so that it can be compared with those that had one.

    Args:
        records: ``topic, partition, timestamp``, as the Kafka connector gives them.
        windows: Those of the records' own cluster (see `kafka_partition_events.spark.outages.windows`).
    """
    return (
        _in_phases(records, windows)
        .groupBy("topic", "partition", "phase")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.min("timestamp").alias("first"),
            F.max("timestamp").alias("last"),
        )
    )


def stored(records: DataFrame) -> DataFrame:
    """Return per topic what it holds: ``topic, records, labelled, numbers, rerouted, capped``.

    The last four come from values that are JSON objects with ``producer, number, rerouted, capped``, as the
    demo's producers write them: ``labelled`` counts these, ``numbers`` the different ones among them.

    Args:
        records: ``topic, value``, as the Kafka connector gives them.
    """
    label = F.from_json(F.col("value").cast("string"), _LABEL_SCHEMA).alias("label")
    labelled = F.col("label.producer").isNotNull() & F.col("label.number").isNotNull()
    return (
        records.select("topic", label)
        .groupBy("topic")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.count_if(labelled).alias("labelled"),
            F.count_distinct(F.when(labelled, F.struct("label.producer", "label.number"))).alias("numbers"),
            F.count_if(F.col("label.rerouted")).alias("rerouted"),
            F.count_if(F.col("label.capped")).alias("capped"),
        )
    )


def _in_phases(records: DataFrame, windows: DataFrame) -> DataFrame:
    spans = F.collect_list(F.struct("start", "end"))
    per_topic = windows.groupBy("topic").agg(spans.alias("_own"))
    everywhere = windows.agg(spans.alias("_all"))
    placed = (
        records.select("topic", "partition", "timestamp")
        .join(F.broadcast(per_topic), "topic", "left")
        .crossJoin(F.broadcast(everywhere))
        .withColumn("_spans", F.coalesce("_own", "_all"))
    )
    during = F.exists(
        "_spans",
        lambda span: (
            (F.col("timestamp") > span["start"])
            & (span["end"].isNull() | (F.col("timestamp") <= span["end"]))
        ),
    )
    first = F.array_min(F.transform("_spans", lambda span: span["start"]))
    phase = F.when(during, "during").when(first.isNull() | (F.col("timestamp") <= first), "before")
    return placed.select("topic", "partition", "timestamp", phase.otherwise("after").alias("phase"))
