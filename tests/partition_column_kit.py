"""Rows with and without keys, and where the partition column places them."""

import random
from collections import Counter
from collections.abc import Collection
from typing import Any

from kafka.partitioner.default import murmur2
from pyspark.sql import DataFrame, SparkSession

from kafka_partition_events.spark.partition_column import with_partition
from kafka_partition_events.testing.scripted import cluster_of

RNG = random.Random(20261121)
KEYS: list[bytes | None] = [
    None,
    b"",
    b"\x00",
    b"\xff\xfe\x80",
    *(RNG.randbytes(RNG.randrange(71)) for _ in range(500)),
    *(b"user-%d" % number for number in range(200)),
]
CALM = cluster_of({"orders": [1, 2, 3, 1, 2, 3]})
HALF_DOWN = cluster_of({"orders": [1, None, 3, 1, None, 3]})


def every_key(spark: SparkSession) -> DataFrame:
    """Every key once, with its place in the list."""
    return spark.createDataFrame(list(enumerate(KEYS)), "id INT, key BINARY")


def mixed(spark: SparkSession, count: int) -> DataFrame:
    """Rows of which every other one has a key."""
    return spark.range(count).selectExpr(
        "IF(id % 2 = 0, CONCAT('user-', id), NULL) AS key", "CONCAT('v', id) AS value"
    )


def placed(rows: DataFrame, **how: Any) -> dict[int, int]:
    """Return the partition of each row, by its id."""
    how = {"topic": "orders", "cluster": CALM, **how}
    return {
        row["id"]: row["partition"] for row in with_partition(rows, **how).select("id", "partition").collect()
    }


def javas(key: bytes, partitions: int) -> int:
    """Return where the Java client puts a key, as kafka-python finds it."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions


def stored(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Return a topic's records."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return spark.read.format("kafka").options(**options).load()


def assert_even(counts: Counter[int], partitions: Collection[int], mean: int) -> None:
    assert set(counts) == set(partitions)
    assert all(abs(count - mean) < 5 * mean**0.5 for count in counts.values()), counts  # five sigma
