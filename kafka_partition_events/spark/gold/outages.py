"""Events -> outages of partitions, each with the bounds of its begin and its end.

A transition is known between two polls only: after ``prev_at`` and not after ``at``. So an outage began in
``(began_after, began_by]`` and ended in ``(ended_after, ended_by]``; all four are kept. ``began_after`` is
null when no observer saw it online before; ``ended_by`` is null when none saw it end.

Several observers, a restarted one and doubles all only report the same state again. That makes no new outage,
it narrows the bounds.

One computation serves all: of everything at once, or of what is reported from some moment on, beside the few
states that stand for all before it (`standing_of`). A test holds one against the other.
"""

from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.events import LABELS
from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.gold.intervals import day_of
from kafka_partition_events.spark.gold.partition_counts import NAMES as COUNT_EVENTS

KEY: Final = ("cluster_id", "topic", "partition")
"""The columns that name a partition. Several clusters may write to one topic of events."""

OUTAGE_EVENTS: Final = (
    "partition.offline", "partition.online", "topic.created", "topic.deleted", "topic.recreated",
)  # fmt: skip
"""The events that outages are made from; of ``topic.created`` those that an observer emits as it starts."""

OUTAGE: Final = (
    *KEY, "began_after", "began_by", "ended_after", "ended_by", "ended_with", "leader_before", "leader_after",
)  # fmt: skip
"""The columns of an outage."""
DECORATED: Final = (*OUTAGE, "cause_broker", "censored", "day")
"""Those of the table."""

NAMES: Final = tuple(sorted({*OUTAGE_EVENTS, *COUNT_EVENTS, "broker.left"}))
"""The events that lasting things are made from: outages, their causes, counts of partitions."""

OPEN: Final = "open"
"""``censored``: it had not ended by the last news."""
BLIND: Final = "blind"
"""``censored``: no observer polled for a part of the time between its outer bounds."""
AROUND: Final = timedelta(minutes=1)
"""How long before or after an outage's begin its broker may have left, to be its cause."""

_TOPIC: Final = ("cluster_id", "topic")
_OWN: Final = ("partition.offline", "partition.online")
_OF_OUTAGES: Final = f"name IN {OUTAGE_EVENTS} AND (name != 'topic.created' OR initial)"
_DOWN: Final = "name = 'partition.offline'"
_OWN_PLACE: Final = "identity IS NULL OR name = 'topic.created'"
_CODE: Final = f"CAST(array_position(array{OUTAGE_EVENTS}, name) AS INT)"
"""A number in the place of a name, in the order of the alphabet."""


def states(observations: DataFrame) -> DataFrame:
    """Return the rows of ``silver/states``: what `events.observations` returns of `NAMES`, doubles included.

    ``partition`` is null where it is about the whole topic. ``identity`` stands for the event's source, id.
    """
    own = F.col("name").isin(*_OWN)
    return observations.where(F.col("name").isin(*NAMES)).select(
        *_TOPIC,
        F.when(own, F.expr("try_cast(partitions AS INT)")).alias("partition"),
        "name",
        "initial",
        F.xxhash64("source", "id").alias("identity"),
        "prev_at",
        "at",
        *(F.when(own, F.col(name)).alias(name) for name in ("leader_before", "leader_after")),
        *("topic_id", "count_after", "broker", *LABELS),
    )


def all_outages(events: DataFrame) -> DataFrame:
    """Return the columns of `OUTAGE` of what `states` returned; ``ended_with`` says what ended it.

    A topic that is deleted or re-created ends its partitions' outages; so does an observer that starts,
    sees the topic and does not find the partition offline. Of the leaders the event of the begin has the
    one before, that of the end the one after; null where none has it.
    """
    return outages_of(runs_of(events)).drop("news")


# -- a part of it, on what is known of before ----------------------------------------------------------------


def runs_of(events: DataFrame, standing: DataFrame | None = None, begin: datetime | None = None) -> DataFrame:
    """Return the runs of each partition: times in which all that is reported of it says the same.

    Columns: `KEY`, ``run`` (their number, ascending), ``down``; ``first`` and ``last`` time that it was
    said; ``after`` which that began; ``name`` and ``identity`` of what said it first; ``leader``: of a run
    that is down the one before, of another the one after; ``news``: whether an event since ``begin``
    is about it, and ``found``: whether that may have changed more of it than ``last``.

    Args:
        events: As `states` returns them: all, or those from an hour before ``begin`` on.
        standing: What stands for all that is reported before, as `standing_of` returned it.
        begin: From when on ``events`` count; what is of the hour before shows which ids were known by then.
    """
    columns = (*KEY, "name", "initial", "identity", "prev_at", "at", "leader_before", "leader_after")
    rows = (
        events.where(_OF_OUTAGES)
        .where(f"topic IS NOT NULL AND (name NOT IN {_OWN} OR partition >= 0)")
        .selectExpr(*columns, "false AS known")
    )
    if standing is not None:
        rows = rows.unionByName(standing.selectExpr(*columns, "true AS known"))
    own, of_topic = rows.where("partition IS NOT NULL"), rows.where("partition IS NULL")
    transitions = _placed(own, begin).selectExpr(
        *(*KEY, f"{_DOWN} AS down", "prev_at", "place AS at", f"{_CODE} AS code"),
        *(f"IF({_DOWN}, leader_before, leader_after) AS leader", "identity", "new"),
    )
    return _runs(transitions.unionByName(_spread(own, _placed(of_topic, begin))))


