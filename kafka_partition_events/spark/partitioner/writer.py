"""Rows to Kafka through Spark's own sink, each to a partition that was chosen for it."""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from attrs import field, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.errors import ConfigurationError, PartitionOfflineError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.spark.errors import UnknownPartitionError
from kafka_partition_events.spark.partitioner.backends import backend_of
from kafka_partition_events.spark.partitioner.column import (
    OFFLINE_MARK,
    PARTITION,
    UNKNOWN_MARK,
    Placing,
    key_column,
    row_hash,
    topics_of,
)
from kafka_partition_events.spark.partitioner.jvm_function import BackendName, is_connect
from kafka_partition_events.spark.partitioner.policy import PartitionPolicy, Target, targets_of
from kafka_partition_events.spark.partitioner.snapshot import ClusterSource, Snapshot, take_snapshot
from kafka_partition_events.spark.raised import SPARK_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = get_logger(__name__)

QUERY_HEADER: Final = "kpe-query"
BATCH_HEADER: Final = "kpe-batch"
PARTITION_HEADER: Final = "kpe-partition"
ROW_HEADER: Final = "kpe-row"

_HEADERS: Final = "headers"
_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
_SOURCE_COLUMNS: Final = frozenset({PARTITION, "offset", "timestampType"})
_RAISED: Final = re.compile(rf"({UNKNOWN_MARK}|{OFFLINE_MARK})(.*?)(?= SQLSTATE|\n|$)")


@frozen(kw_only=True)
class Written:
    """How a batch was written.

    Attributes:
        query: What the header ``kpe-query`` says.
        batch: What the header ``kpe-batch`` says.
        backend: How keys were hashed; None if there were none.
        cluster: The snapshot that decided.
        offline: Partitions without a leader, by topic; topics without any are left out.
        avoided: Partitions that rows without a key were kept from because their broker, which leads them
            according to the metadata, did not accept a connection.
    """

    query: str
    batch: str
    backend: BackendName | None
    cluster: Cluster = field(repr=False)
    offline: Mapping[str, Sequence[int]]
    avoided: Mapping[str, Sequence[int]]


def write_to_kafka(
    df: DataFrame,
    *,
    topic: str | Column,
    cluster: ClusterSource,
    key: str | Column | None = "key",
    policy: PartitionPolicy | None = None,
    topics: Iterable[str] | None = None,
    bootstrap: str | None = None,
    options: Mapping[str, str] | None = None,
    query: str | None = None,
    batch: int | str | None = None,
    row_id: Sequence[str] = (),
    headers: bool = True,
    backend: BackendName | None = None,
) -> Written:
    """Write a batch of rows by Spark's Kafka sink, each to its partition; return when Kafka has them all.

    For batch jobs, and for each batch of a stream::

        stream.writeStream.foreachBatch(
            lambda rows, batch: write_to_kafka(rows, topic="orders", cluster=servers, batch=batch)
        )

    The cluster is looked at once, so all tasks and their retries place a row alike; the next batch looks
    anew. **At least once**: a task that is retried, or a batch that is repeated, writes rows a second time.
    Both records of a row then carry equal headers, for whoever must tell: ``kpe-query``, ``kpe-batch``,
    ``kpe-partition`` (of the frame, not Kafka's) and ``kpe-row``, all text. A repeated batch has equal ones
    if its rows are equal and split as before. Rows that are equal to one another have equal ones too, unless
    ``row_id`` tells them apart.

    A row with a key whose partition is offline waits for it, by default, for the sink's
    ``delivery.timeout.ms`` (120 s); then the job fails, as it does with Spark's sink alone.

    Args:
        df: The rows: ``value`` (STRING or BINARY), and what else the sink takes: keys, ``headers``,
            ``partition``. Where ``partition`` is not null it is kept, if the cluster knows it; the cap is for
            rows without.
        topic: The topic's name, or a column with each row's.
        cluster: Where metadata comes from; see `ClusterSource`.
        key: The column that holds the keys; None if no row has one; see `with_partition`.
        policy: What to do about partitions that are offline or beyond a cap.
        topics: The topics that a topic column may name; by default all that the snapshot has.
        bootstrap: The brokers for the sink; by default those that ``cluster`` names, or lists.
        options: More options of the Java producer by its own names (``security.protocol``).
        query: What the job is called in the headers. Give a name that stays, so that a run that is repeated
            repeats it; by default the streaming query's id where Spark tells it, else a new one.
        batch: The batch's id, as `foreachBatch` gives it; by default what Spark tells, or 0.
        row_id: Columns that tell a row from the others, for instance its source's topic, partition and
            offset; by default all that can be hashed.
        headers: Whether to add the headers.
        backend: How to hash keys; by default the fastest way that works.

    Raises:
        ConfigurationError: an argument does not fit, or the rows are those of a stream.
        UnknownPartitionError: a row names a topic or partition that the cluster does not know. No row is
            sent there, but others may have been written.
        PartitionOfflineError: with the policy ``"raise"``, a row's partition is offline.
        KeyHashError: keys can't be hashed rightly in this session.
        MetadataFetchError: no broker answers.
        PySparkException: Spark could not write.
    """
    policy = policy or PartitionPolicy()
    own = _brings_partitions(df)
    if key is None and "key" in df.columns:
        raise ConfigurationError(
            'the rows have a column key, which Spark\'s sink writes: drop it, or say key="key"'
        )
    named = topics_of(topic, topics)
    snapshot = take_snapshot(cluster, named, reach=policy.reach)
    targets = targets_of(snapshot.cluster, policy, named, snapshot.unreachable)
    session = df.sparkSession
    hashing = None if key is None else backend_of(session, backend)
    query = query or _told(session, "sql.streaming.queryId") or uuid.uuid4().hex
    batch_id = str(batch if batch is not None else _told(session, "streaming.sql.batchId") or 0)
    placing = Placing(
        key=key,
        topic=topic,
        targets=targets,
        policy=policy,
        backend=hashing,
        batch=batch_id,
        row_id=tuple(row_id),
        own=own,
    )
    written = Written(
        query=query,
        batch=batch_id,
        backend=None if hashing is None else hashing.name,
        cluster=snapshot.cluster,
        offline={target.topic: target.offline for target in targets.values() if target.offline},
        avoided={target.topic: target.avoided for target in targets.values() if target.avoided},
    )
    _tell(written, targets)
    rows = placing.apply(df)
    if headers:
        rows = _with_headers(rows, df, query, batch_id, row_id)
    # Spark's sink takes its columns by name, and leaves others alone.
    if key is not None and not (isinstance(key, str) and key == "key"):
        rows = rows.withColumn("key", key_column(df, key))
    sink = {f"kafka.{name}": str(value) for name, value in (options or {}).items()}
    sink["kafka.bootstrap.servers"] = bootstrap or _addresses(cluster, snapshot)
    if isinstance(topic, str):
        sink["topic"] = topic
    else:
        rows = rows.withColumn("topic", topic)
    _save(rows, sink)
    return written


