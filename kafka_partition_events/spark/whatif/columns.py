"""Keys as columns: their hash, computed once, and of it where each scenario puts them. DataFrame in, out."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.partition_column import backend_of
from kafka_partition_events.spark.whatif.jump_column import JUMP, WIDTH
from kafka_partition_events.spark.whatif.plan import HashName, Place, Scenario

HASH: Final = "_kpe_hash"
_POSITIVE: Final = 0x7FFFFFFF

PlaceColumn = Callable[[Place], Column]
"""Returns the INT column of a place."""


def with_hash(rows: DataFrame, key: str = "key", hash_name: HashName = "murmur2") -> DataFrame:
    """Add the column `HASH`: the number from which every scenario follows, 0 or more; null for no key.

    Args:
        rows: With the keys, STRING or BINARY.
        key: The name of their column.
        hash_name: The key hash. With ``"crc32"`` an empty key is none, as to librdkafka.

    Raises:
        KeyHashError: the hash can't be computed rightly in this session.
    """
    column = F.col(_quoted(key)).cast("binary")
    if hash_name == "crc32":
        hashed = F.when(F.octet_length(column) > 0, F.crc32(column))
    else:
        hashed = backend_of(rows.sparkSession).hash_of(column).bitwiseAND(F.lit(_POSITIVE))
    return rows.withColumn(HASH, hashed)


def with_jumps(rows: DataFrame, places: Iterable[Place]) -> DataFrame:
    """Add for each place by the jump hash its INT column, to rows that have the column `HASH`.

    Raises:
        SparkJobError: the jump hash can't be computed rightly in this session.
    """
    jumps = sorted({place for place in places if place.rule == "rendezvous"}, reverse=True)
    if not jumps:
        return rows
    jumping = JUMP.backend_of(rows.sparkSession).hash_of
    among_more: Column | None = None
    for place in jumps:
        partition = jumping((F.col(HASH) % WIDTH).cast("bigint"), place.count)
        if among_more is not None:  # only who is on a partition that there would not be has to jump again
            partition = F.when(among_more < place.count, among_more).otherwise(partition)
        rows = rows.withColumn(place.column, partition)
        among_more = F.col(place.column)
    return rows


def partition_of(place: Place) -> Column:
    """Return the INT column of a place, of rows that `with_hash` and `with_jumps` have been at."""
    if place.rule == "modulo":
        return (F.col(HASH) % place.count).cast("int")
    return F.col(place.column)


def goes_to(scenario: Scenario, place: PlaceColumn) -> Column:
    """Return where a key's records go, as INT: null if there is no key, or if they are refused."""
    home = place(scenario.home)
    if not scenario.offline or scenario.keyed == "pin":
        return home
    elsewhere = F.lit(None).cast("int")
    if scenario.stand_in is not None:
        elsewhere = F.get(_constants(scenario.route.usable), place(scenario.stand_in))
    return F.when(is_offline(scenario, home), elsewhere).otherwise(home)


def is_offline(scenario: Scenario, partition: Column) -> Column:
    """Return whether a partition of the scenario is offline, as BOOLEAN."""
    return partition.isin(*sorted(scenario.offline)) if scenario.offline else F.lit(False)


def with_scenarios(
    rows: DataFrame, scenarios: Sequence[Scenario], key: str = "key", hash_name: HashName = "murmur2"
) -> DataFrame:
    """Add for each scenario an INT column of its name: where the row's key would go.

    Args:
        rows: With the keys, STRING or BINARY.
        scenarios: What would be the case.
        key: The name of the column with the keys.
        hash_name: The key hash.

    Raises:
        SparkJobError: a hash can't be computed rightly in this session.
    """
    places = [place for each in scenarios for place in each.places]
    placed = with_jumps(with_hash(rows, key, hash_name), places)
    goes = placed.withColumns({each.name: goes_to(each, partition_of) for each in scenarios})
    return goes.drop(HASH, *(place.column for place in places))


def _constants(values: Iterable[int]) -> Column:
    """Return a constant array made of one literal: making thousands of them takes seconds."""
    return F.split(F.lit(",".join(map(str, values))), ",").cast("array<int>")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
