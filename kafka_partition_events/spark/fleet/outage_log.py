"""Sightings -> the log of outages: the only part of the pipeline with state, packed by cluster and topic.

The log is a sequence of words: "of this partition's outages, those that began at ``since`` or later are
exactly the ones in my revision" (see `outage_state.Word`). `latest` reads it; nothing in it is ever changed.
"""

import importlib
from collections.abc import Iterator
from datetime import timedelta
from operator import itemgetter
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.fleet.outage_spells import Kind, Sighting
from kafka_partition_events.spark.fleet.outage_state import fold
from kafka_partition_events.spark.outages import KEY

SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
"""What a session must be set to before a query with `log` is started."""

OUTAGE: Final = (*KEY, "began_after", "began_by", "ended_after", "ended_by", "ended_with")
"""The columns of an outage."""

_TIMES: Final = ("since", "began_after", "began_by", "ended_after", "ended_by")
_STATE: Final = StructType([StructField("packed", BinaryType())])
_WORD: Final = (
    "cluster_id STRING, topic STRING, partition INT, revision BIGINT, since BIGINT, began_after BIGINT, "
    "began_by BIGINT, ended_after BIGINT, ended_by BIGINT, ended_with STRING, late STRING"
)


def log(sightings: DataFrame, *, late: timedelta) -> DataFrame:
    """Return the words that these sightings add to the log.

    Columns: ``cluster_id, topic, partition, revision, since``, the bounds of an outage (all null: there are
    none since then), ``ended_with``, and ``late``: null, or the name of an event that came too late, whose
    bounds are then in ``began_after`` and ``began_by``.

    Works on a stream (in append mode, state in the checkpoint) and on a batch (all of it at once). The
    session needs `SETTINGS`, and Python's workers this package and protobuf.

    Args:
        sightings: Good events, doubles included, as `kafka_partition_events.spark.events.good` gives them.
        late: How much older than its topic's latest sighting one may come.

    Raises:
        SparkJobError: a package that Spark needs for state in Python is missing.
        ValueError: ``late`` is negative.
    """
    if late < timedelta(0):
        raise ValueError(f"late must not be negative, but is {late}")
    processor = _Outages(int(late / timedelta(microseconds=1)))
    grouped = _telling(sightings).groupBy("cluster_id", "topic")
    try:
        importlib.import_module("google.protobuf")  # else a worker dies without a word
        words = grouped.transformWithState(processor, _WORD, "Append", "None")
    except ImportError as error:
        raise SparkJobError(
            f"Spark's state in Python needs packages that are missing: {error} "
            "(pip install 'kafka-partition-events[spark]')"
        ) from error
    return words.select(
        *(F.timestamp_micros(name).alias(name) if name in _TIMES else name for name in words.columns)
    )


def latest(log: DataFrame) -> DataFrame:
    """Return the outages that the log tells of by its latest words: the columns of `OUTAGE`."""
    later = Window.partitionBy(*KEY).orderBy("revision").rangeBetween(1, Window.unboundedFollowing)
    return (
        log.where("late IS NULL")
        .withColumn("_overruled_from", F.min("since").over(later))
        .where("began_by IS NOT NULL AND (_overruled_from IS NULL OR began_by < _overruled_from)")
        .select(*OUTAGE)
    )


def late(log: DataFrame) -> DataFrame:
    """Return the sightings that came too late for the log.

    Columns: ``cluster_id, topic, partition`` (null: it was about the whole topic), ``name, prev_at, at``.
    """
    return log.where("late IS NOT NULL").select(
        *KEY,
        F.col("late").alias("name"),
        F.col("began_after").alias("prev_at"),
        F.col("began_by").alias("at"),
    )


def _telling(sightings: DataFrame) -> DataFrame:
    """Return what the state is folded from: few columns, for each costs time on its way to Python."""
    of_partition = F.col("kind").isin(*map(int, (Kind.ONLINE, Kind.OFFLINE, Kind.FOUND_OFFLINE)))
    return (
        sightings.withColumn("kind", _kind())
        .where("kind IS NOT NULL AND topic IS NOT NULL")
        .select(
            "cluster_id",
            "topic",
            F.when(of_partition, F.expr("try_cast(partitions AS INT)")).alias("partition"),
            "kind",
            F.xxhash64("source", "id").alias("identity"),
            F.unix_micros("prev_at").alias("prev_at"),
            F.unix_micros("at").alias("at"),
        )
        .where((F.col("partition") >= 0) | ~of_partition)
    )


def _kind() -> Column:
    name, initial = F.col("name"), F.col("initial")
    return (
        F.when(name == "partition.online", F.lit(int(Kind.ONLINE)))
        .when((name == "partition.offline") & initial, F.lit(int(Kind.FOUND_OFFLINE)))
        .when(name == "partition.offline", F.lit(int(Kind.OFFLINE)))
        .when((name == "topic.created") & initial, F.lit(int(Kind.STARTED)))
        .when(name == "topic.deleted", F.lit(int(Kind.DELETED)))
        .when(name == "topic.recreated", F.lit(int(Kind.RECREATED)))
    )


def _sightings(rows: Iterator[Row]) -> Iterator[Sighting]:
    pick = None
    for row in rows:
        if pick is None:  # Spark does not promise where it puts the columns of the key
            pick = itemgetter(*map(row.__fields__.index, Sighting._fields))
        yield Sighting(*pick(tuple(row)))  # a Row's own look-up by name or place is slow


class _Outages(StatefulProcessor):
    """Folds a topic's sightings into its packed state."""

    def __init__(self, late: int) -> None:
        self._late = late
        self._state: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("outages", _STATE)

    def handleInputRows(  # noqa: N802 - Spark's names; it passes them by keyword
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        cluster_id, topic = key
        held = self._state.get()
        state, words = fold(
            None if held is None else bytes(held[0]),
            _sightings(rows),
            late=self._late,
        )
        self._state.update((state,))
        for word in words:
            yield Row(cluster_id=cluster_id, topic=topic, **word._asdict())

    def close(self) -> None:
        """Nothing to close."""
