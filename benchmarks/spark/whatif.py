"""Keys a second that the what-if planner takes, for four scenarios at once, from Parquet to the answer."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.errors import BenchError
from benchmarks.measure import Spread
from benchmarks.rows import Row, Target
from benchmarks.spark.rounds import Round, take_rounds
from benchmarks.spark.session import jvm_of
from kafka_partition_events.spark.session import LASTING, opened_session
from kafka_partition_events.spark.whatif.counting import count
from kafka_partition_events.spark.whatif.plan import MOST_COMBINATIONS, Scenario, scenarios

_M = 1_000_000

SCAN = "reading keys"
MODULO = "modulo 13, 18, 24, 36"
APART = "the same, each grouped by itself"
MANY = "modulo 1,001: too many combinations to be one number"

ASKED: Mapping[str, tuple[Scenario, ...]] = {
    MODULO: scenarios(12, [13, 18, 24, 36]),
    APART: scenarios(12, [13, 18, 24, 36]),
    MANY: scenarios(1_000, [1_001]),
}


@frozen
class Size:
    """How many keys, and how often."""

    keys: int = 20 * _M
    rounds: int = 5


QUICK = Size(keys=1 * _M, rounds=2)


def measure(*, quick: bool) -> Iterator[Row]:
    size = QUICK if quick else Size()
    with (
        tempfile.TemporaryDirectory(prefix="kpe-bench-") as directory,
        opened_session(settings=LASTING) as spark,  # that of the command
    ):
        spark.sparkContext.setLogLevel("ERROR")
        sample = _sample(spark, Path(directory) / "keys", size.keys)
        cases: dict[str, Callable[[], object]] = {SCAN: lambda: _scan(sample)}
        for name, asked in ASKED.items():
            limit = 1 if name == APART else MOST_COMBINATIONS
            cases[name] = lambda asked=asked, limit=limit: _count(sample, asked, size.keys, limit)  # type: ignore[misc]
        rounds = take_rounds(cases, size.rounds, jvm_of(spark))
    yield from rows_of(rounds, size.keys)


def _sample(spark: SparkSession, path: Path, keys: int) -> DataFrame:
    """Return user ids of 6 to 13 bytes, in a file: making them up would cost more."""
    ids = spark.range(0, keys, 1, 4).select(
        F.concat(F.lit("user_"), (F.col("id") * 7919 % (100 * _M)).cast("string")).alias("key")
    )
    ids.write.parquet(str(path))
    return spark.read.parquet(str(path))


def _scan(sample: DataFrame) -> None:
    sample.agg(F.sum(F.octet_length("key"))).collect()


def _count(sample: DataFrame, asked: Sequence[Scenario], keys: int, limit: int) -> None:
    for outcome in count(sample, asked, limit=limit):
        if outcome.keyed != keys:
            raise BenchError(f"{outcome.scenario.name} counts {outcome.keyed:,} of {keys:,} keys")


def rows_of(rounds: Sequence[Round], keys: int) -> Iterator[Row]:
    """Return the lines of the table."""

    def rate(name: str) -> Spread:
        return Spread.of([keys / _M / found[name].wall_s for found in rounds])

    def by_peer(name: str, peer: str) -> Spread:
        return Spread.of([found[peer].wall_s / found[name].wall_s for found in rounds])

    for name, peer, least in ((SCAN, None, None), (MODULO, APART, 10.0), (MANY, SCAN, None)):
        yield Row(
            what=f"what-if: {name}",
            unit="M keys/s on 2 cores",
            ours=rate(name),
            peer=None if peer is None else (peer, rate(peer)),
            ratio=None if peer is None else by_peer(name, peer),
            target=None if least is None else Target(least=least),
            digits=1,
            extra={"keys": keys, "wall_s": [found[name].wall_s for found in rounds]},
        )
