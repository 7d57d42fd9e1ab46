"""The column ``partition``, computed from a snapshot of the cluster."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import frozen
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.spark.partitioner.backends import backend_of
from kafka_partition_events.spark.partitioner.jvm_function import Backend, BackendName
from kafka_partition_events.spark.partitioner.policy import PartitionPolicy, Target, targets_of
from kafka_partition_events.spark.partitioner.snapshot import ClusterSource, take_snapshot

PARTITION: Final = "partition"

UNKNOWN_MARK: Final = "kpe/unknown: "
OFFLINE_MARK: Final = "kpe/offline: "
"""What the messages of rows that can't be placed begin with."""

_HOME, _TOPIC, _COUNT, _USABLE, _OFFLINE = (
    f"_kpe_{name}" for name in ("home", "topic", "count", "usable", "offline")
)
_ROUTES_SCHEMA: Final = f"{_TOPIC} STRING, {_COUNT} INT, {_USABLE} ARRAY<INT>, {_OFFLINE} ARRAY<BOOLEAN>"


def with_partition(
    df: DataFrame,
    key: str | Column | None = "key",
    *,
    topic: str | Column,
    cluster: ClusterSource,
    policy: PartitionPolicy | None = None,
    topics: Iterable[str] | None = None,
    batch: int | str = 0,
    row_id: Sequence[str] = (),
    backend: BackendName | None = None,
) -> DataFrame:
    """Return the rows with an INT column ``partition``, as Spark's Kafka sink takes it.

    A row with a key gets the partition that the Java client, kafka-python and this library's partitioners
    choose. A row without one gets a partition by a hash of what it holds, so rows are spread evenly as far as
    they differ, and a task that is retried places them as before. The cluster is looked at once, now: in a
    stream call this (or `write_to_kafka`) for each batch, in `foreachBatch`.

    Args:
        df: The rows. A column ``partition`` that they have is replaced.
        key: The column that holds the keys, STRING (its UTF-8 counts) or BINARY; null is no key, an empty one
            is a key. None: no row has a key.
        topic: The topic's name, or a column with each row's.
        cluster: Where metadata comes from; see `ClusterSource`.
        policy: What to do about partitions that are offline or beyond a cap; default `PartitionPolicy()`.
        topics: The topics that a topic column may name; by default all that the snapshot has.
        batch: Which batch this is: rows that are equal are placed differently in different batches.
        row_id: Columns that tell a row from the others, for instance its source's topic, partition and
            offset; by default all that can be hashed (no MAP, no VARIANT). Rows that are equal in them are
            placed on one partition.
        backend: How to hash keys; by default the fastest way that works. See `backend_of`.

    Raises:
        ConfigurationError: an argument does not fit.
        UnknownPartitionError: the cluster has no such topic.
        KeyHashError: keys can't be hashed rightly in this session.
        MetadataFetchError: no broker answers.

    When it runs, the job fails on a row with an unknown topic, and as the policy says on one that is offline.
    """
    policy = policy or PartitionPolicy()
    named = topics_of(topic, topics)
    snapshot = take_snapshot(cluster, named, reach=policy.reach)
    placing = Placing(
        key=key,
        topic=topic,
        targets=targets_of(snapshot.cluster, policy, named, snapshot.unreachable),
        policy=policy,
        backend=None if key is None else backend_of(df.sparkSession, backend),
        batch=str(batch),
        row_id=tuple(row_id),
    )
    return placing.apply(df)


def topics_of(topic: str | Column, topics: Iterable[str] | None) -> frozenset[str] | None:
    """Return the topics that may be written; None: any.

    Raises:
        ConfigurationError: a constant topic and a list of topics are given, or an empty name.
    """
    if not isinstance(topic, str):
        return None if topics is None else frozenset(topics)
    if topics is not None:
        raise ConfigurationError("topics is for a topic column; the topic here is a constant")
    if not topic:
        raise ConfigurationError("topic must not be empty")
    return frozenset({topic})


