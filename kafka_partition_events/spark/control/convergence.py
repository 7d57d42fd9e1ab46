"""How far each change is, in one row; and who has not followed it."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.control.protocol.records import GROUP_PREFIX
from kafka_partition_events.control.protocol.vocabulary import Role, State
from kafka_partition_events.spark.control.followers import (
    SETTLED,
    ChangeInputs,
    as_known,
    day_of_change,
    has_one_of,
    is_read,
    totals,
)
from kafka_partition_events.spark.control.records import TOTALS

MOST: Final = 1_000
"""How many instances of a change are listed."""

_COUNTS: Final = tuple(name for name in TOTALS if name != "uncovered")
_QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def change_convergence(inputs: ChangeInputs) -> DataFrame:
    """Return one row per change.

    What was asked for and became of it: ``cluster_id, change_id, kind, topic, broker, from_count, to_count,
    requested_by, state, final, retired, late, blind, reason, gate, opened_by, requested_at, observed_at,
    gate_opened_at, deadline_at, finished_at, overdue_s`` (by how much it passed its deadline).

    Producers, as Spark counts them now, or at the end: ``cohort`` (live or departed), the totals
    (``applied, capped, ...``), ``uncovered`` (as the tracker tells), ``by_client`` (an array of ``client,
    live, followed``).

    Delays from ``observed_at`` to the first answer of a producer that has done what it will do: ``acks``
    (how many), ``ack_min_s, ack_p50_s, ack_p95_s, ack_p99_s, ack_max_s``. Who has answered at all:
    ``by_role`` (an array of ``role, answered``).

    Groups: ``groups_required`` (those named, or those that somebody answered for), ``groups_covered``.

    ``unverified``: how many reasons there are why the numbers may not be complete; ``day`` of the request.
    """
    unanswered = F.array().cast("array<struct<role: string, answered: bigint>>")
    nobody = F.array().cast("array<struct<client: string, live: bigint, followed: bigint>>")
    return (
        inputs.changes.join(totals(inputs.followers), "change_id", "left")
        .join(_by_client(inputs.followers), "change_id", "left")
        .join(_answers(inputs), "change_id", "left")
        .fillna(0, [*_COUNTS, "acks"])
        .select(
            *_asked(inputs),
            (_live() + F.col("departed")).alias("cohort"),
            *_COUNTS,
            F.col("totals.uncovered").alias("uncovered"),
            F.coalesce("by_client", nobody).alias("by_client"),
            "acks",
            *(f"ack_{name}_s" for name in ("min", *_QUANTILES, "max")),
            F.coalesce("by_role", unanswered).alias("by_role"),
            _required().alias("groups_required"),
            (_required() - F.coalesce(F.size("uncovered_groups"), F.lit(0))).alias("groups_covered"),
            F.coalesce(F.size("unverified"), F.lit(0)).alias("unverified"),
            day_of_change(),
        )
    )


def _asked(inputs: ChangeInputs) -> list[Column]:
    spec = ("cluster_id", "kind", "topic", "broker", "from_count", "to_count")
    moments = ("requested", "observed", "gate_opened", "deadline", "finished")
    passed = F.coalesce("finished_ms", F.lit(inputs.until_ms)) - F.col("deadline_ms")
    plain = ("requested_by", "state", "retired", "late", "blind", "reason", "gate", "opened_by")
    return [
        F.col("change_id"),
        *(F.col(f"spec.{name}").alias(name) for name in spec),
        *(F.col(name) for name in plain),
        has_one_of("state", (state for state in State if state.final)).alias("final"),
        *(F.timestamp_millis(f"{name}_ms").alias(f"{name}_at") for name in moments),
        (F.greatest(F.lit(0), passed) / 1_000).alias("overdue_s"),
    ]


def _live() -> Column:
    apart = {"departed", "late_joined", "duplicates"}
    return sum((F.col(name) for name in _COUNTS if name not in apart), F.lit(0))


def _required() -> Column:
    """Return how many groups are required. Where none is named, those are that somebody has told of."""
    told = F.array_union(
        F.coalesce("_groups", F.array().cast("array<string>")),
        F.coalesce("uncovered_groups", F.array().cast("array<string>")),
    )
    return F.coalesce(F.array_size("spec.required_groups"), F.size(told))


def _by_client(followers: DataFrame) -> DataFrame:
    here = ~F.col("departed") & ~F.col("late")
    by_client = followers.groupBy("change_id", "client").agg(
        F.count_if(here).alias("live"), F.count_if(here & F.col("followed")).alias("followed")
    )
    entry = F.struct("client", "live", "followed")
    return by_client.groupBy("change_id").agg(F.sort_array(F.collect_list(entry)).alias("by_client"))


def _answers(inputs: ChangeInputs) -> DataFrame:
    """Return what acks tell of each change: delays, roles and groups."""
    points = F.broadcast(as_known(inputs.changes, inputs.until_ms))
    settled_ms = F.min(F.when(has_one_of("status", SETTLED), F.col("at_ms")))
    producer = F.col("role") == Role.PRODUCER
    by_instance = (
        inputs.acks.join(points, "change_id")
        .where(is_read("acks_read"))
        .groupBy("change_id", "instance_id", "role", "observed_ms")
        .agg(settled_ms.alias("_settled_ms"), F.max(_group()).alias("_group"))
    )
    seconds = F.greatest(F.lit(0), F.col("_settled_ms") - F.col("observed_ms")) / 1_000
    delay = F.when(producer, seconds)
    answered = {role: F.count_if(F.col("role") == role).alias("answered") for role in Role}
    counts = F.array(*(F.struct(F.lit(role).alias("role"), many) for role, many in answered.items()))
    found = by_instance.groupBy("change_id").agg(
        F.count(delay).alias("acks"),
        F.min(delay).alias("ack_min_s"),
        F.percentile(delay, list(_QUANTILES.values())).alias("_quantiles"),
        F.max(delay).alias("ack_max_s"),
        F.filter(counts, lambda one: one["answered"] > 0).alias("by_role"),
        F.collect_set(F.when(~producer, F.col("_group"))).alias("_groups"),
    )
    quantiles = {f"ack_{name}_s": F.get("_quantiles", F.lit(place)) for place, name in enumerate(_QUANTILES)}
    return found.withColumns(quantiles).drop("_quantiles")


def _group() -> Column:
    """Return for which group an ack speaks."""
    prefixed = F.col("instance_id").startswith(GROUP_PREFIX)
    return F.coalesce("group", F.when(prefixed, F.substring("instance_id", len(GROUP_PREFIX) + 1, 1_000)))


def change_laggards(inputs: ChangeInputs) -> DataFrame:
    """Return the producers of each change that are not there, or were not when it was finished.

    First those that it waits for, then those that came late, then the departed; at most `MOST` of a change.

    Columns: ``cluster_id, change_id, rank, instance_id, status`` (null: nothing heard), ``reason``, ``seen,
    used`` (partitions of the topic), ``lease_age_s, departed, late, duplicate, client, app, app_version``,
    ``day`` (of the request).
    """
    first = Window.partitionBy("change_id").orderBy("departed", "late", "instance_id")
    of_change = inputs.changes.select(
        "change_id", F.col("spec.cluster_id").alias("cluster_id"), day_of_change()
    )
    return (
        inputs.followers.where("NOT coalesce(followed, false)")
        .withColumn("rank", F.row_number().over(first))
        .where(F.col("rank") <= MOST)
        .join(F.broadcast(of_change), "change_id")
        .select(
            *("cluster_id", "change_id", "rank", "instance_id", "status", "reason", "seen", "used"),
            (F.col("lease_age_ms") / 1_000).alias("lease_age_s"),
            *("departed", "late", "duplicate", "client", "app", "app_version", "day"),
        )
    )
