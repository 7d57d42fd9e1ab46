"""Kafka records -> events as columns. DataFrame in, DataFrame out; nothing runs until rows are collected.

A record that is no event of ours is never dropped silently: `parsed` keeps it and says why in ``defect``.
Several observers report one transition with one id, and so does one that is restarted: each such report is
an *observation*. All of them hold, each with the bounds that its observer knows.
"""

from datetime import timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's documentation uses

BODIES: Final = ("cluster.summary",)
"""Events whose ``data`` is kept whole, as JSON text in ``body``: only their readers parse it."""

NAMES: Final = (
    "topic.created", "topic.deleted", "topic.recreated", "topic.identified", "partitions.added",
    "partition.offline", "partition.online", "leadership.moved", "isr.shrunk", "isr.expanded",
    "replicas.changed", "broker.joined", "broker.left", "broker.changed", "cap.reached", "cap.lifted",
    "broker.suspected", "broker.cleared", "records.rescued", "keys.moved", "keys.returned",
    "metadata.unavailable", "metadata.recovered",
    "metadata.stale", "metadata.rejected", "observer.resync", *BODIES,
)  # fmt: skip
"""The events that are understood here; a test holds this list against what the listener writes."""

LABELS: Final = ("planned", "change_id")
"""What an observer beside change control adds to an event."""

UNPARSED: Final = "unparsed"
"""``defect``: not JSON, or without what every event has, or of no time that can be."""
UNKNOWN: Final = "unknown"
"""``defect``: a CloudEvent of a type or version that is not understood here."""
FUTURE: Final = "future"
"""``defect``: its observer's clock is ahead, see `AHEAD`."""
PAST: Final = "past"
"""``defect``: its observer's clock is behind, see `BEHIND`."""
DEFECTS: Final = (UNPARSED, UNKNOWN, FUTURE, PAST)

NO_CLUSTER: Final = "unknown"
"""``cluster_id`` of events from before the cluster's own id was known."""

AHEAD: Final = timedelta(minutes=5)
"""How much later than the record's timestamp an event may have been seen: clocks differ."""
BEHIND: Final = timedelta(days=8)
"""How much earlier: an observer's outbox keeps what it can't deliver for a week."""
BEHIND_TODAY: Final = timedelta(days=400)
"""How much earlier than today, where the time is not a broker's."""
AWAY: Final = timedelta(days=40)
"""How long before a poll the one before it may have been. An older bound is as good as none, and would have
the tables of years refreshed."""

TOGETHER: Final = (
    "partition.offline", "partition.online", "leadership.moved", "isr.shrunk", "isr.expanded",
    "replicas.changed",
)  # fmt: skip
"""Those of which a record of version 2 has several."""

PREV_AT: Final = f"""
    IF(event.data.snapshot.prev_at >= event.data.snapshot.at - INTERVAL {AWAY.days} DAYS,
       event.data.snapshot.prev_at, NULL)
"""
"""The lower bound of when an event happened; null if there is none that is of use."""

YEARS: Final = ("2000-01-01T00:00:00Z", "2200-01-01T00:00:00Z")
_VERSION: Final = ".v1"
_TOGETHER: Final = ".v2"
_SIDE: Final = "STRUCT<leader: INT, count: INT>"
_EVENT: Final = f"""
    id STRING, type STRING, source STRING, subject STRING, sequence STRING, severitynumber INT,
    data STRUCT<
        cluster_id: STRING, topic: STRING, topic_id: STRING, partitions: STRING, broker: INT,
        before: {_SIDE}, after: {_SIDE}, observer: STRING, initial: BOOLEAN, identity: STRING,
        partitioner: STRING, reason: STRING, error: STRING, dropped: BIGINT,
        planned: BOOLEAN, change_id: STRING,
        changes: ARRAY<STRUCT<
            id: STRING, sequence: BIGINT, partition: INT, before: {_SIDE}, after: {_SIDE}
        >>,
        snapshot: STRUCT<seq: BIGINT, prev_at: TIMESTAMP, at: TIMESTAMP, gap: BOOLEAN>
    >
"""


def parsed(records: DataFrame, *keep: str) -> DataFrame:
    """Return a row for each record: ``event`` (its fields), ``name``, ``body``, ``defect`` (null: none).

    Args:
        records: With ``value``, ``timestamp``, to which events must fit, and ``timestampType``: 0 says that
            it is the observer's own, and must fit to the present. Nothing must fit to a null.
        *keep: Columns of the records that come first, unchanged; none may have one of these names.
    """
    text = F.col("value").cast("string")
    read = records.select(
        *keep,
        F.col("timestamp").alias("_timestamp"),
        (F.col("timestampType") == 0).alias("_own"),
        F.from_json(text, _EVENT).alias("event"),
        text.alias("_text"),
    ).withColumn("name", _name())
    return read.select(
        *keep,
        "event",
        "name",
        F.when(F.col("name").isin(*BODIES), F.get_json_object("_text", "$.data")).alias("body"),
        _defect().alias("defect"),
    )