def _placed(rows: DataFrame, begin: datetime | None) -> DataFrame:
    """Return rows that count, whether they are ``new``, and their ``place``: the earliest ``at`` of their id.

    Each keeps its own ``prev_at``. Where that doesn't lie before its run, it says nothing about when that
    began. Which of them do is known once all runs are.
    """
    of_id = f"OVER (PARTITION BY {', '.join(_TOPIC)}, identity)"
    rows = rows.repartition(*_TOPIC).selectExpr(
        "*", f"IF({_OWN_PLACE}, at, min(at) {of_id}) AS place", f"max(known) {of_id} AS _known"
    )
    if begin is None:
        return rows.withColumn("new", F.lit(True))
    counts = (F.col("place") >= F.lit(begin)) | F.expr(f"known OR NOT ({_OWN_PLACE}) AND _known")
    return rows.where(counts).withColumn("new", F.col("at") >= F.lit(begin))


def _spread(own: DataFrame, of_topic: DataFrame) -> DataFrame:
    """Return transitions: what is said about a topic is said of each partition that is known of it."""
    # An observer that starts emits "the topic is there" and "this partition of it is offline" at one moment.
    # That has the id of the original event, so it is a double, but not the same observation.
    partitions = own.groupBy(*KEY).agg(
        F.expr("max(known) AS _standing"), F.expr(f"collect_set(IF(initial AND {_DOWN}, at, NULL)) AS _found")
    )
    silent = "IF(known, _standing, name = 'topic.created' AND array_contains(_found, at))"
    said = of_topic.drop("partition").join(partitions, list(_TOPIC)).where(f"NOT {silent}")
    return said.selectExpr(
        *(*KEY, "false AS down", "prev_at", "place AS at", f"{_CODE} AS code"),
        *("INT(NULL) AS leader", "BIGINT(NULL) AS identity", "new"),
    )


def outages_of(runs: DataFrame) -> DataFrame:
    """Return the columns of `OUTAGE`, of the runs that `runs_of` returned; and ``news``.

    That is whether such as an outage was before the news may be another one now.
    """
    by_run = f"OVER (PARTITION BY {', '.join(KEY)} ORDER BY run)"
    return (
        runs.selectExpr(
            *KEY,
            "down",
            "after AS began_after",
            "first AS began_by",
            f"lead(after) {by_run} AS ended_after",
            f"lead(first) {by_run} AS ended_by",
            f"lead(name) {by_run} AS ended_with",
            "leader AS leader_before",
            f"lead(leader) {by_run} AS leader_after",
            # The run before it decides after which time it began, at the latest.
            f"news OR coalesce(lag(news) {by_run}, false) OR coalesce(lead(found) {by_run}, false) AS news",
        )
        .where("down")
        .drop("down")
    )


def standing_of(runs: DataFrame, events: DataFrame, standing: DataFrame | None = None) -> DataFrame:
    """Return as few states as say the same of what comes after as those do that the runs were made from.

    They are the last outage of each partition and what followed on it, two to four rows; and when a topic was
    last reported as a whole, for partitions of which nothing is known yet.
    """
    of_key = f"OVER (PARTITION BY {', '.join(KEY)})"
    of_id = f"OVER (PARTITION BY {', '.join(_TOPIC)}, identity)"
    said_first = "struct(identity, after AS prev_at, first AS at, name)"
    said_last = (
        "struct(BIGINT(NULL) AS identity, TIMESTAMP(NULL) AS prev_at, last AS at, "
        "IF(down, 'partition.offline', 'partition.online') AS name)"
    )
    both = f"array({said_first}, {said_last})"
    own = (
        runs.selectExpr("*", f"coalesce(max(IF(down, run, NULL)) {of_key}, max(run) {of_key}) AS _from")
        .where("run >= _from")
        .selectExpr(*KEY, "down", "first", "leader", f"inline(IF(first < last, {both}, array({said_first})))")
        .selectExpr(
            *(*KEY, "name", "false AS initial", "identity", "prev_at", "at"),
            "IF(down AND at = first, leader, NULL) AS leader_before",
            "IF(NOT down AND at = first, leader, NULL) AS leader_after",
        )
    )
    of_topic = (
        events.where(_OF_OUTAGES)
        .where("partition IS NULL AND topic IS NOT NULL")
        .selectExpr(*_TOPIC, f"IF(name = 'topic.created', at, min(at) {of_id}) AS at")
    )
    if standing is not None:
        of_topic = of_topic.unionByName(standing.where("partition IS NULL").select(*_TOPIC, "at"))
    seen = of_topic.groupBy(*_TOPIC).agg(F.max("at").alias("at"))
    return own.unionByName(
        seen.selectExpr(
            *(*_TOPIC, "INT(NULL) AS partition", "'topic.created' AS name", "true AS initial"),
            *("BIGINT(NULL) AS identity", "TIMESTAMP(NULL) AS prev_at", "at"),
            *("INT(NULL) AS leader_before", "INT(NULL) AS leader_after"),
        )
    )


