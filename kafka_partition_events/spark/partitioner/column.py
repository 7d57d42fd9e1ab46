"""The column ``partition``, computed from the topic's metadata."""

from collections.abc import Iterable
from typing import Final

from attrs import frozen
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, StringType

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.partitioner.compared import compare
from kafka_partition_events.spark.partitioner.hashes import key_number
from kafka_partition_events.spark.partitioner.snapshot import ClusterSource, TopicTarget, examine, settings_of

PARTITION: Final = "partition"

KEY: Final = "_kpe_key"
"""What the column of keys is called on the way."""


def with_partition(
    df: DataFrame,
    key: str | Column | None = "key",
    *,
    topic: str,
    cluster: ClusterSource,
    hash_name: HashName | None = None,
    key_partitions: int | None = None,
) -> DataFrame:
    """Return the rows with an INT column ``partition``, as Spark's Kafka sink takes it.

    A row with a key gets the partition that the topic's other writers choose. A row without one gets
    any of those that are online. The topic's metadata are read once, now: in a
    stream call this (or `write_to_kafka`) for each batch, in `foreachBatch`.

    Args:
        df: The rows. A column ``partition`` that they have is replaced.
        key: The column that holds the keys, STRING (its UTF-8 counts) or BINARY; null is no key. None: no row
            has a key. An expression such as ``uuid()`` must be a column first, so that the record's key is
            the one that was placed.
        topic: The topic's name.
        cluster: Where metadata comes from; see `ClusterSource`.
        hash_name: The hash by which the topic's other writers place keys: ``"murmur2"`` of the Java client,
            ``"crc32"`` of librdkafka, to which an empty key is none. By default murmur2, and the topic's
            newest keyed records are compared once, where the cluster can be asked.
        key_partitions: Over how many partitions the hash is taken; by default all.

    Raises:
        ConfigurationError: an argument does not fit, or keys lie elsewhere; the message says what to set.
        UnknownPartitionError: the cluster has no such topic.
        MetadataFetchError: no broker answers.
    """
    placing = Placing.of(cluster, topic, hash_name, key_partitions, compared=key is not None)
    named, keyed = with_key(df, key)
    return placing.apply(named, keyed).drop(KEY)


@frozen(kw_only=True, eq=False)
class Placing:
    """Adds the column ``partition``.

    Attributes:
        target: What is known of the topic.
        hash_name: How keys are hashed.
        key_partitions: Over how many partitions.
    """

    target: TopicTarget
    hash_name: HashName
    key_partitions: int

    @classmethod
    def of(
        cls,
        cluster: ClusterSource,
        topic: str,
        hash_name: HashName | None,
        key_partitions: int | None,
        *,
        compared: bool,
    ) -> "Placing":
        """Read the topic's metadata, and compare its keys where no hash is named."""
        if not topic:
            raise ConfigurationError("topic must not be empty")
        if hash_name not in {None, "murmur2", "crc32"}:
            raise ConfigurationError(f"hash_name must be murmur2 or crc32, not {hash_name!r}")
        target = examine(cluster, topic)
        count = target.count if key_partitions is None else key_partitions
        if not 1 <= count <= target.count:
            raise ConfigurationError(
                f"key_partitions must be 1 to {target.count}, as {topic} has, not {count}"
            )
        name = hash_name or "murmur2"
        config = settings_of(cluster)
        if compared and hash_name is None and config is not None:
            compare(config, target.cluster.cluster_id, topic, name, count)
        return cls(target=target, hash_name=name, key_partitions=count)

    def apply(self, df: DataFrame, key: Column | None) -> DataFrame:
        """Return the rows with their partitions, by their keys, BINARY; None: none has any."""
        usable = self.target.usable
        anywhere = F.get(_ids(usable), F.floor(F.rand() * len(usable)).cast("int"))
        home: Column = F.lit(None).cast("int")
        if key is not None:
            number = key_number(df.sparkSession, key, self.hash_name)
            home = (number % self.key_partitions).cast("int")
        return df.withColumn(PARTITION, F.coalesce(home, anywhere))


def _ids(values: Iterable[int]) -> Column:
    """Return a constant array made of one literal: making thousands of them takes seconds."""
    return F.split(F.lit(",".join(map(str, values))), ",").cast("array<int>")


# -- what the frame brings -------------------------------------------------------------------------------


def key_column(df: DataFrame, key: str | Column) -> Column:
    """Return the column that holds the keys.

    Raises:
        ConfigurationError: the rows have none of that name.
    """
    if not isinstance(key, str):
        return key
    if key in df.columns:
        return F.col(_quoted(key))
    # Checked here, because to Spark a name that is no column may be a function: "user", for instance.
    if key.partition(".")[0] in df.columns:
        return F.col(key)
    raise ConfigurationError(_no_column(key))


def with_key(df: DataFrame, key: str | Column | None) -> tuple[DataFrame, Column | None]:
    """Return the rows with a column of their keys, and that as BINARY.

    It is a column of its own, so that an expression such as ``uuid()`` is computed once for a row.

    Raises:
        ConfigurationError: there is no such column, or it is neither STRING nor BINARY.
    """
    if key is None:
        return df, None
    try:
        named = df.withColumn(KEY, key_column(df, key))
    except AnalysisException as error:
        raise ConfigurationError(_no_column(key)) from error
    kind = named.schema[KEY].dataType
    if not isinstance(kind, BinaryType | StringType):
        raise ConfigurationError(
            f"a key must be STRING or BINARY, not {kind.simpleString().upper()}: the partition follows from "
            "its bytes, so turn it into those that other producers of the topic write, by cast('string') say"
        )
    return named, F.col(KEY).cast("binary")


def _no_column(key: str | Column) -> str:
    return f"the rows have no column {key!r}; key names the one that holds the keys, None if there is none"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
