"""Records of ``kpe.changes`` -> rows of ``silver/changes``. DataFrame in, DataFrame out.

As `control.protocol.codec` reads them, but by Spark's own functions: what it refuses or passes over has a
``defect``. (It is a little stricter: here a number does for a text.)
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.control.protocol.codec import FORMATS, VERSION
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.spark.events import UNKNOWN, UNPARSED
from kafka_partition_events.spark.gold.intervals import day_of

COORDINATES: Final = ("topic", "partition", "offset", "timestamp")
TOTALS: Final = ("applied", "capped", "held", "pending", "unarmed")
"""The fields of `control.protocol.records.Totals`."""

_CHANGE: Final = f"""
    change_id STRING, tracker_epoch BIGINT, revision BIGINT, state STRING,
    spec STRUCT<
        cluster_id: STRING, topic: STRING, topic_id: STRING, from_count: INT, to_count: INT,
        deadline_s: DOUBLE
    >,
    requested_by STRING, why STRING, requested_ms BIGINT, observed_ms BIGINT, finished_ms BIGINT,
    opened_by STRING, detail STRING, totals STRUCT<{", ".join(f"{name}: BIGINT" for name in TOTALS)}>,
    groups ARRAY<STRUCT<group: STRING, followed: BOOLEAN>>, unverified ARRAY<STRING>
"""
_HEADER: Final = "format STRING, version STRING, _corrupt_record STRING"
_REQUIRED: Final = (
    *("change_id", "tracker_epoch", "revision", "state", "requested_by", "requested_ms"),
    *("spec.cluster_id", "spec.topic", "spec.from_count", "spec.to_count"),
)


def rows(records: DataFrame) -> DataFrame:
    """Return a row for each record: its fields, and what is wrong with it, in ``defect``.

    Besides the fields: ``topic, partition, offset, timestamp``, ``at_ms`` (when the broker appended it),
    ``digest`` (what decides between records that differ in nothing but their content), ``tombstone``,
    ``day``; ``value``, what came, where there is a defect.
    """
    text = F.col("value").cast("string")
    read = records.select(
        *COORDINATES,
        "key",
        "value",
        F.ltrim(text).startswith("{").alias("_object"),
        F.from_json(text, f"{_HEADER}, {_CHANGE}").alias("_record"),
    )
    defect = F.when(F.col("value").isNotNull(), _defect()).alias("defect")
    names = read.select("_record.*").columns[len(_HEADER.split(",")) :]
    fields = {name: F.col(f"_record.{name}") for name in names}
    fields["detail"] = F.coalesce("_record.detail", F.lit(""))
    named = F.col("key").cast("string")
    fields["change_id"] = F.coalesce("_record.change_id", named)
    return read.select(
        *COORDINATES,
        F.unix_millis("timestamp").alias("at_ms"),
        *(column.alias(name) for name, column in fields.items()),
        F.col("value").isNull().alias("tombstone"),
        F.sha2("value", 256).alias("digest"),
        defect,
        F.when(defect.isNotNull(), F.col("value")).alias("value"),
        day_of(F.unix_micros("timestamp")).alias("day"),
    )


def _defect() -> Column:
    """Return what is wrong with a record that is no tombstone; null: nothing."""

    def field(name: str) -> Column:
        return F.col(f"_record.{name}")

    def is_good(*conditions: Column) -> Column:
        return F.coalesce(F.forall(F.array(*conditions), lambda one: one), F.lit(False))

    ours = is_good(F.col("_object"), field("format") == FORMATS[Change])
    fits = is_good(
        field("_corrupt_record").isNull(),
        *(field(name).isNotNull() for name in _REQUIRED),
        field("state").isin(*State),
    )
    return (
        F.when(~ours, UNPARSED)
        .when(~field("version").eqNullSafe(str(VERSION)), UNKNOWN)
        .when(~fits, UNPARSED)
    )