def _runs(transitions: DataFrame) -> DataFrame:
    by = ", ".join(KEY)
    in_time = f"OVER (PARTITION BY {by} ORDER BY at, down)"
    by_run = f"OVER (PARTITION BY {by} ORDER BY run)"
    # All that is grouped here has a fixed size, so that it is grouped by hash.
    return (
        transitions.selectExpr("*", f"coalesce(lag(down) {in_time} != down, true) AS _begins")
        .selectExpr(
            "*",
            f"sum(CAST(_begins AS INT)) {in_time} AS run",
            f"last(IF(_begins, at, NULL), true) {in_time} AS first",
        )
        .groupBy(*KEY, "run", "down", "first")
        .agg(
            *map(
                F.expr,
                (
                    "max(at) AS last",
                    # A poll before the first of them that found it otherwise narrows the bound.
                    "max(IF(prev_at < first, prev_at, NULL)) AS _after",
                    "min(IF(at = first, code, NULL)) AS _code",  # the same one every time
                    "max(IF(at = first, leader, NULL)) AS leader",
                    "max(IF(at = first, identity, NULL)) AS identity",
                    "max(new) AS news",
                    "max(new AND (at = first OR coalesce(prev_at < first, false))) AS found",
                ),
            )
        )
        .selectExpr("*", f"lag(last) {by_run} AS _otherwise")
        .selectExpr(
            *(*KEY, "run", "down", "first", "last", "leader", "identity", "news", "found"),
            "greatest(_after, IF(_otherwise < first, _otherwise, NULL)) AS after",
            f"element_at(array{OUTAGE_EVENTS}, _code) AS name",
        )
    )


# -- with what else is known of them -------------------------------------------------------------------------


def partition_outages(found: DataFrame, events: DataFrame, clusters: Clusters, *keep: str) -> DataFrame:
    """Return the rows of ``gold/partition_outages``.

    Columns: those of `OUTAGE`; ``cause_broker``: the leader before, if
    that broker left within the bounds of the begin or a minute around them; ``censored``: null, `OPEN` or
    `BLIND`; ``day`` (of ``began_by``).

    Args:
        found: Outages.
        events: States; those of ``broker.left`` around the begins are needed.
        clusters: When no observer polled.
        *keep: Columns of the outages that come last, unchanged.
    """
    begin, around = "coalesce(began_after, began_by)", f"INTERVAL {AROUND.seconds} SECONDS"
    meets = f"exists(_left, one -> one.by >= {begin} - {around} AND one.after <= began_by + {around})"
    uncertain = clusters.touches_blind(F.expr(f"unix_micros({begin})"), F.unix_micros("ended_by"))
    return found.join(F.broadcast(_left(events)), ["cluster_id", "leader_before"], "left").select(
        *OUTAGE,
        F.expr(f"IF({meets}, leader_before, NULL) AS cause_broker"),
        F.when(F.col("ended_by").isNull(), OPEN).when(uncertain, BLIND).alias("censored"),
        day_of(F.unix_micros("began_by")).alias("day"),
        *keep,
    )


def _left(events: DataFrame) -> DataFrame:
    """Return ``cluster_id, leader_before``, a broker, and the bounds of when it ``_left``."""
    # It lay after the last of the polls before it that any observer reports.
    after = "coalesce(array_max(filter(polls, poll -> poll < by)), by)"
    return (
        events.where("name = 'broker.left' AND broker IS NOT NULL")
        .groupBy("cluster_id", "identity", F.col("broker").alias("leader_before"))
        .agg(F.min("at").alias("by"), F.collect_set("prev_at").alias("polls"))
        .groupBy("cluster_id", "leader_before")
        .agg(F.expr(f"collect_set(struct({after} AS after, by)) AS _left"))
    )
