"""Keys as columns: their hash, computed once, and of it their places. DataFrame in, out."""

from collections.abc import Callable, Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.routing.jump import jump
from kafka_partition_events.spark.partition_column import backend_of
from kafka_partition_events.spark.partitioner.jvm_function import JvmFunction, arrow_column
from kafka_partition_events.spark.whatif.plan import HashName, Place

HASH: Final = "_kpe_hash"
WIDTH: Final = 0x7FFFFFFF
"""What a hash is reduced to before it jumps, in Python: ``key_hash(key, WIDTH)``."""

_COUNTS: Final = (1, 2, 13, 1_000)
_PROBES: Final = 200
_SPREAD: Final = 0x9E3779B1


def with_hash(rows: DataFrame, hash_name: HashName = "murmur2") -> DataFrame:
    """Add the column `HASH`: the number from which every scenario follows, 0 or more; null for no key.

    Args:
        rows: With the keys as ``key``, STRING or BINARY.
        hash_name: The key hash. With ``"crc32"`` an empty key is none, as to librdkafka.

    Raises:
        KeyHashError: the hash can't be computed rightly in this session.
    """
    key = F.col("key").cast("binary")
    if hash_name == "crc32":
        return rows.withColumn(HASH, F.when(F.octet_length(key) > 0, F.crc32(key)))
    return rows.withColumn(HASH, backend_of(rows.sparkSession).hash_of(key).bitwiseAND(F.lit(WIDTH)))


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


# -- the jump hash: `routing.jump`, number for number ------------------------------------------------------


def _numpy() -> Callable[..., Column]:
    from kafka_partition_events.spark.partitioner.numpy_hash import jumping_to  # noqa: PLC0415 - imports NumPy

    return lambda numbers, count: arrow_column(jumping_to(count))(numbers)


def _answers() -> dict[str | None, object]:
    numbers = [place * _SPREAD % WIDTH for place in range(_PROBES)]
    answers: dict[str | None, object] = {None: [None] * len(_COUNTS)}
    answers.update({str(number): [jump(number, count) for count in _COUNTS] for number in numbers})
    return answers


JUMP: Final = JvmFunction(
    name="jump hash",
    method=("com.google.common.hash.Hashing", "consistentHash"),  # Guava's, of a jar that Spark ships
    jvm=lambda numbers, count: (numbers, F.lit(count)),
    arrow=_numpy,
    answers=_answers,
    ask=lambda jumping, text: F.array(*(jumping(text.cast("bigint"), count) for count in _COUNTS)),
    cure="; leave the mapping rendezvous out",
)
"""Of a BIGINT column of numbers, 0 or more, and how many partitions there are."""
