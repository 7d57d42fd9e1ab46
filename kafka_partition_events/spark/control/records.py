"""Records of ``kpe.changes``, ``kpe.leases`` and ``kpe.acks`` -> columns. DataFrame in, DataFrame out.

As `control.protocol.codec` reads them, but by Spark's own functions: what it refuses or passes
over goes to quarantine, with the reason. (It is a little stricter: here a number does for a text.)
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from attrs import frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.control.protocol.codec import FORMATS, VERSION
from kafka_partition_events.control.protocol.records import Ack, Change, Lease
from kafka_partition_events.control.protocol.vocabulary import State, Status
from kafka_partition_events.spark.events import UNKNOWN, UNPARSED
from kafka_partition_events.spark.gold.intervals import day_of

COORDINATES: Final = ("topic", "partition", "offset", "timestamp")
TOTALS: Final = ("applied", "capped", "held", "pending", "unarmed")
"""The fields of `control.protocol.records.Totals`."""

_PARTITIONS: Final = r"^(\d+(-\d+)?(,\d+(-\d+)?)*)?$"
_HEADER: Final = "format STRING, version STRING, _corrupt_record STRING"
_CHANGE: Final = f"""
    change_id STRING, tracker_epoch BIGINT, revision BIGINT, state STRING,
    spec STRUCT<
        cluster_id: STRING, topic: STRING, topic_id: STRING, from_count: INT, to_count: INT,
        deadline_s: DOUBLE, required_groups: ARRAY<STRING>
    >,
    requested_by STRING, why STRING, requested_ms BIGINT, observed_ms BIGINT, finished_ms BIGINT,
    opened_by STRING, detail STRING, totals STRUCT<{", ".join(f"{name}: BIGINT" for name in TOTALS)}>,
    groups ARRAY<STRUCT<group: STRING, followed: BOOLEAN>>, unverified ARRAY<STRING>
"""
_LEASE: Final = """
    instance_id STRING, incarnation STRING, lease_seq BIGINT, born_ms BIGINT, `group` STRING, ttl_s DOUBLE,
    view ARRAY<STRUCT<topic: STRING, topic_id: STRING, seen: INT, used: INT, affords: INT>>
"""
_ACK: Final = """
    change_id STRING, instance_id STRING, incarnation STRING, ack_seq BIGINT, born_ms BIGINT,
    status STRING, armed_count INT, assigned STRING, positioned STRING
