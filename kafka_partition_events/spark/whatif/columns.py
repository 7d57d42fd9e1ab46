"""Keys as columns: their hash, computed once, and of it their places. DataFrame in, out."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.partitioner.hashes import JUMP, key_number
from kafka_partition_events.spark.whatif.plan import Place

HASH: Final = "_kpe_hash"
WIDTH: Final = 0x7FFFFFFF
"""What a hash is reduced to before it jumps, in Python: ``key_hash(key, WIDTH)``."""


def with_hash(rows: DataFrame, hash_name: HashName = "murmur2") -> DataFrame:
    """Add the column `HASH`: the number from which every scenario follows, 0 or more; null for no key.

    Args:
        rows: With the keys as ``key``, STRING or BINARY.
        hash_name: The key hash. With ``"crc32"`` an empty key is none, as to librdkafka.
    """
    return rows.withColumn(HASH, key_number(rows.sparkSession, F.col("key").cast("binary"), hash_name))


def with_jumps(rows: DataFrame, places: Iterable[Place]) -> DataFrame:
    """Add for each place by the jump hash its INT column, to rows that have the column `HASH`."""
    jumps = sorted({place for place in places if place.rule == "rendezvous"}, reverse=True)
    among_more: Column | None = None
    for place in jumps:
        number = (F.col(HASH) % WIDTH).cast("bigint")
        partition = JUMP.of(rows.sparkSession, number, F.lit(place.count))
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
