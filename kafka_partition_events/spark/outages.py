"""Events -> outages of partitions and absences of brokers, each with the bounds of its begin and its end.

A transition is known between two looks only: after ``prev_at`` and not after ``at``. So an outage began in
``(began_after, began_by]`` and ended in ``(ended_after, ended_by]``; all four are kept. ``began_after`` is
null when nobody saw it online before; ``ended_by`` is null when nobody saw it end.

Several observers, a restarted one and doubles all only tell the same state again. That makes no new outage,
it narrows the bounds.

One computation serves all: of everything at once, or of what is told from some moment on, beside the few
states that stand for all before it (`standing_of`). A test holds one against the other.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

KEY: Final = ("cluster_id", "topic", "partition")
"""The columns that name a partition. Several clusters may write to one topic of events."""

TELLING: Final = (
    "partition.offline", "partition.online", "topic.created", "topic.deleted", "topic.recreated",
)  # fmt: skip
"""The events that outages are made from; of ``topic.created`` those that an observer tells as it starts."""

OUTAGE: Final = (
    *KEY, "began_after", "began_by", "ended_after", "ended_by", "ended_with", "leader_before", "leader_after",
)  # fmt: skip
"""The columns of an outage."""

_TOPIC: Final = ("cluster_id", "topic")
_BOUNDS: Final = ("began_after", "began_by", "ended_after", "ended_by", "ended_with")
_RUN: Final = ("down", "first", "last", "after", "name", "leader", "identity")
_OWN: Final = ("partition.offline", "partition.online")


def states(observations: DataFrame, *keep: str) -> DataFrame:
    """Return what observations tell of partitions and topics, in few and narrow columns.

    ``partition`` is null where it is about the whole topic. ``identity`` stands for the event's source, id.

    Args:
        observations: As `kafka_partition_events.spark.events.observations` returns them.
        *keep: Columns of theirs that come last, unchanged.
    """
    own = F.col("name").isin(*_OWN)
    return observations.select(
        *_TOPIC,
        F.when(own, F.expr("try_cast(partitions AS INT)")).alias("partition"),
        "name",
        "initial",
        F.xxhash64("source", "id").alias("identity"),
        "prev_at",
        "at",
        *(F.when(own, F.col(name)).alias(name) for name in ("leader_before", "leader_after")),
        *keep,
    )


def partition_outages(told: DataFrame) -> DataFrame:
    """Return the columns of `OUTAGE`; ``ended_with`` tells what ended it.

    A topic that is deleted or re-created ends its partitions' outages; so does an observer that starts,
    sees the topic and does not find the partition offline. Of the leaders the event of the begin tells the
    one before, that of the end the one after; null where none tells.

    Args:
        told: As `states` returns them, doubles included.
    """
    return outages_of(runs_of(told))


def broker_absences(events: DataFrame) -> DataFrame:
    """Return ``cluster_id, broker`` and the bounds of when a broker was not listed, as of an outage.

    Args:
        events: Observations, doubles included.
    """
    told = events.where(F.col("name").isin("broker.left", "broker.joined")).select(
        "cluster_id",
        "broker",
        (F.col("name") == "broker.left").alias("down"),
        "prev_at",
        F.min("at").over(Window.partitionBy("source", "id")).alias("at"),
        "name",
        F.lit(None).cast("int").alias("leader"),
        F.lit(None).cast("bigint").alias("identity"),
    )
    key = ("cluster_id", "broker")
    return _spells(_runs(told, *key), *key).select(*key, *_BOUNDS)


# -- a part of it, on what is known of before ----------------------------------------------------------------


def runs_of(told: DataFrame, standing: DataFrame | None = None, begin: datetime | None = None) -> DataFrame:
    """Return the runs of each partition: times in which all that is told of it says the same.

    Columns: `KEY`, ``run`` (their number, ascending), ``down``; ``first`` and ``last`` time that somebody
    said it; ``after`` which that began; ``name`` and ``identity`` of what told it first; ``leader``: of a run
    that is down the one before, of another the one after.

    Args:
        told: As `states` returns them: all, or those from an hour before ``begin`` on.
        standing: What stands for all that is told before, as `standing_of` returned it.
        begin: From when on ``told`` counts; what is of the hour before shows which ids were known by then.
    """
    columns = (*KEY, "name", "initial", "identity", "prev_at", "at", "leader_before", "leader_after")
    rows = (
        told.where(F.col("name").isin(*TELLING) & ((F.col("name") != "topic.created") | F.col("initial")))
        .where("topic IS NOT NULL")
        .where(~F.col("name").isin(*_OWN) | (F.col("partition") >= 0))
        .select(*columns, F.lit(False).alias("known"))
    )
    if standing is not None:
        rows = rows.unionByName(standing.select(*columns, F.lit(True).alias("known")))
    same = Window.partitionBy(*_TOPIC, "identity")
    own_place = F.col("identity").isNull() | (F.col("name") == "topic.created")
    # Those of one id are put at the earliest ``at``; each keeps its own ``prev_at``. Where that doesn't lie
    # before its run, it says nothing about when that began. Which of them do is known once all runs are.
    rows = rows.repartition(*_TOPIC).withColumn(
        "place", F.when(own_place, F.col("at")).otherwise(F.min("at").over(same))
    )
    counts = F.lit(True)
    if begin is not None:
        of_known = F.col("known") | (~own_place & F.max("known").over(same))
        counts = (F.col("place") >= F.lit(begin)) | of_known
    return _runs(_of_partitions(rows.withColumn("counts", counts)), *KEY)


def _of_partitions(rows: DataFrame) -> DataFrame:
    """Return transitions of partitions: what is about a topic is said of each that is known of it."""
    topics = rows.groupBy(*_TOPIC).agg(
        F.collect_list(
            F.struct(
                "partition", "name", "initial", "identity", "prev_at", "at", "place", "known", "counts",
                "leader_before", "leader_after",
            )
        ).alias("rows")
    )  # fmt: skip
    own = F.filter("rows", lambda row: row["partition"].isNotNull())
    of_topic = F.filter("rows", lambda row: row["partition"].isNull() & row["counts"])
    offline = F.lit("partition.offline")
    no_leader, no_identity = F.lit(None).cast("int"), F.lit(None).cast("bigint")

    def transition(partition: Column, row: Column, *, of_topic: bool) -> Column:
        down = F.lit(False) if of_topic else row["name"] == offline
        leader = no_leader if of_topic else F.when(down, row["leader_before"]).otherwise(row["leader_after"])
        return F.struct(
            partition.alias("partition"),
            down.alias("down"),
            row["prev_at"].alias("prev_at"),
            row["place"].alias("at"),
            row["name"].alias("name"),
            leader.alias("leader"),
            (no_identity if of_topic else row["identity"]).alias("identity"),
        )

    def silent(row: Column) -> Column:
        """Return the partitions of which a statement about the topic says nothing."""
        # Whoever starts tells "the topic is there" and "this partition of it is offline" at one moment. That
        # has the id of the original event, so it is a double, but not the same observation.
        found = F.filter("own", lambda other: other["initial"] & (other["name"] == offline)
                         & (other["at"] == row["at"]))  # fmt: skip
        known = F.filter("own", lambda other: other["known"])
        unsaid = F.when(row["known"], known).when(row["name"] == "topic.created", found)
        return F.coalesce(F.transform(unsaid, lambda other: other["partition"]), F.array().cast("array<int>"))

    partitions = F.array_distinct(F.transform("own", lambda row: row["partition"]))
    spread = F.flatten(
        F.transform(
            "of_topic",
            lambda row: F.transform(
                F.array_except("partitions", silent(row)),
                lambda partition: transition(partition, row, of_topic=True),
            ),
        )
    )
    themselves = F.transform(
        F.filter("own", lambda row: row["counts"]),
        lambda row: transition(row["partition"], row, of_topic=False),
    )
    return (
        topics.select(*_TOPIC, own.alias("own"), of_topic.alias("of_topic"))
        .where(F.size("own") > 0)
        .withColumn("partitions", partitions)
        .select(*_TOPIC, F.inline(F.concat(themselves, spread)))
    )


def outages_of(runs: DataFrame) -> DataFrame:
    """Return the columns of `OUTAGE`, of the runs that `runs_of` returned."""
    return _spells(runs, *KEY).select(*OUTAGE)


def standing_of(runs: DataFrame, told: DataFrame, standing: DataFrame | None = None) -> DataFrame:
    """Return as few states as say the same of what comes after as all of them do.

    They are the last outage of each partition and what followed on it, two to four rows; and when a topic was
    last told as a whole, for partitions of which nothing is known yet.

    Args:
        runs: As `runs_of` returned them.
        told: What these were made from.
        standing: The same.
    """
    of_key = Window.partitionBy(*KEY)
    last = F.coalesce(F.max(F.when(F.col("down"), F.col("run"))).over(of_key), F.max("run").over(of_key))
    none, no_identity = F.lit(None).cast("timestamp"), F.lit(None).cast("bigint")
    said_first = F.struct("identity", F.col("after").alias("prev_at"), F.col("first").alias("at"), "name")
    said_last = F.struct(
        no_identity.alias("identity"),
        none.alias("prev_at"),
        F.col("last").alias("at"),
        F.when(F.col("down"), "partition.offline").otherwise("partition.online").alias("name"),
    )
    said = F.when(F.col("first") < F.col("last"), F.array(said_first, said_last)).otherwise(
        F.array(said_first)
    )
    leader = F.when(F.col("at") == F.col("first"), F.col("leader"))
    own = (
        runs.withColumn("_from", last)
        .where("run >= _from")
        .select(*KEY, "down", "first", "leader", F.inline(said))
        .select(
            *KEY,
            "name",
            F.lit(False).alias("initial"),
            "identity",
            "prev_at",
            "at",
            F.when(F.col("down"), leader).alias("leader_before"),
            F.when(~F.col("down"), leader).alias("leader_after"),
        )
    )
    of_topic = told.where(F.col("name").isin(*TELLING) & F.col("partition").isNull()).where(
        (F.col("name") != "topic.created") | F.col("initial")
    )
    place = F.min("at").over(Window.partitionBy(*_TOPIC, "identity"))
    place = F.when(F.col("name") == "topic.created", F.col("at")).otherwise(place)
    of_topic = of_topic.where("topic IS NOT NULL").select(*_TOPIC, place.alias("at"))
    if standing is not None:
        of_topic = of_topic.unionByName(standing.where("partition IS NULL").select(*_TOPIC, "at"))
    seen = of_topic.groupBy(*_TOPIC).agg(F.max("at").alias("at"))
    return own.unionByName(
        seen.select(
            *_TOPIC,
            F.lit(None).cast("int").alias("partition"),
            F.lit("topic.created").alias("name"),
            F.lit(True).alias("initial"),
            no_identity.alias("identity"),
            none.alias("prev_at"),
            "at",
            *(F.lit(None).cast("int").alias(name) for name in ("leader_before", "leader_after")),
        )
    )


def _runs(transitions: DataFrame, *key: str) -> DataFrame:
    in_time = Window.partitionBy(*key).orderBy("at", "down")
    said = F.lag("down").over(in_time)
    first = F.col("at") == F.col("first")
    return (
        transitions.withColumn("_new", said.isNull() | (said != F.col("down")))
        .withColumns(
            {
                "run": F.sum(F.col("_new").cast("int")).over(in_time),
                "first": F.last(F.when(F.col("_new"), F.col("at")), ignorenulls=True).over(in_time),
            }
        )
        .groupBy(*key, "run", "down", "first")
        .agg(
            F.max("at").alias("last"),
            # Whoever looked before the first observation and still found it otherwise narrows the bound.
            F.max(F.when(F.col("prev_at") < F.col("first"), F.col("prev_at"))).alias("_after"),
            F.min(F.struct("at", "name")).getField("name").alias("name"),  # the same one every time
            F.max(F.when(first, F.col("leader"))).alias("leader"),
            F.max(F.when(first, F.col("identity"))).alias("identity"),
        )
        .withColumn("_otherwise", F.lag("last").over(Window.partitionBy(*key).orderBy("run")))
        .withColumn(
            "after", F.greatest("_after", F.when(F.col("_otherwise") < F.col("first"), F.col("_otherwise")))
        )
        .select(*key, "run", *_RUN)
    )


def _spells(runs: DataFrame, *key: str) -> DataFrame:
    """Return the runs that are down, with what the next ones say of their ends."""
    by_run = Window.partitionBy(*key).orderBy("run")
    ends = {
        "ended_after": F.lead("after").over(by_run),
        "ended_by": F.lead("first").over(by_run),
        "ended_with": F.lead("name").over(by_run),
        "leader_after": F.lead("leader").over(by_run),
    }
    return (
        runs.withColumns(ends)
        .where("down")
        .select(
            *key,
            F.col("after").alias("began_after"),
            F.col("first").alias("began_by"),
            "ended_after",
            "ended_by",
            "ended_with",
            F.col("leader").alias("leader_before"),
            "leader_after",
        )
    )


def windows(outages: DataFrame) -> DataFrame:
    """Return the times in which at least one partition of a topic may have been offline.

    Columns: ``cluster_id, topic, start, end``, without overlaps, bounds at their widest; an outage that
    nobody saw begin starts when it was first seen, and one that nobody saw end has a null ``end``.
    """
    never = F.to_timestamp(F.lit("9999-12-31"))
    spans = outages.select(
        *_TOPIC,
        F.coalesce("began_after", "began_by").alias("start"),
        F.coalesce("ended_by", never).alias("end"),
    )
    earlier = Window.partitionBy(*_TOPIC).orderBy("start").rowsBetween(Window.unboundedPreceding, -1)
    in_order = Window.partitionBy(*_TOPIC).orderBy("start", "end")
    return (
        spans.withColumn("_reach", F.max("end").over(earlier))
        .withColumn("_new", F.col("_reach").isNull() | (F.col("_reach") < F.col("start")))
        .withColumn("_island", F.sum(F.col("_new").cast("int")).over(in_order))
        .groupBy(*_TOPIC, "_island")
        .agg(F.min("start").alias("start"), F.max("end").alias("end"))
        .select(*_TOPIC, "start", F.when(F.col("end") != never, F.col("end")).alias("end"))
    )