"""


@frozen(kw_only=True)
class _Form:
    """What records of one topic look like.

    Attributes:
        format: What they call themselves.
        schema: Their fields.
        required: Those that must be there.
        words: Those that have a list of values.
        defaults: What those are that are missing.
        sets: Those that are partition ids.
    """

    format: str
    schema: str
    required: tuple[str, ...]
    words: Mapping[str, type[StrEnum]]
    defaults: Mapping[str, object]
    sets: tuple[str, ...] = ()


_FORMS: Final = {
    "changes": _Form(
        format=FORMATS[Change],
        schema=_CHANGE,
        required=(
            *("change_id", "tracker_epoch", "revision", "state", "requested_by", "requested_ms"),
            *("spec.cluster_id", "spec.topic", "spec.from_count", "spec.to_count"),
        ),
        words={"state": State},
        defaults={"detail": ""},
    ),
    "leases": _Form(
        format=FORMATS[Lease],
        schema=_LEASE,
        required=("instance_id", "incarnation", "lease_seq"),
        words={},
        defaults={"ttl_s": 90.0},
    ),
    "acks": _Form(
        format=FORMATS[Ack],
        schema=_ACK,
        required=("change_id", "instance_id", "incarnation", "ack_seq", "status"),
        words={"status": Status},
        defaults={},
        sets=("assigned", "positioned"),
    ),
}
TOPICS: Final = tuple(_FORMS)
"""The names of the topics, without their prefix."""


def parse(records: DataFrame) -> DataFrame:
    """Return for each record ``record``, ``of``, ``changes``, ``leases``, ``acks``, ``defect``.

    Records are of topics that are called so, with any prefix. ``record`` is what came, as a struct, ``of``
    which of the topics it came from. The column of that name has what it tells, as far as it is understood;
    null for a tombstone.
    """
    text = F.col("value").cast("string")
    name_of = F.coalesce(*(F.when(F.col("topic").endswith(name), name) for name in _FORMS))
    rows = records.select(
        F.struct(*COORDINATES, "key", "value").alias("record"),
        name_of.alias("of"),
        F.ltrim(text).startswith("{").alias("_object"),
        *(
            F.when(name_of == name, F.from_json(text, f"{_HEADER}, {form.schema}")).alias(name)
            for name, form in _FORMS.items()
        ),
    )
    defects = [_defect(name, form) for name, form in _FORMS.items()]
    return rows.withColumn("defect", F.when(F.col("record.value").isNotNull(), F.coalesce(*defects)))


def told(parsed: DataFrame, topic: str) -> DataFrame:
    """Return the rows of ``silver/TOPIC`` of what `parse` returned: good records, and changes' tombstones.

    Besides the fields: ``topic, partition, offset, timestamp``, ``at_ms`` (when the broker appended it),
    ``digest`` (what decides between records that differ in nothing but their content), ``day``; of changes
    ``tombstone``; of leases and acks ``born_ms`` as it counts: when the process's first lease was appended.
    """
    form = _FORMS[topic]
    at_ms = F.unix_millis("record.timestamp")
    fields = {
        name: F.coalesce(f"{topic}.{name}", F.lit(form.defaults[name]))
        if name in form.defaults
        else F.col(f"{topic}.{name}")
        for name in parsed.select(f"{topic}.*").columns
        if name not in {"format", "version", "_corrupt_record"}
    }
    if topic == "changes":
        tombstone = F.col("record.value").isNull()
        key = F.col("record.key").cast("string")
        fields["change_id"] = F.coalesce("changes.change_id", F.substring_index(key, "|", -1))
        fields["tombstone"] = tombstone
        chosen = parsed.where(F.col("changes").isNotNull() | tombstone)
    else:
        fields["born_ms"] = F.least(F.coalesce(f"{topic}.born_ms", at_ms), at_ms)
        chosen = parsed.where(F.col(topic).isNotNull())
    return chosen.where((F.col("of") == topic) & F.col("defect").isNull()).select(
        *(F.col(f"record.{name}").alias(name) for name in COORDINATES),
        at_ms.alias("at_ms"),
        *(column.alias(name) for name, column in fields.items()),
        F.sha2("record.value", 256).alias("digest"),
        day_of(F.unix_micros("record.timestamp")).alias("day"),
    )


def quarantined(parsed: DataFrame) -> DataFrame:
    """Return the rows of ``bronze/control_quarantine``: what can't be understood, with the ``reason``."""
    return parsed.where(F.col("defect").isNotNull()).select(
        "record.*",
        F.col("defect").alias("reason"),
        F.current_timestamp().alias("ingested_at"),
        day_of(F.unix_micros("record.timestamp")).alias("day"),
    )


def _defect(topic: str, form: _Form) -> Column:
    """Return what is wrong with a record of this topic; null for others."""

    def field(name: str) -> Column:
        return F.col(f"{topic}.{name}")

    def is_good(*conditions: Column) -> Column:
        return F.coalesce(F.forall(F.array(*conditions), lambda one: one), F.lit(False))

    ours = is_good(F.col("_object"), field("format") == form.format)
    fits = is_good(
        field("_corrupt_record").isNull(),
        *(field(name).isNotNull() for name in form.required),
        *(field(name).isNull() | field(name).isin(*kind) for name, kind in form.words.items()),
        *(field(name).isNull() | field(name).rlike(_PARTITIONS) for name in form.sets),
        *([_has_whole_uses()] if topic == "leases" else []),
    )
    return F.when(
        F.col("of") == topic,
        F.when(~ours, UNPARSED)
        .when(~field("version").eqNullSafe(str(VERSION)), UNKNOWN)
        .when(~fits, UNPARSED),
    )


def _has_whole_uses() -> Column:
    view = F.col("leases.view")
    partly = F.exists(view, lambda use: use["topic"].isNull() | use["seen"].isNull() | use["used"].isNull())
    return view.isNull() | ~partly