@frozen(kw_only=True, eq=False)
class Placing:
    """Adds the column ``partition``.

    Attributes:
        key: The column with the keys; None if there are none.
        topic: A constant or a column.
        targets: What is known of each topic.
        policy: What to do about partitions that are offline.
        backend: How keys are hashed; None without keys.
        batch: Makes equal rows of different batches differ.
        row_id: What tells rows apart; nothing: all columns that can be hashed.
        own: Whether the frame brings partitions, to be kept where they are not null.
    """

    key: str | Column | None
    topic: str | Column
    targets: Mapping[str, Target]
    policy: PartitionPolicy
    backend: Backend | None
    batch: str
    row_id: tuple[str, ...] = ()
    own: bool = False

    def apply(self, df: DataFrame) -> DataFrame:
        """Return the rows with their partitions."""
        key = key_bytes(df, self.key)
        own = _own_partition(df) if self.own else None
        row = row_hash(df, self.row_id)
        routed, route = self._routed(df)
        home: Column = F.lit(None).cast("int")
        if key is not None and self.backend is not None:
            home = self.backend.hash_of(key).bitwiseAND(F.lit(0x7FFFFFFF)) % route.count
        if own is not None:
            home = F.coalesce(own.try_cast("int"), home)
        # A column of its own, so that a key is hashed once however often its home is asked for.
        placed = routed.withColumn(_HOME, home)
        partition = self._partition(route, key, own, F.xxhash64(row, F.lit(self.batch)))
        return placed.withColumn(PARTITION, partition.cast("int")).drop(
            _HOME, _TOPIC, _COUNT, _USABLE, _OFFLINE
        )

    def _partition(self, route: "_Route", key: Column | None, own: Column | None, draw: Column) -> Column:
        home = F.col(_HOME)
        elsewhere = route.drawn(draw)
        choice = F.coalesce(home, elsewhere)
        if route.offline is not None:
            down = F.coalesce(F.get(route.offline, home), F.lit(False))
            if self.policy.offline == "raise":
                text = (F.lit(OFFLINE_MARK + "partition "), home, F.lit(" of topic "), route.topic)
                choice = F.when(down, _fail(*text, F.lit(" has no leader"))).otherwise(choice)
            elif own is not None:
                unkeyed = F.lit(True) if key is None else key.isNull()
                choice = F.when(down & unkeyed, elsewhere).otherwise(choice)
        if own is not None:
            text = (F.lit(UNKNOWN_MARK + "partition "), own, F.lit(" of topic "), route.topic)
            rest = (F.lit(" is not known to the cluster, which has 0 to "), route.count - 1)
            known = (own >= 0) & (own < route.count)
            choice = F.when(~known, _fail(*text, *rest)).otherwise(choice)
        if not isinstance(self.topic, str):
            name = F.coalesce(self.topic, F.lit("null"))
            unknown = _fail(F.lit(UNKNOWN_MARK + "topic "), name, F.lit(" is not in the metadata snapshot"))
            choice = F.when(route.count.isNull(), unknown).otherwise(choice)
        return choice

    def _routed(self, df: DataFrame) -> tuple[DataFrame, "_Route"]:
        """Return the rows, with columns of routes if topics differ, and how to read the route of a row."""
        wanted = self.policy.offline == "raise" or (self.own and self.policy.offline == "reroute")
        if isinstance(self.topic, str):
            target = self.targets[self.topic]
            return df, _Route(
                topic=F.lit(target.topic),
                count=F.lit(target.count),
                usable=None if target.uses_all else _array(target.usable, "int"),
                offline=_array(_flags(target), "boolean") if wanted and target.offline else None,
            )
        usable = {name: None if each.uses_all else list(each.usable) for name, each in self.targets.items()}
        rows = [
            (name, each.count, usable[name], _flags(each) if wanted and each.offline else None)
            for name, each in self.targets.items()
        ]
        routes = df.sparkSession.createDataFrame(rows, _ROUTES_SCHEMA)
        routed = df.join(F.broadcast(routes), self.topic == F.col(_TOPIC), "left")
        return routed, _Route(
            topic=F.col(_TOPIC), count=F.col(_COUNT), usable=F.col(_USABLE), offline=F.col(_OFFLINE)
        )


