"""Who follows a change: `kafka_partition_events.control.changes.evidence`, computed a second time, by Spark.

What the tracker tells must be what this finds in the same records. So nothing here is taken from there but
the words, and a test of many made-up worlds holds one against the other.
"""

from collections.abc import Callable, Iterable
from typing import Final

from attrs import frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.control.changes.round import LOST_AFTER_MS
from kafka_partition_events.control.protocol.vocabulary import Gate, Kind, LeaseState, Role, State, Status
from kafka_partition_events.spark.control.latest import latest_acks, tenancies
from kafka_partition_events.spark.gold.intervals import day_of

_BACK: Final = (State.ROLLING_BACK, State.ROLLED_BACK)
_HAPPENED: Final = tuple(state for state in State if state.happened)
_FINAL: Final = tuple(state for state in State if state.final)
_FOLLOWED: Final = (Status.APPLIED, Status.CAPPED)
_REFUSED: Final = (Status.REJECTED, Status.FAILED)
SETTLED: Final = (*_FOLLOWED, *_REFUSED, Status.ROLLED_BACK)
"""What an instance says that has done what it will do."""

_PLACE: Final = ("partition", "offset")
_WHERE: Final = (*_PLACE, "at_ms")
_OF_PROCESS: Final = (
    "instance_id", "incarnation", "born_ms", "lease_seq", "at_ms", "digest", "state", "ttl_s",
)  # fmt: skip
_DETAILS: Final = ("role", "view", "client", "app", "app_version")
_OF_ANSWER: Final = (
    "instance_id", "incarnation", "born_ms", "ack_seq", "at_ms", "digest", "status", "reason",
)  # fmt: skip


def has_one_of(name: str, words: Iterable[str]) -> Column:
    """Return whether a column has one of these words; false where it has none."""
    return F.coalesce(F.col(name).isin(*words), F.lit(False))


# -- when and from what to count ---------------------------------------------------------------------------


def as_told(changes: DataFrame) -> DataFrame:
    """Return the points at which the tracker has counted: those of `latest_changes` that say so."""
    state = F.col("counted.state")
    return changes.where("counted IS NOT NULL").select(
        *_asked(),
        F.when(state.isin(*_HAPPENED), F.col("observed_ms")).alias("observed_ms"),
        F.col("counted.at_ms").alias("point_ms"),
        state.alias("point_state"),
        F.col("counted.leases").alias("leases_read"),
        F.col("counted.acks").alias("acks_read"),
    )


def as_known(changes: DataFrame, until_ms: int) -> DataFrame:
    """Return the points of what is known now, ``until_ms``, and of a finished change as it was told last.

    Not by the moment when it was finished, if that can be helped: what the tracker had read by then may have
    been appended a little later, by another broker's clock.
    """
    told = has_one_of("state", _FINAL) & F.col("counted").isNotNull()
    nothing = F.lit(None).cast("array<bigint>")
    rest = changes.where(~told).select(
        *_asked(),
        "observed_ms",
        F.coalesce("finished_ms", F.lit(until_ms)).alias("point_ms"),
        F.col("state").alias("point_state"),
        nothing.alias("leases_read"),
        nothing.alias("acks_read"),
    )
    return as_told(changes.where(told)).unionByName(rest)


def _asked() -> list[Column]:
    asked = ("cluster_id", "kind", "topic", "topic_id", "to_count")
    return [
        *map(F.col, ("change_id", "requested_ms", "gate")),
        *(F.col(f"spec.{name}").alias(name) for name in asked),
    ]


def is_read(read: str) -> Column:
    """Return whether a record counts at a point: below the offset, where one is told, else by its time."""
    by_time = F.col(read).isNull() & (F.col("at_ms") <= F.col("point_ms"))
    return by_time | (F.col("offset") < F.get(read, F.col("partition")))


def _is_remembered(at_ms: str, since: str) -> Column:
    """Return whether a lease is not older than the tracker, and the topic, remember."""
    return F.col(at_ms) >= F.col(since) - LOST_AFTER_MS


