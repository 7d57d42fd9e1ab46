"""Counts a sample's keys for all scenarios at once.

A row's key is hashed once; where it is in all scenarios follows as one number for each pack (`codes`). Rows
are grouped by that, natively and in one pass: there are few combinations (`plan.packed`), so what is left is
small whatever the size of the sample, and only that is taken apart by scenario and partition.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.whatif.codes import Code
from kafka_partition_events.spark.whatif.columns import goes_to, is_offline, with_hash, with_jumps
from kafka_partition_events.spark.whatif.plan import (
    MOST_COMBINATIONS,
    HashName,
    Pack,
    Place,
    Scenario,
    packed,
)
from kafka_partition_events.spark.whatif.results import Counted, Fate, Load, Side

_CODE, _RECORDS, _BYTES = "_kpe_code", "_kpe_records", "_kpe_bytes"


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
    codes = coded(packs := packed(scenarios, limit))
    places = [place for code in codes for place in code.places]
    hashed = with_jumps(with_hash(sample, "key", hash_name), places)
    code_of = {index: code for pack, code in zip(packs, codes, strict=True) for index in pack.scenarios}
    sides = [
        F.when(code_of[index].holds(F.col(_CODE)), side)
        for index, scenario in enumerate(scenarios)
        for side in _sides(index, scenario)
    ]
    each = (
        _with_places(_combined(hashed, codes), codes)
        .select(_RECORDS, _BYTES, F.explode(F.array(*sides)).alias("side"))
        .where(F.col("side").isNotNull())
    )
    return each.groupBy("side.scenario", "side.side", "side.partition", "side.moved", "side.fate").agg(
        F.sum(_RECORDS).alias("records"), F.coalesce(F.sum(_BYTES), F.lit(0)).alias("bytes")
    )


def coded(packs: Sequence[Pack]) -> tuple[Code, ...]:
    """Return the packs' codes, which have no number in common."""
    codes: list[Code] = []
    for pack in packs:
        codes.append(Code(pack.places, first=codes[-1].last + 1 if codes else 0))
    return tuple(codes)


def _combined(hashed: DataFrame, codes: Sequence[Code]) -> DataFrame:
    """Return how many rows have each code; a row has one of each pack."""
    own = [code.column() for code in codes]
    column = own[0] if len(own) == 1 else F.explode(F.array(*own))
    totals = (F.count(F.lit(1)).alias(_RECORDS), F.sum("bytes").alias(_BYTES))
    return hashed.select(column.alias(_CODE), "bytes").groupBy(_CODE).agg(*totals)


def _with_places(combined: DataFrame, codes: Sequence[Code]) -> DataFrame:
    """Add a column for each place; null for no key, and for a place that a code says nothing of."""
    number = F.col(_CODE)
    told: dict[Place, list[Column]] = {}
    for code in codes:
        for place, partition in code.places_of(number).items():
            told.setdefault(place, []).append(F.when(code.holds(number), partition))
    return combined.withColumns({place.column: F.coalesce(*each) for place, each in told.items()})


def _sides(index: int, scenario: Scenario) -> tuple[Column, Column]:
    """Return what a combination of places means in a scenario, as two structs."""
    before, home = _place(scenario.before), _place(scenario.home)
    goes = goes_to(scenario, _place)
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


def _place(place: Place) -> Column:
    return F.col(place.column)


def _side(index: int, side: Side, partition: Column, moved: Column, fate: Column) -> Column:
    return F.struct(
        F.lit(index).alias("scenario"),
        F.lit(side.value).alias("side"),
        partition.alias("partition"),
        moved.alias("moved"),
        fate.alias("fate"),
    )
