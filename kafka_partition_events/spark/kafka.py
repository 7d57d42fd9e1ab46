"""Reading Kafka topics in batch through Spark's own connector."""

from collections.abc import Iterable, Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from kafka_partition_events.spark.errors import SparkJobError


def read_topics(
    spark: SparkSession, bootstrap: str, topics: Iterable[str], options: Mapping[str, str] | None = None
) -> DataFrame:
    """Return the topics' records from the beginning to the end as of now; nothing is read yet.

    Args:
        spark: A session with the connector's jars.
        bootstrap: The brokers, ``host:port,host:port``.
        topics: The topics, at least one. All of their partitions must be online when they are read.
        options: More options of Kafka's Java consumer by its own names (``security.protocol``).

    Raises:
        SparkJobError: the session lacks the connector.
    """
    reader = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        # What is gone by retention is gone: a report on the rest is better than none.
        .option("failOnDataLoss", "false")
    )
    for key, value in (options or {}).items():
        reader = reader.option(f"kafka.{key}", value)
    try:
        return reader.load()
    except AnalysisException as error:
        raise SparkJobError(
            f"Spark's Kafka connector is not on the class path (spark.jars, or --packages): {error}"
        ) from error