# -- who follows -------------------------------------------------------------------------------------------


def followers(points: DataFrame, leases: DataFrame, acks: DataFrame) -> DataFrame:
    """Return the producers that each change concerns, at its point.

    Columns: ``change_id, instance_id``, ``status`` (null: nothing heard), ``reason``, ``departed, late,
    duplicate``, ``followed`` (it has done what the change asks for), ``seen, used`` (partitions of the
    topic), ``lease_age_ms``, ``client, app, app_version``.

    Args:
        points: What `as_told` or `as_known` return: few.
        leases: Rows of ``silver/leases``.
        acks: Rows of ``silver/acks``.
    """
    points = F.broadcast(points)
    # Narrow rows first: of all leases of a fleet few are the last ones, and only these are looked into.
    counts = is_read("leases_read") & _is_remembered("at_ms", "requested_ms")
    read = leases.select(*_OF_PROCESS, *_PLACE).join(points, counts)
    held = tenancies(read.select("change_id", *_OF_PROCESS, *_PLACE), "change_id")
    known = (
        held.select("*", *(F.col(f"holder.{name}").alias(name) for name in _WHERE))
        .join(points, "change_id")
        .where(_is_remembered("at_ms", "point_ms") & ~_was_gone())
    )
    details = leases.select(*_WHERE, *_DETAILS, F.col("cluster_id").alias("_cluster"))
    concerned = details.join(F.broadcast(known), list(_WHERE)).withColumn("use", _use()).where(_concerns())

    answers = acks.select("change_id", *_OF_ANSWER, *_PLACE).join(points, "change_id")
    said = latest_acks(answers.where(is_read("acks_read")).select("change_id", *_OF_ANSWER)).select(
        "change_id", "instance_id", F.struct("incarnation", "status", "reason").alias("ack")
    )
    return _judged(concerned.join(said, ["change_id", "instance_id"], "left"))


def _was_gone() -> Column:
    """Return whether an instance had departed when the change was requested, and was not heard of since."""
    at, asked = F.col("holder.at_ms"), F.col("requested_ms")
    down = F.col("holder.state") == LeaseState.DOWN
    return (at < asked) & (down | (asked > at + 2_000 * F.col("holder.ttl_s")))


def _use() -> Column:
    """Return what an instance does with a point's topic; null if it does not say, or if there is no topic."""
    same = F.filter(
        "view",
        lambda use: (
            (use["topic"] == F.col("topic"))
            & (F.col("topic_id").isNull() | use["topic_id"].isNull() | (use["topic_id"] == F.col("topic_id")))
        ),
    )
    return F.get(same, F.lit(0))


def _concerns() -> Column:
    here = F.col("_cluster").isNull() | (F.col("_cluster") == F.col("cluster_id"))
    return (F.col("role") == Role.PRODUCER) & here & (F.col("topic").isNull() | F.col("use").isNotNull())


def _judged(rows: DataFrame) -> DataFrame:
    """Return what holds of each instance, from ``holder``, ``rival``, ``ack`` and the point."""
    now, at, ttl_ms = F.col("point_ms"), F.col("holder.at_ms"), 1_000 * F.col("holder.ttl_s")
    born = F.least("holder.born_ms", "rival.born_ms")  # it may have restarted; nulls are passed over
    down = F.col("holder.state") == LeaseState.DOWN
    alternates = (
        (F.col("rival.state") == LeaseState.UP)
        & (F.col("rival.at_ms") > F.col("holder.born_ms") + ttl_ms)
        & (now <= F.col("rival.at_ms") + ttl_ms)
    )
    # What another process under the same name has said does not hold for this one.
    heard = F.when(F.col("ack.incarnation") == F.col("holder.incarnation"), F.col("ack"))
    judged = rows.withColumn("_said", heard).withColumn("status", _status())
    return judged.select(
        "change_id",
        "instance_id",
        "status",
        F.coalesce("_said.reason", F.lit("")).alias("reason"),
        (down | (now > at + 2 * ttl_ms)).alias("departed"),
        F.coalesce(born > F.col("observed_ms"), F.lit(False)).alias("late"),
        F.coalesce(alternates, F.lit(False)).alias("duplicate"),
        (
            F.when(has_one_of("point_state", _BACK), F.col("status") == Status.ROLLED_BACK)
            .otherwise(F.col("status").isin(*_FOLLOWED))
            .alias("followed")
        ),
        F.col("use.seen").alias("seen"),
        F.col("use.used").alias("used"),
        (now - at).alias("lease_age_ms"),
        *("client", "app", "app_version"),
    )


