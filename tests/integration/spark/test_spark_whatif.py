"""The what-if planner on a real Spark: exact for every key."""

from collections.abc import Sequence
from functools import cache

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.whatif.counting import count
from kafka_partition_events.spark.whatif.plan import Scenario, scenarios
from kafka_partition_events.spark.whatif.results import Outcome
from tests.whatif_kit import by_hand, keys

pytestmark = pytest.mark.spark

KEYS = keys()
ALL = scenarios(12, [13, 18, 24], ["modulo", "kept"])

ROWS: tuple[bytes | None, ...] = (*KEYS, *KEYS[:500], *([None] * 60))
"""Ten thousand keys, some of them twice, and rows without one."""


@pytest.fixture(scope="module")
def sample(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(key,) for key in ROWS], "key BINARY").repartition(3).cache()


@cache
def expected(scenario: Scenario, hash_name: HashName = "murmur2") -> Outcome:
    """Return what `ROWS` come to."""
    return by_hand(ROWS, scenario, hash_name)


@pytest.mark.parametrize(
    ("hash_name", "limit"),
    [("murmur2", 1), ("murmur2", 500), ("murmur2", 1 << 30), ("crc32", 1 << 14)],
    ids=["each alone", "some together", "all together", "crc32"],
)
def test_what_is_counted_is_what_comes_of_placing_each_key(
    sample: DataFrame, hash_name: HashName, limit: int
) -> None:
    found = count(sample, ALL, hash_name, limit=limit)
    assert list(found) == [expected(scenario, hash_name) for scenario in ALL]


@pytest.mark.parametrize(
    "asked",
    [scenarios(12, range(13, 33)), scenarios(40_000, [60_001], ["modulo", "kept"])],
    ids=["twenty at once", "too many combinations to count together"],
)
def test_any_numbers_of_partitions_can_be_asked_about(sample: DataFrame, asked: Sequence[Scenario]) -> None:
    found = count(sample, asked)
    assert found[-1] == expected(asked[-1])
    assert {outcome.keyed for outcome in found} == {found[-1].keyed}