def observations(parsed_records: DataFrame, *keep: str) -> DataFrame:
    """Return a row for each event of good records; those of version 2 have several.

    Each has the id and the place that it would have in a record of its own. ``prev_at`` and ``at`` are the
    bounds of when it happened; ``leader_before``, ``leader_after``, ``count_before`` and ``count_after`` what
    changed, as far as it matters here. ``planned`` and ``change_id`` say whether a change had asked for it;
    null: the observer did not know.

    Args:
        parsed_records: As `parsed` returns them.
        *keep: Columns of theirs that come first, unchanged.
    """
    good = parsed_records.where("defect IS NULL")
    # Who has none has one row all the same.
    each = good.selectExpr(*keep, "event", "name", "body", "explode_outer(event.data.changes) AS change")
    sides = (
        f"coalesce(change.{side}.{what}, event.data.{side}.{what}) AS {what}_{side}"
        for what in ("leader", "count")
        for side in ("before", "after")
    )
    return each.selectExpr(
        *keep,
        "coalesce(change.id, event.id) AS id",
        "event.source",
        "name",
        "coalesce(change.sequence, try_cast(event.sequence AS BIGINT)) AS sequence",
        "event.severitynumber AS severity",
        f"coalesce(event.data.cluster_id, '{NO_CLUSTER}') AS cluster_id",
        "event.data.topic",
        "event.data.topic_id",
        "coalesce(CAST(change.partition AS STRING), event.data.partitions) AS partitions",
        "event.data.broker",
        *sides,
        "event.data.observer",
        "coalesce(event.data.initial, false) AS initial",
        "coalesce(event.data.partitioner, event.data.reason, event.data.error) AS detail",
        "event.data.dropped",
        "event.data.planned",
        "event.data.change_id",
        f"{PREV_AT} AS prev_at",
        "event.data.snapshot.at",
        "coalesce(event.data.snapshot.gap, false) AS gap",
        "body",
    )


def distinct(reported: DataFrame) -> DataFrame:
    """Return one event per ``source`` and ``id``, its bounds as narrow as all its reports make them.

    Each observer knows that it happened after its ``prev_at`` and by its ``at``, so all of it is true at once
    (as far as their clocks agree). It was found as a state only if none saw it happen, and it lies in a gap
    only if none of them polled all the time. It was planned if one of them knew the change.
    """
    # By a number, which is shuffled and sorted at half the cost of two texts; see `outages.states`, too.
    same = "OVER (PARTITION BY _event"
    bounds = {
        "at": "_by",
        "prev_at": f"max(IF(prev_at < _by, prev_at, NULL)) {same})",
        "gap": f"min(gap) {same})",
        **{name: f"max({name}) {same})" for name in LABELS},
    }
    return (
        reported.selectExpr("*", "xxhash64(source, id) AS _event")
        .selectExpr("*", f"min(at) {same}) AS _by")
        .selectExpr(
            *(f"{bounds.get(name, name)} AS {name}" for name in reported.columns),
            f"row_number() {same} ORDER BY initial, at, observer, sequence) AS _rank",
        )
        .where("_rank = 1")
        .drop("_rank")
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
    # One that is half understood is set aside whole: its writer is of another version, or broken.
    changes = F.col("event.data.changes")
    several = F.exists(changes, lambda change: change["id"].isNotNull()) & F.forall(
        changes, lambda one: one["id"].isNotNull() & one["partition"].isNotNull() & one["after"].isNotNull()
    )
    complete &= ~F.col("event.type").endswith(_TOGETHER) | ~F.col("name").isin(*TOGETHER) | several
    # No clock is as wrong as that, and counts by day must not have those of the year 9999.
    at = F.col("event.data.snapshot.at")
    dated = at.between(*(F.to_timestamp(F.lit(year)) for year in YEARS))
    written, own = F.col("_timestamp"), F.col("_own")
    ahead = (at > written + F.lit(AHEAD)) | (own & (written > F.date_add(F.current_date(), 2)))
    late = at < written - F.lit(BEHIND)
    late |= own & (written < F.date_sub(F.current_date(), BEHIND_TODAY.days))
    return (
        F.when(~F.coalesce(complete, F.lit(False)), UNPARSED)
        .when(~F.col("name").isin(*NAMES), UNKNOWN)
        .when(~F.coalesce(dated, F.lit(False)), UNPARSED)
        .when(ahead, FUTURE)
        .when(late, PAST)
    )
