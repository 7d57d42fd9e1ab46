"""Records -> what was told -> events. DataFrame in, DataFrame out.

A *sighting* is one record that tells of an event. Two observers tell one transition with one id, and so does
one that is restarted; each knows other bounds of when it happened, and all of them hold. So all sightings
are kept, and `merged` makes one event of those that tell the same.
"""

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events
from kafka_partition_events.spark.fleet.days import Days

REACH_DAYS: Final = 3
"""Sightings of one id that follow each other within so many days tell of one event."""

_DAY_US: Final = 86_400_000_000
_REACH_US: Final = REACH_DAYS * _DAY_US
_COORDINATES: Final = ("topic", "partition", "offset", "timestamp")
_TIES: Final = ("observer", "sequence", "severity", "detail", "before", "after", "broker", "dropped")


def day_of(moment: Column) -> Column:
    """Return the day of a time in UTC, whatever the session's time zone."""
    return F.date_from_unix_date(F.floor(F.unix_micros(moment) / _DAY_US).cast("int"))


# -- records -> what was told ------------------------------------------------------------------------------


def raw(records: DataFrame) -> DataFrame:
    """Return the rows of ``bronze/records``: as they came, with when they were taken in.

    ``day`` is that of the broker's timestamp, so it is the same when a batch is repeated.

    Args:
        records: ``key, value, topic, partition, offset, timestamp``.
    """
    return records.select(
        *_COORDINATES,
        "key",
        "value",
        F.current_timestamp().alias("ingested_at"),
        day_of(F.col("timestamp")).alias("day"),
    )


def mentioning(records: DataFrame, *names: str) -> DataFrame:
    """Return the records whose text has one of these names in it: parsing all others would be for nothing."""
    text = F.col("value").cast("string")
    return records.where(reduce(or_, (text.contains(name) for name in names)))


def parsed(records: DataFrame) -> DataFrame:
    """Return the columns of `kafka_partition_events.spark.events.parse`, and ``record``: where it stood."""
    coordinates = F.struct(*_COORDINATES, "key", "value").alias("record")
    return events.parse(records.select(coordinates, "value"), "record")


def good(told: DataFrame) -> DataFrame:
    """Return the rows of ``silver/sightings``, whose ``day`` is that of ``at``.

    Args:
        told: As `parsed` returns it.
    """
    return events.good(told).drop("record").withColumn("day", day_of(F.col("at")))


def quarantined(told: DataFrame) -> DataFrame:
    """Return the rows of ``bronze/quarantine``: records that are no events of ours, with the ``reason``.

    Args:
        told: As `parsed` returns it.
    """
    return told.where(F.col("defect").isNotNull()).select(
        "record.*",
        F.col("defect").alias("reason"),
        F.current_timestamp().alias("ingested_at"),
        day_of(F.col("record.timestamp")).alias("day"),
    )


# -- what was told -> events -------------------------------------------------------------------------------


def merged(sightings: DataFrame, *, new_after: int | None = None) -> DataFrame:
    """Return the rows of ``silver/events``: one per event, its bounds as narrow as all who told it make them.

    The first sighting of an id for three days tells a new event; those after it tell the same, unless three
    days pass without one. Only those within three days of the first narrow its bounds. So the events of some
    days follow from the sightings of these days and three more at both ends, whatever else is read; what
    this returns for the days at the ends may be wrong.

    Args:
        sightings: Rows of ``silver/sightings``.
        new_after: Adds the column ``doubles``: how many sightings in batches after this one told of an event
            that another one told of as well.
    """
    by_id = Window.partitionBy("source", "id").orderBy("_us")
    alone = F.count(F.lit(1)).over(by_id.rangeBetween(-_REACH_US, -1)) == 0
    near = F.col("_us") <= F.col("_begin") + _REACH_US
    best = Window.partitionBy("source", "id", "_begin").orderBy(near.desc(), "initial", "_us", *_TIES)
    event = best.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)  # the same order: one sort
    earlier = near & (F.unix_micros("prev_at") < F.col("_begin"))
    columns = {
        "prev_at": F.max(F.when(earlier, F.col("prev_at"))).over(event),
        "_gap": F.min(F.when(near, F.col("gap"))).over(event),  # somebody looked all the time
        # Planned, if one of them knew the change.
        **{name: F.max(name).over(event) for name in events.LABELS},
        "_rank": F.row_number().over(best),
    }
    if new_after is not None:
        new = F.count(F.when(F.col("batch") > new_after, 1)).over(event)
        first = (new == F.count(F.lit(1)).over(event)).cast("bigint")
        columns["doubles"] = F.when(new > 0, new - first).otherwise(0)
    return (
        sightings.withColumn("_us", F.unix_micros("at"))
        .withColumn("_alone", alone)
        .withColumn("_begin", F.max(F.when(F.col("_alone"), F.col("_us"))).over(by_id))
        .withColumns(columns)
        .where("_rank = 1")
        .withColumn("at", F.timestamp_micros("_begin"))
        .withColumn("gap", F.col("_gap"))
        .withColumn("day", day_of(F.col("at")))
        .drop("_us", "_alone", "_begin", "_rank", "_gap", "batch")
    )


def within(rows: DataFrame, days: Days) -> DataFrame:
    """Return the rows whose ``day`` is one of these days."""
    return rows.where(F.col("day").between(F.lit(days.first), F.lit(days.last)))


def touched(old: DataFrame, new: DataFrame) -> DataFrame:
    """Return the days (column ``day``) whose events new sightings may change.

    These are their own days, and those of earlier sightings of the same ids.

    Args:
        old: The sightings that were there, of the days of the new ones and three more at both ends.
        new: The new sightings.
    """
    same = old.join(new.select("source", "id").distinct(), ["source", "id"], "left_semi")
    return new.select("day").union(same.select("day")).distinct()