def _save(rows: DataFrame, sink: Mapping[str, str]) -> None:
    try:
        rows.write.format("kafka").options(**sink).save()
    except SPARK_ERRORS as error:
        raised = _RAISED.search(str(error))
        if raised is None:
            raise
        kind = PartitionOfflineError if raised[1] == OFFLINE_MARK else UnknownPartitionError
        raise kind(raised[2]) from error


def _brings_partitions(df: DataFrame) -> bool:
    """Tell whether the rows have a column ``partition``.

    Raises:
        ConfigurationError: it says where the rows were read; or they are no batch.
    """
    if df.isStreaming:
        raise ConfigurationError(
            "these are the rows of a stream; write its batches, in writeStream.foreachBatch(...)"
        )
    names = frozenset(df.columns)
    if names >= _SOURCE_COLUMNS:
        raise ConfigurationError(
            "the column partition is that of Spark's Kafka source: it says where the rows were read, not "
            "where they shall go. Drop or rename it (or, if it is meant, drop offset)"
        )
    return PARTITION in names


def _told(session: "SparkSession", name: str) -> str | None:
    """Return what Spark tells the thread that runs a stream's batch; None elsewhere and in Connect."""
    if is_connect(session):
        return None
    return session.sparkContext.getLocalProperty(name)


def _tell(written: Written, targets: Mapping[str, Target]) -> None:
    if written.offline or written.avoided:
        _log.warning(
            "kafka_partitions_not_available",
            query=written.query,
            batch=written.batch,
            offline=dict(written.offline),
            avoided=dict(written.avoided),
            usable={name: len(targets[name].usable) for name in (*written.offline, *written.avoided)},
        )


def _addresses(source: ClusterSource, snapshot: Snapshot) -> str:
    """Return the brokers' addresses for the sink.

    Raises:
        ConfigurationError: neither the settings nor the snapshot has any.
    """
    if isinstance(source, str):
        return source
    if isinstance(source, Mapping):
        for name in ("bootstrap.servers", "metadata.broker.list"):
            if name in source:
                return str(source[name])
    brokers = [f"{node.host}:{node.port}" for node in snapshot.cluster.nodes.values()]
    if not brokers:
        raise ConfigurationError("the snapshot lists no broker; give bootstrap, host:port,host:port")
    return ",".join(brokers)


def _with_headers(rows: DataFrame, df: DataFrame, query: str, batch: str, row_id: Sequence[str]) -> DataFrame:
    texts = {
        QUERY_HEADER: F.lit(query),
        BATCH_HEADER: F.lit(batch),
        PARTITION_HEADER: F.spark_partition_id().cast("string"),
        ROW_HEADER: F.hex(row_hash(df, row_id)),
    }
    ours = F.array(
        *(
            F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))
            for name, text in texts.items()
        )
    ).cast(_HEADERS_TYPE)
    if _HEADERS in df.columns:
        theirs = F.coalesce(F.col(_HEADERS), F.array().cast(_HEADERS_TYPE))
        ours = F.concat(theirs, ours)
    return rows.withColumn(_HEADERS, ours)