def _status() -> Column:
    """Return what an instance says; where that is nothing final, what its lease shows."""
    said = F.col("_said.status")
    back = has_one_of("point_state", _BACK)
    done = F.when(back, said == Status.ROLLED_BACK).otherwise(said.isin(*_FOLLOWED))
    return (
        F.when(done | said.isin(*_REFUSED), said)
        .when(_shown().isNotNull(), _shown())
        .when(said.isin(*SETTLED), None)  # what it said before it was to roll back
        .otherwise(said)
    )


def _shown() -> Column:
    """Return what a lease proves: that growth has arrived, and nothing else."""
    grows = F.col("kind").isin(Kind.INCREASE, Kind.OBSERVE) & ~has_one_of("point_state", _BACK)
    seen, used, to_count = F.col("use.seen"), F.col("use.used"), F.col("to_count")
    # With a gate it may just not have heard that the gate is open; then it has to say that it is capped.
    few = (F.col("gate") == Gate.NONE) & has_one_of("point_state", _HAPPENED)
    return F.when(
        grows & (seen >= to_count), F.when(used >= to_count, Status.APPLIED).when(few, Status.CAPPED)
    )


# -- how many ----------------------------------------------------------------------------------------------


def totals(followers: DataFrame) -> DataFrame:
    """Return how many followers each change has: ``change_id`` and the fields of ``Totals``.

    But for ``uncovered``, which the brokers' writers decide. A change without followers has no row.
    """
    here, late = ~F.col("departed"), F.col("late")
    says = {status: here & ~late & (F.col("status") == status) for status in Status}
    counted = {
        **{str(status): condition for status, condition in says.items()},
        "pending": here & ~late & F.col("status").isNull(),
        "departed": ~here & ~late,
        "late_joined": here & late,
        "duplicates": here & F.col("duplicate"),
    }
    return followers.groupBy("change_id").agg(
        *(F.count_if(condition).alias(name) for name, condition in counted.items())
    )


# -- what the tables of changes are computed from ------------------------------------------------------------


@frozen(kw_only=True)
class ChangeInputs:
    """What was read of changes and of those whom they concern; still lazy.

    Attributes:
        changes: As `latest.last_known` returns them.
        followers: As `followers` returns them, of now.
        leases: Rows of ``silver/leases``.
        acks: Rows of ``silver/acks``.
        until_ms: The time now by the brokers' clock.
    """

    changes: DataFrame
    followers: DataFrame
    leases: DataFrame
    acks: DataFrame
    until_ms: int


ChangeTable = Callable[[ChangeInputs], DataFrame]
"""Returns the rows of one gold table, of all the changes. Pure."""


def inputs_of(changes: DataFrame, leases: DataFrame, acks: DataFrame, until_ms: int) -> ChangeInputs:
    """Return inputs. ``changes`` are read several times, so better computed already."""
    known = followers(as_known(changes, until_ms), leases, acks)
    return ChangeInputs(changes=changes, followers=known, leases=leases, acks=acks, until_ms=until_ms)


def day_of_change() -> Column:
    """Return ``day``: that of the request, by which the tables are replaced."""
    return day_of(F.col("requested_ms") * 1000).alias("day")
