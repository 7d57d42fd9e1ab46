"""Kafka records -> events as columns. DataFrame in, DataFrame out; nothing runs before somebody collects.

A record that is no event of ours is never dropped silently: `parse` keeps it and says why in ``defect``.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's documentation uses

BODIES: Final = ("cluster.summary", "producer.counters")
"""Events whose ``data`` is kept whole, as JSON text in ``body``: their readers parse it, nobody else pays."""

NAMES: Final = (
    "topic.created", "topic.deleted", "topic.recreated", "topic.identified", "partitions.added",
    "partition.offline", "partition.online", "leadership.moved", "isr.shrunk", "isr.expanded",
    "replicas.changed", "broker.joined", "broker.left", "broker.changed", "cap.reached", "cap.lifted",
    "broker.suspected", "broker.cleared", "records.rescued", "metadata.unavailable", "metadata.recovered",
    "metadata.stale", "metadata.rejected", "observer.resync", "alternatives.changed", *BODIES,
)  # fmt: skip
"""The events that are understood here; a test holds this list against what the listener writes."""

LABELS: Final = ("planned", "change_id")
"""What an observer beside change control adds to an event."""

UNPARSED: Final = "unparsed"
"""``defect``: not JSON, or without what every event has, or of no time that can be."""
UNKNOWN: Final = "unknown"
"""``defect``: a CloudEvent of a type or version that is not understood here."""
NO_CLUSTER: Final = "unknown"
"""``cluster_id`` of what was told before the cluster's own id was known."""

_YEARS: Final = ("2000-01-01T00:00:00Z", "2200-01-01T00:00:00Z")
TOGETHER: Final = (
    "partition.offline", "partition.online", "leadership.moved", "isr.shrunk", "isr.expanded",
    "replicas.changed",
)  # fmt: skip
"""Those that a record of version 2 tells several of."""

_VERSION: Final = ".v1"
_TOGETHER: Final = ".v2"
_VALUE_SCHEMA: Final = """
    id STRING, type STRING, source STRING, subject STRING, sequence STRING, severitynumber INT,
    data STRUCT<
        cluster_id: STRING, topic: STRING, topic_id: STRING, partitions: STRING, broker: INT,
        before: STRING, after: STRING, observer: STRING, initial: BOOLEAN, identity: STRING,
        partitioner: STRING, reason: STRING, error: STRING, dropped: BIGINT,
        planned: BOOLEAN, change_id: STRING,
        changes: ARRAY<STRUCT<
            id: STRING, sequence: BIGINT, partition: INT, before: STRING, after: STRING
        >>,
        snapshot: STRUCT<seq: BIGINT, prev_at: TIMESTAMP, at: TIMESTAMP, gap: BOOLEAN>
    >
"""


def parse(records: DataFrame, *keep: str) -> DataFrame:
    """Return a row for each event: its columns, and ``defect`` (null for a good one).

    That is one for each Kafka record, and several for one that tells several changes: each has the id and
    the place that it would have if it had been told alone.

    ``prev_at`` and ``at`` are the bounds of when it happened; ``before`` and ``after`` stay JSON text.
    ``planned`` and ``change_id`` tell whether a change had asked for it; null: the observer did not know.

    Args:
        records: As the Kafka connector gives them, with a ``value`` column.
        *keep: Columns of the records that come first, unchanged; none may have an event column's name.
    """
    text = F.col("value").cast("string")
    value = F.from_json(text, _VALUE_SCHEMA).alias("event")
    read = records.select(*keep, value, text.alias("_text"))
    # Who has none has one row all the same.
    told = read.select("*", F.explode_outer("event.data.changes").alias("change"))
    return told.select(
        *keep,
        F.coalesce("change.id", "event.id").alias("id"),
        "event.source",
        _name().alias("name"),
        F.coalesce("change.sequence", F.col("event.sequence").try_cast("bigint")).alias("sequence"),
        F.col("event.severitynumber").alias("severity"),
        F.coalesce("event.data.cluster_id", F.lit(NO_CLUSTER)).alias("cluster_id"),
        "event.data.topic",
        "event.data.topic_id",
        F.coalesce(F.col("change.partition").cast("string"), "event.data.partitions").alias("partitions"),
        "event.data.broker",
        F.coalesce("change.before", "event.data.before").alias("before"),
        F.coalesce("change.after", "event.data.after").alias("after"),
        "event.data.observer",
        F.coalesce("event.data.initial", F.lit(False)).alias("initial"),
        F.coalesce("event.data.partitioner", "event.data.reason", "event.data.error").alias("detail"),
        "event.data.dropped",
        "event.data.planned",
        "event.data.change_id",
        "event.data.snapshot.prev_at",
        "event.data.snapshot.at",
        F.coalesce("event.data.snapshot.gap", F.lit(False)).alias("gap"),
        F.when(_name().isin(*BODIES), F.get_json_object("_text", "$.data")).alias("body"),
        _defect().alias("defect"),
    )


