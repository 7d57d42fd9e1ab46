"""Reading a Kafka topic through Spark's own connector, in batch and as a stream, and what can go wrong."""

from collections.abc import Mapping
from typing import Any, Final

import pyspark
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

try:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
except ImportError:  # there is no JVM beside a client of Spark Connect
    Py4JJavaError = PySparkException

from kafka_partition_events.json_text import json_in
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.spark.errors import SparkJobError

CONNECTOR: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
"""The connector's address, for ``spark-submit --packages``."""
DELTA: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
"""Delta's, for this PySpark."""

_CURES: Final = {
    ("UnknownTopicOrPartition", "Partitions of topics"): "does the topic exist? Observers write kpe.events",
    ("SaslAuthentication", "SslAuthentication", "SSL handshake", "TopicAuthorization"): (
        "are these the right login and rights?"
    ),
    ("TimeoutException", "Timed out", "bootstrap urls"): (
        "is this the brokers' address, and are all partitions of the topic online?"
    ),
}
"""By what Spark says, the first that fits."""

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""Whatever PySpark raises itself, and what comes through from the JVM as it is."""

Offsets = Mapping[TopicPartition, int]


def read_topic(
    reader: DataFrameReader | DataStreamReader,
    bootstrap: str,
    topic: str,
    options: Mapping[str, str] | None = None,
    *,
    max_per_batch: int | None = None,
) -> DataFrame:
    """Return a topic's records from the beginning, to the end as of now or as a stream; none is read yet.

    Args:
        reader: ``read`` or ``readStream`` of a session with the connector's jars.
        bootstrap: The brokers, ``host:port,host:port``.
        topic: The topic. All of its partitions must be online when it is read.
        options: More options of Kafka's Java consumer by its own names (``security.protocol``).
        max_per_batch: How many records a batch of a stream holds at the most.

    Raises:
        SparkJobError: the session lacks the connector.
    """
    settings = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        # What is gone by retention is gone: a report on the rest is better than none.
        "failOnDataLoss": "false",
        **{f"kafka.{key}": value for key, value in (options or {}).items()},
        **({} if max_per_batch is None else {"maxOffsetsPerTrigger": str(max_per_batch)}),
    }
    try:
        return reader.format("kafka").options(**settings).load()
    except AnalysisException as error:
        raise SparkJobError(
            "Spark's Kafka connector is not on the class path; run it by: "
            f"spark-submit --packages {CONNECTOR} ... (the whole line is in docs/fleet.md), or "
            f"name the jars by --jars. {cause_of(error)}"
        ) from error


def explained(error: Exception, topic: str, bootstrap: str) -> SparkJobError:
    """Return the cause and the cure of what Spark said about a topic."""
    said = cause_of(error)
    fitting = (cure for words, cure in _CURES.items() if any(word in said for word in words))
    cure = next(fitting, "does the topic exist, are its partitions online, and is there room to write?")
    return SparkJobError(f"Spark failed while it read {topic} at {bootstrap}; {cure} ({said})")


def cause_of(error: Exception) -> str:
    """Return what an exception of Spark's says, without the JVM's stack and the query's plan."""
    said = str(error).partition("\n\tat ")[0].partition("=== Streaming Query ===")[0].strip()
    return said.rpartition("ExecutionException: ")[2].replace("\n: ", ": ")


def topic_ids(spark: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str]) -> tuple[str, str]:
    """Return the ids of the cluster and of a topic. By Kafka's own client, which has the same options."""
    jvm: Any = spark._jvm  # noqa: SLF001 - the connector's jars are there
    properties = jvm.java.util.Properties()
    for name, value in {**options, "bootstrap.servers": bootstrap}.items():
        properties.setProperty(name, value)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        cluster = admin.describeCluster().clusterId().get()
        described = admin.describeTopics([topic]).allTopicNames().get()
        return str(cluster), str(described[topic].topicId().toString())
    finally:
        admin.close()


# -- offsets, as Spark writes them down --------------------------------------------------------------------


def offsets_in(text: str | None) -> Offsets:
    """Return the offsets that Kafka's source reports, ``{"orders": {"0": 12}}``; none of anything else."""
    try:
        topics = json_in(text or "null")
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in (topics or {}).items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError, OverflowError):
        return {}


def count_between(begin: Offsets, end: Offsets) -> int:
    """Return how many offsets lie between; a partition that has no begin is new, and begins at 0."""
    return sum(max(0, offset - begin.get(tp, 0)) for tp, offset in end.items())