@frozen(kw_only=True, eq=False)
class _Route:
    """A row's route, as columns or as constants.

    ``usable`` is null, or None, where all partitions are; so is ``offline`` (flags) where it does not matter.
    """

    topic: Column
    count: Column
    usable: Column | None
    offline: Column | None

    def drawn(self, draw: Column) -> Column:
        """Return the usable partition that a random number falls on."""
        anywhere = F.pmod(draw, self.count).cast("int")
        if self.usable is None:
            return anywhere
        return F.coalesce(F.get(self.usable, F.pmod(draw, F.size(self.usable)).cast("int")), anywhere)


def _flags(target: Target) -> list[bool]:
    offline = set(target.offline)
    return [partition in offline for partition in range(target.count)]


def _array(values: Iterable[int], kind: str) -> Column:
    """Return a constant array made of one literal: making thousands of them takes seconds."""
    return F.split(F.lit(",".join(str(int(value)) for value in values)), ",").cast(f"array<{kind}>")


def _fail(*text: Column) -> Column:
    return F.raise_error(F.concat(*(each.cast("string") for each in text))).cast("int")


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
    # Looked for here, because to Spark a name that is no column may be a function: "user", for instance.
    if key.partition(".")[0] in df.columns:
        return F.col(key)
    raise ConfigurationError(_no_column(key))


def key_bytes(df: DataFrame, key: str | Column | None) -> Column | None:
    """Return the keys as BINARY.

    Raises:
        ConfigurationError: there is no such column, or it is neither STRING nor BINARY.
    """
    if key is None:
        return None
    column = key_column(df, key)
    try:
        kind = df.select(column).schema.fields[0].dataType
    except AnalysisException as error:
        raise ConfigurationError(_no_column(key)) from error
    if isinstance(kind, BinaryType):
        return column
    if isinstance(kind, StringType):
        return column.cast("binary")
    raise ConfigurationError(
        f"a key must be STRING or BINARY, not {kind.simpleString().upper()}: the partition follows from its "
        "bytes, so turn it into those that other producers of the topic write, by cast('string') say"
    )


def _no_column(key: str | Column) -> str:
    return f"the rows have no column {key!r}; key names the one that holds the keys, None if there is none"


def _own_partition(df: DataFrame) -> Column:
    """Return the partitions that a frame brings.

    Raises:
        ConfigurationError: they are no whole numbers.
    """
    kind = _kinds(df)[PARTITION]
    if not isinstance(kind, IntegralType):
        raise ConfigurationError(f"the column partition must be INT, not {kind.simpleString().upper()}")
    return F.col(PARTITION)


def row_hash(df: DataFrame, row_id: Sequence[str] = ()) -> Column:
    """Return a 64-bit hash (BIGINT) of what tells rows apart.

    Args:
        df: The rows.
        row_id: The columns; by default all but ``partition`` that can be hashed.

    Raises:
        ConfigurationError: there is no such column, or none that can be hashed.
    """
    kinds = _kinds(df)
    if unknown := [name for name in row_id if name not in kinds]:
        raise ConfigurationError(f"row_id names columns that the rows do not have: {', '.join(unknown)}")
    names = list(row_id) or [name for name in kinds if name != PARTITION and _can_be_hashed(kinds[name])]
    if unfit := [name for name in names if not _can_be_hashed(kinds[name])]:
        raise ConfigurationError(f"row_id names columns that can't be hashed: {', '.join(unfit)}")
    if not names:
        raise ConfigurationError("no column of the rows can be hashed; name some that can in row_id")
    return F.xxhash64(*(F.col(_quoted(name)) for name in names))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _kinds(df: DataFrame) -> dict[str, DataType]:
    return {field.name: field.dataType for field in df.schema.fields}


def _can_be_hashed(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _can_be_hashed(kind.elementType)
    if isinstance(kind, StructType):
        return all(_can_be_hashed(field.dataType) for field in kind.fields)
    return not isinstance(kind, MapType | VariantType)