def good(parsed: DataFrame) -> DataFrame:
    """Return the events without a defect, doubles included: each tells that somebody looked."""
    return parsed.where(F.col("defect").isNull()).drop("defect")


def distinct(events: DataFrame) -> DataFrame:
    """Return one event per ``source`` and ``id``, its bounds as narrow as all who told it make them.

    Each teller knows that it happened after its ``prev_at`` and by its ``at``, so all of it is true at once
    (as far as the tellers' clocks agree). It was found as a state only if nobody saw it happen, and it lies
    in a gap only if none of them looked all the time. It was planned if one of them knew the change.
    """
    same = Window.partitionBy("source", "id")
    after = F.when(F.col("prev_at") < F.col("_by"), F.col("prev_at"))
    return (
        events.withColumn("_by", F.min("at").over(same))
        .withColumn("prev_at", F.max(after).over(same))
        .withColumn("gap", F.min("gap").over(same))
        .withColumns({name: F.max(name).over(same) for name in LABELS})
        .withColumn("_rank", F.row_number().over(same.orderBy("initial", "at")))
        .where("_rank = 1")
        .withColumn("at", F.col("_by"))
        .drop("_by", "_rank")
    )


def quality(parsed: DataFrame) -> DataFrame:
    """Return one row: how many records were ``read``, ``unparsed``, ``unknown``, and events ``distinct``."""
    identity = F.when(F.col("defect").isNull(), F.struct("source", "id"))
    return parsed.agg(
        F.count(F.lit(1)).alias("read"),
        F.count_if(F.col("defect") == UNPARSED).alias("unparsed"),
        F.count_if(F.col("defect") == UNKNOWN).alias("unknown"),
        F.count_distinct(identity).alias("distinct"),
    )


def _name() -> Column:
    """Return ``partition.offline`` of ``some.prefix.partition.offline.v1``; no regex, for each row pays."""
    type_ = F.col("event.type")
    name = F.substring_index(F.substring_index(type_, ".", -3), ".", 2)
    return F.when(
        type_.endswith(_VERSION) | (type_.endswith(_TOGETHER) & name.isin(*TOGETHER)), name
    ).otherwise("")


def _defect() -> Column:
    complete = (
        F.col("event.id").isNotNull() & F.col("event.type").isNotNull() & F.col("event.source").isNotNull()
    )
    change = F.col("change")
    told = change["id"].isNotNull() & change["partition"].isNotNull() & change["after"].isNotNull()
    complete &= ~(F.col("event.type").endswith(_TOGETHER) & _name().isin(*TOGETHER)) | told
    understood = _name().isin(*NAMES)
    # No clock is as wrong as that, and whoever counts by day must not count the days of the year 9999.
    dated = F.col("event.data.snapshot.at").between(*(F.to_timestamp(F.lit(year)) for year in _YEARS))
    return (
        F.when(~F.coalesce(complete, F.lit(False)), UNPARSED)
        .when(~understood, UNKNOWN)
        .when(~F.coalesce(dated, F.lit(False)), UNPARSED)
    )
