"""Keys a second: the column by the JVM, beside what costs nothing and what one would write."""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
from attrs import frozen
from kafka.partitioner.default import murmur2 as kafka_pythons_murmur2
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import pandas_udf

from benchmarks.command import say
from benchmarks.errors import BenchError
from benchmarks.partition import our_cluster
from benchmarks.rows import Row, Target
from benchmarks.spark.rounds import Round, rate_ratio, rates, take_rounds
from benchmarks.spark.session import bench_session, jvm_of
from kafka_partition_events.spark.partition_column import with_partition

PARTITIONS = 12
_TOPIC = "t"  # our_cluster's
_M = 1_000_000

SCAN, JVM = "scan", "JVM expression"
PANDAS, KAFKA_PYTHON = "plain pandas_udf", "kafka-python's hash in a udf"


@frozen
class Size:
    """How many keys a case hashes: so many that starting a job, which costs the same for all, is little."""

    in_jvm: int = 24 * _M
    in_python: int = 6 * _M
    in_pure_python: int = 300_000
    rounds: int = 7


QUICK = Size(in_jvm=2 * _M, in_python=400_000, in_pure_python=20_000, rounds=2)


class Bench:
    """Files of user ids, and the cases: each reads a file and sums its partitions."""

    def __init__(self, spark: SparkSession, directory: Path, size: Size) -> None:
        self._cluster = our_cluster(PARTITIONS)
        self.keys: dict[str, int] = {}
        self._sums: dict[int, tuple[str, int]] = {}
        self._frames = {
            count: _user_ids(spark, directory / str(count), count)
            for count in {size.in_jvm, size.in_python, size.in_pure_python}
        }
        self.cases: dict[str, Callable[[], object]] = {}
        self._add(SCAN, size.in_jvm, lambda rows: rows.select(F.octet_length("key").alias("partition")))
        self._add(JVM, size.in_jvm, self._ours)
        if importlib.util.find_spec("pandas") is not None:
            self._add(PANDAS, size.in_python, _udf_column(_pandas()))
        self._add(KAFKA_PYTHON, size.in_pure_python, _udf_column(_kafka_python()))
        for count in (size.in_python, size.in_pure_python):  # so that each answer is held against another
            self._run(JVM, self._frames[count], self._ours, count)

    def _ours(self, rows: DataFrame) -> DataFrame:
        return with_partition(rows, topic=_TOPIC, cluster=self._cluster)

    def _add(self, name: str, count: int, column: Callable[[DataFrame], DataFrame]) -> None:
        self.keys[name] = count
        self.cases[name] = lambda: self._run(name, self._frames[count], column, count)

    def _run(self, name: str, rows: DataFrame, column: Callable[[DataFrame], DataFrame], count: int) -> None:
        [[total]] = column(rows).agg(F.sum("partition")).collect()
        if name == SCAN:
            return
        first, known = self._sums.setdefault(count, (name, total))
        if known != total:
            raise BenchError(f"{name} and {first} place {count:,} keys differently: {total} and {known}")


def _user_ids(spark: SparkSession, path: Path, count: int) -> DataFrame:
    """Return user ids of 6 to 13 bytes, in a file: making them up would cost more than hashing them."""
    ids = spark.range(0, count, 1, 4).select(
        F.concat(F.lit("user_"), (F.col("id") * 7919 % (100 * _M)).cast("string")).alias("key")
    )
    ids.write.parquet(str(path))
    return spark.read.parquet(str(path))


def _udf_column(hash_of: Callable[[Column], Column]) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: rows.select(hash_of(F.col("key").cast("binary")).alias("partition"))


# The functions below are made in functions, so that they are sent to the workers by value.


def _pandas() -> Callable[[Column], Column]:
    import pandas as pd  # type: ignore[import-untyped,unused-ignore,import-not-found] # noqa: PLC0415

    partition_of = confluent_kafka.murmur2

    def plain(keys: pd.Series) -> pd.Series:
        return pd.Series([partition_of(bytes(key), PARTITIONS) for key in keys])

    make: Any = pandas_udf
    found: Callable[[Column], Column] = make(plain, "int")
    return found


def _kafka_python() -> Callable[[Column], Column]:
    hash_of: Any = kafka_pythons_murmur2

    def plain(key: Any) -> int:
        partition: int = (hash_of(bytes(key)) & 0x7FFFFFFF) % PARTITIONS
        return partition

    found: Callable[[Column], Column] = F.udf(plain, "int", useArrow=False)
    return found


def measure(*, quick: bool) -> Iterator[Row]:
    size = QUICK if quick else Size()
    with tempfile.TemporaryDirectory(prefix="kpe-bench-") as directory, bench_session() as spark:
        bench = Bench(spark, Path(directory), size)
        if PANDAS not in bench.cases:
            say("pandas is not installed: no row of a pandas_udf")
        rounds = take_rounds(bench.cases, size.rounds, jvm_of(spark))
    yield from rows_of(rounds, bench.keys)


def rows_of(rounds: Sequence[Round], keys: Mapping[str, int]) -> Iterator[Row]:
    """Return the lines of the table."""

    def row(ours: str, peer: str | None = None, least: float | None = None) -> Row:
        ratio = None if peer is None else rate_ratio(rounds, (ours, keys[ours]), (peer, keys[peer]))
        return Row(
            what=f"user ids: {ours}",
            unit="M keys/s a core",
            ours=rates(rounds, ours, keys[ours] / _M),
            peer=None if peer is None else (peer, rates(rounds, peer, keys[peer] / _M)),
            ratio=ratio,
            target=None if least is None else Target(least=least),
            judged=ratio,
            digits=2,
            extra={
                "rounds": len(rounds),
                "keys": keys[ours],
                "wall_s": [found[ours].wall_s for found in rounds],
            },
        )

    yield row(SCAN)
    yield row(JVM, least=5.0)
    for peer in (PANDAS, KAFKA_PYTHON):
        if peer in keys:
            yield row(JVM, peer)
