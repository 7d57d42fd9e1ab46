"""Counts a sample's keys for all scenarios at once.

A row's key is hashed once; all places that the scenarios need follow as integer columns. Rows are grouped by
those, natively and in one pass: there are few combinations (`plan.packed`), so what is left is small whatever
the size of the sample, and only that is taken apart by scenario and partition.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.spark.whatif.columns import goes_to, is_offline, place_columns, with_hash
from kafka_partition_events.spark.whatif.plan import (
    MOST_COMBINATIONS,
    HashName,
    Pack,
    Place,
    Scenario,
    packed,
)
from kafka_partition_events.spark.whatif.results import Counted, Fate, Load, Side

MOST_PLACES = 60
"""How many columns Spark can group by in several ways at once."""

_PACK, _RECORDS, _BYTES = "_kpe_pack", "_kpe_records", "_kpe_bytes"


def count(
    sample: DataFrame,
    scenarios: Sequence[Scenario],
    hash_name: HashName = "murmur2",
    *,
    limit: int = MOST_COMBINATIONS,
) -> tuple[Counted, ...]:
    """Count a sample; runs one Spark job.

    Args:
        sample: With ``key`` (STRING or BINARY, null for none) and ``bytes`` (BIGINT).
        scenarios: What would be the case.
        hash_name: The key hash.
        limit: How many groups are counted together; see `packed`.

    Raises:
        ConfigurationError: there are too many different numbers of partitions.
        SparkJobError: a hash can't be computed rightly in this session.
    """
    return tuple(
        Counted(
            scenario=row["scenario"],
            side=Side(row["side"]),
            partition=row["partition"],
            moved=row["moved"],
            fate=Fate(row["fate"]),
            load=Load(row["records"], row["bytes"]),
        )
        for row in by_partition(sample, scenarios, hash_name, limit=limit).collect()
    )


def by_partition(
    sample: DataFrame,
    scenarios: Sequence[Scenario],
    hash_name: HashName = "murmur2",
    *,
    limit: int = MOST_COMBINATIONS,
) -> DataFrame:
    """Return what `count` collects: ``scenario, side, partition, moved, fate, records, bytes``. Lazy."""
    packs = packed(scenarios, limit)
    places = list(dict.fromkeys(place for pack in packs for place in pack.places))
    if len(places) > MOST_PLACES:
        raise ConfigurationError(
            f"these scenarios need {len(places)} different numbers of partitions, {MOST_PLACES} are possible "
            "at a time: ask about some of them first"
        )
    column = place_columns(sample.sparkSession, scenarios)
    hashed = with_hash(sample, "key", hash_name)
    placed = hashed.select(*(column(place).alias(place.column) for place in places), "bytes")
    return _taken_apart(_combined(placed, packs, places), scenarios, packs, places)


def _combined(placed: DataFrame, packs: Sequence[Pack], places: Sequence[Place]) -> DataFrame:
    """Return how many rows share a combination of places, for each pack."""
    names = [place.column for place in places]
    totals = (F.count(F.lit(1)).alias(_RECORDS), F.sum("bytes").alias(_BYTES))
    if len(packs) == 1:
        return placed.groupBy(*names).agg(*totals).withColumn(_PACK, F.lit(0).cast("bigint"))
    sets = [[place.column for place in pack.places] for pack in packs]
    return placed.groupingSets(sets, *names).agg(*totals, F.grouping_id().alias(_PACK))


def _pack_ids(packs: Sequence[Pack], places: Sequence[Place]) -> list[int]:
    """Return how Spark numbers the packs: a bit for each column that is not in it, the first one highest."""
    if len(packs) == 1:
        return [0]
    return [
        sum((place not in pack.places) << (len(places) - 1 - at) for at, place in enumerate(places))
        for pack in packs
    ]


def _taken_apart(
    combined: DataFrame, scenarios: Sequence[Scenario], packs: Sequence[Pack], places: Sequence[Place]
) -> DataFrame:
    pack_of: Mapping[int, int] = {
        scenario: id_
        for pack, id_ in zip(packs, _pack_ids(packs, places), strict=True)
        for scenario in pack.scenarios
    }
    sides = [
        F.when(F.col(_PACK) == pack_of[index], side)
        for index, scenario in enumerate(scenarios)
        for side in _sides(index, scenario)
    ]
    each = combined.select(_RECORDS, _BYTES, F.explode(F.array(*sides)).alias("side")).where(
        F.col("side").isNotNull()
    )
    return each.groupBy("side.scenario", "side.side", "side.partition", "side.moved", "side.fate").agg(
        F.sum(_RECORDS).alias("records"), F.coalesce(F.sum(_BYTES), F.lit(0)).alias("bytes")
    )


def _sides(index: int, scenario: Scenario) -> tuple[Column, Column]:
    """Return what a combination of places means in a scenario, as two structs."""
    before, home = _counted(scenario.before), _counted(scenario.home)
    goes = goes_to(scenario, _counted)
    fate = (
        F.when(home.isNull(), F.lit(Fate.UNKEYED.value))
        .when(goes.isNull(), F.lit(Fate.REFUSED.value))
        .when(is_offline(scenario, goes), F.lit(Fate.HELD.value))
        .when(goes != home, F.lit(Fate.REROUTED.value))
        .otherwise(F.lit(Fate.HOME.value))
    )
    moved = F.coalesce(home != before, F.lit(False))
    return (
        _side(index, Side.BEFORE, before, F.lit(False), F.lit(Fate.HOME.value)),
        _side(index, Side.AFTER, goes, moved, fate),
    )


def _counted(place: Place) -> Column:
    return F.col(place.column)


def _side(index: int, side: Side, partition: Column, moved: Column, fate: Column) -> Column:
    return F.struct(
        F.lit(index).alias("scenario"),
        F.lit(side.value).alias("side"),
        partition.alias("partition"),
        moved.alias("moved"),
        fate.alias("fate"),
    )
