"""Rows to Kafka through Spark's own sink, each to a partition that was chosen for it."""

from collections.abc import Mapping, Sequence

from attrs import field, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.partitioner.column import KEY, PARTITION, Placing, with_key
from kafka_partition_events.spark.partitioner.snapshot import ClusterSource, settings_of

_log = get_logger(__name__)


@frozen(kw_only=True)
class Written:
    """How a batch was written.

    Attributes:
        hash_name: How keys were hashed.
        cluster: The snapshot that decided.
        offline: Partitions without a leader.
        avoided: Partitions that rows without a key were kept from because their broker, which leads them
            according to the metadata, did not accept a connection.
    """

    hash_name: HashName
    cluster: Cluster = field(repr=False)
    offline: Sequence[int]
    avoided: Sequence[int]


def write_to_kafka(
    df: DataFrame,
    *,
    topic: str,
    cluster: ClusterSource,
    key: str | Column | None = "key",
    hash_name: HashName | None = None,
    key_partitions: int | None = None,
    bootstrap: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Written:
    """Write a batch of rows by Spark's Kafka sink, each to its partition; return when Kafka has them all.

    For batch jobs, and for each batch of a stream::

        stream.writeStream.foreachBatch(
            lambda rows, _: write_to_kafka(rows, topic="orders", cluster=servers)
        )

    The topic's metadata are read once, for all tasks and their retries; the next batch reads them again. **At
    least once**: a task that is retried, or a batch that is repeated, writes rows a second time.

    A row with a key whose partition is offline waits for it for the sink's ``delivery.timeout.ms`` (120 s);
    then the job fails, as it does with Spark's sink alone.

    Args:
        df: The rows: ``value`` (STRING or BINARY), and what else the sink takes: keys, ``headers``.
            Not ``partition``: what has one needs nothing but the sink.
        topic: The topic's name.
        cluster: Where metadata comes from; see `ClusterSource`.
        key: The column that holds the keys, or an expression, which is computed once; None if no row has one.
        hash_name: By which hash other writers of the topic place keys; see `with_partition`.
        key_partitions: Over how many partitions that is taken.
        bootstrap: The brokers for the sink; by default those that ``cluster`` names, or lists.
        options: More options of the Java producer by its own names (``security.protocol``).

    Raises:
        ConfigurationError: an argument does not fit, the rows are those of a stream, or keys lie elsewhere.
        UnknownPartitionError: the cluster has no such topic.
        MetadataFetchError: no broker answers.
        PySparkException: Spark could not write.
    """
    if df.isStreaming:
        raise ConfigurationError(
            "these are the rows of a stream; write its batches, in writeStream.foreachBatch(...)"
        )
    if PARTITION in df.columns:
        raise ConfigurationError(
            "the rows have a column partition: drop it (Spark's Kafka source says by it where rows were "
            'read), or, if that is where they shall go, write them by format("kafka") alone'
        )
    if key is None and "key" in df.columns:
        raise ConfigurationError(
            'the rows have a column key, which Spark\'s sink writes: drop it, or say key="key"'
        )
    placing = Placing.of(cluster, topic, hash_name, key_partitions, compared=key is not None)
    target = placing.target
    if target.offline or target.avoided:
        _log.warning(
            "kafka_partitions_not_available",
            topic=topic,
            offline=target.offline,
            avoided=target.avoided,
            usable=len(target.usable),
        )
    named, keyed = with_key(df, key)
    rows = placing.apply(named, keyed)
    # Spark's sink takes its columns by name, and leaves others alone.
    if keyed is not None:
        rows = rows.withColumn("key", F.col(KEY))
    sink = {f"kafka.{name}": str(value) for name, value in (options or {}).items()}
    sink["kafka.bootstrap.servers"] = bootstrap or _addresses(cluster, target.cluster)
    rows.write.format("kafka").options(**sink, topic=topic).save()
    return Written(
        hash_name=placing.hash_name, cluster=target.cluster, offline=target.offline, avoided=target.avoided
    )


def _addresses(source: ClusterSource, cluster: Cluster) -> str:
    """Return the brokers' addresses for the sink.

    Raises:
        ConfigurationError: neither the settings nor the snapshot has any.
    """
    config = settings_of(source) or {}
    for name in ("bootstrap.servers", "metadata.broker.list"):
        if name in config:
            return str(config[name])
    brokers = [f"{node.host}:{node.port}" for node in cluster.nodes.values()]
    if not brokers:
        raise ConfigurationError("the snapshot lists no broker; give bootstrap, host:port,host:port")
    return ",".join(brokers)
