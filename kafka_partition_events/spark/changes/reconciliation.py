"""The tracker's totals against Spark's own, of the same records: the difference must be 0."""

from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.changes.followers import as_told, followers, totals
from kafka_partition_events.spark.changes.inputs import ChangeInputs, day_of_change
from kafka_partition_events.spark.changes.records import TOTALS
from kafka_partition_events.spark.fleet.intervals import long

NOT_COUNTED: Final = "not_counted"
"""``cause``: the record does not say what its totals were counted from; there is nothing to compare."""
NOT_READ: Final = "not_read"
"""``cause``: the tracker has read records that were not read here yet."""
NOT_HERE: Final = "not_here"
"""``cause``: the tracker knows more producers: their leases were deleted before they were read here."""
NOT_THERE: Final = "not_there"
"""``cause``: the tracker knows fewer: it began when leases had been deleted that were read here before."""
DIFFERS: Final = "differs"
"""``cause``: both know as many. Restarts that one of them has not read of; or one of them counts wrongly."""

_SAYS: Final = tuple(name for name in TOTALS if name not in {"duplicates", "uncovered"})


def reconciliation(inputs: ChangeInputs) -> DataFrame:
    """Return, for the last record of each change, each total as it was told and as it is found.

    Columns: ``cluster_id, change_id, revision, state, field, tracker, spark, difference`` (``tracker`` less
    ``spark``; null if that can't be told), ``cause`` (null without a difference), ``day`` (of the request).
    """
    points = as_told(inputs.changes)
    found = totals(followers(points, inputs.leases, inputs.acks))
    unread = _unread(points, inputs)
    rows = (
        inputs.changes.join(
            found.select("change_id", F.struct(found.columns).alias("_found")), "change_id", "left"
        )
        .join(unread, "change_id", "left")
        .withColumn("_spark", F.struct(*(_found(name).alias(name) for name in TOTALS)))
    )
    told, here = (reduce(add, (F.col(f"{side}.{name}") for name in _SAYS)) for side in ("totals", "_spark"))
    cause = (
        F.when(F.col("counted").isNull(), NOT_COUNTED)
        .when(F.col("difference") == 0, None)
        .when(F.col("_unread"), NOT_READ)
        .when(F.col("_told") > F.col("_here"), NOT_HERE)
        .when(F.col("_told") < F.col("_here"), NOT_THERE)
        .otherwise(DIFFERS)
    )
    fields = F.array(
        *(
            F.struct(
                F.lit(name).alias("field"),
                F.col(f"totals.{name}").alias("tracker"),
                F.col(f"_spark.{name}").alias("spark"),
            )
            for name in TOTALS
        )
    )
    return (
        rows.withColumns({"_told": told, "_here": here})
        .select("*", F.inline(fields))
        .withColumn("difference", _difference())
        .select(
            F.col("spec.cluster_id").alias("cluster_id"),
            "change_id",
            "revision",
            "state",
            "field",
            "tracker",
            "spark",
            "difference",
            cause.alias("cause"),
            day_of_change(),
        )
    )


def _found(name: str) -> Column:
    """Return what is found of a total; null where nobody told from what to count."""
    nothing, writers = long(0), F.col("counted.writers")
    counted = F.coalesce("_found.known" if name == "uncovered" else f"_found.{name}", nothing)
    if name == "uncovered":
        return F.when(writers.isNotNull(), F.greatest(nothing, writers - counted))
    return F.when(F.col("counted").isNotNull(), counted)


def _difference() -> Column:
    difference = F.coalesce("tracker", long(0)) - F.coalesce("spark", long(0))
    return F.when(F.col("counted").isNotNull(), difference)


def _unread(points: DataFrame, inputs: ChangeInputs) -> DataFrame:
    """Return ``change_id, _unread``: whether the tracker had read beyond what was read here."""
    leases, acks = (F.broadcast(_ends(rows)) for rows in (inputs.leases, inputs.acks))
    return (
        points.crossJoin(leases.withColumnRenamed("ends", "_leases"))
        .crossJoin(acks.withColumnRenamed("ends", "_acks"))
        .select(
            "change_id", (_beyond("leases_read", "_leases") | _beyond("acks_read", "_acks")).alias("_unread")
        )
    )


def _ends(rows: DataFrame) -> DataFrame:
    """Return one row: ``ends``, the last offset by partition."""
    by_partition = rows.groupBy("partition").agg(F.max("offset").alias("last"))
    return by_partition.agg(F.map_from_entries(F.collect_list(F.struct("partition", "last"))).alias("ends"))


def _beyond(read: str, ends: str) -> Column:
    def beyond(next_: Column, partition: Column) -> Column:
        # One more, for the mark of a transaction takes an offset.
        return next_ > 2 + F.coalesce(F.try_element_at(ends, partition), F.lit(-1))

    return F.exists(F.transform(read, beyond), lambda one: one)
