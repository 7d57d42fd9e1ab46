"""The what-if planner on a real Spark: exact for every key."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from kafka_partition_events.routing.jump import jump
from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.whatif.plan import Place, Rule, Scenario, placing, scenarios
from kafka_partition_events.spark.whatif.results import Outcome
from tests.whatif_kit import by_hand, keys, partitioner_of, snapshot
from tests.whatif_kit import placing as placing_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

KEYS = keys()
ALL: tuple[Scenario, ...] = (
    *scenarios(12, [13, 18, 24], ["modulo", "kept", "rendezvous"]),
    *scenarios(12, [17], ["rendezvous"], placed_by="modulo"),
)


ROWS: tuple[tuple[bytes | None, int], ...] = (
    *((key, 100 + place) for place, key in enumerate([*KEYS, *KEYS[:500]])),
    *(((None, 7),) * 60),
)
"""Ten thousand keys, some of them twice, and rows without one; bytes tell the rows apart."""


@pytest.fixture(scope="module")
def sample(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame(ROWS, "key BINARY, bytes BIGINT").repartition(3).cache()


@cache
def expected(scenario: Scenario, hash_name: HashName = "murmur2") -> Outcome:
    """Return what `ROWS` come to."""
    return by_hand(ROWS, scenario, hash_name)


def test_the_jump_hash_is_the_same_number_for_number(spark: "SparkSession") -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from kafka_partition_events.spark.partitioner.hashes import JUMP  # noqa: PLC0415
    from kafka_partition_events.spark.whatif.columns import WIDTH  # noqa: PLC0415

    counts = (1, 2, 3, 12, 13, 24, 1_000, 4_194_304)
    number = F.when(F.col("id") % 1_000 != 7, F.col("id") * 2_654_435_761 % WIDTH)
    numbers = spark.range(5_000).select(number.alias("number"))
    columns = (JUMP.of(spark, F.col("number"), F.lit(count)).alias(f"to_{count}") for count in counts)
    rows = numbers.select("number", *columns).collect()
    assert sum(row["number"] is None for row in rows) == 5
    for row in rows:
        for count in counts:
            expected = None if row["number"] is None else jump(row["number"], count)
            assert row[f"to_{count}"] == expected


@pytest.mark.parametrize("rule", ["modulo", "rendezvous"])
def test_a_key_has_the_places_that_the_partitioners_answer(spark: "SparkSession", rule: Any) -> None:
    counts = (12, 13, 18, 24)
    rows = spark.createDataFrame([(key,) for key in KEYS], "key BINARY")
    found = placed(rows, rule, counts)
    partitioner = partitioner_of(rule, 12)
    for count in counts:
        partitioner.apply_snapshot(snapshot(count))
        place = placing_by(partitioner)
        assert [row[f"of_{count}"] for row in found] == [place(bytes(row["key"])) for row in found]
    partitioner.close()


@pytest.mark.parametrize("rule", ["modulo", "rendezvous"])
def test_text_is_hashed_by_its_utf_8_and_no_key_has_no_place(spark: "SparkSession", rule: Any) -> None:
    texts = ["", "plain", "größer", "日本", None]
    rows = spark.createDataFrame([(text,) for text in texts], "key STRING")
    place = placing(Scenario(current=24, partitions=24, mapping=rule))
    expected = [None if text is None else place(text.encode()).home for text in texts]
    assert [row["of_24"] for row in placed(rows, rule, [24])] == expected


def placed(rows: "DataFrame", rule: Rule, counts: Sequence[int]) -> "list[Row]":
    from kafka_partition_events.spark.whatif.columns import (  # noqa: PLC0415
        partition_of,
        with_hash,
        with_jumps,
    )

    places = [Place(rule, count) for count in counts]
    columns = (partition_of(place).alias(f"of_{place.count}") for place in places)
    return with_jumps(with_hash(rows), places).select("key", *columns).collect()


@pytest.mark.parametrize(
    ("hash_name", "limit"),
    [("murmur2", 1), ("murmur2", 500), ("murmur2", 1 << 30), ("crc32", 1 << 14)],
    ids=["each alone", "some together", "all of a rule together", "crc32"],
)
def test_what_is_counted_is_what_comes_of_placing_each_key(
    sample: "DataFrame", hash_name: HashName, limit: int
) -> None:
    from kafka_partition_events.spark.whatif.counting import count  # noqa: PLC0415

    found = count(sample, ALL, hash_name, limit=limit)
    assert list(found) == [expected(scenario, hash_name) for scenario in ALL]


def test_growth_moves_what_it_is_said_to_move(sample: "DataFrame") -> None:
    from kafka_partition_events.spark.whatif.counting import count  # noqa: PLC0415

    found = count(sample, ALL)
    moved = {outcome.scenario.name: outcome.moved_share for outcome in found[:9]}
    assert moved["modulo_13"] == pytest.approx(12 / 13, abs=0.01)
    assert moved["modulo_18"] == pytest.approx(2 / 3, abs=0.015)
    assert moved["modulo_24"] == pytest.approx(1 / 2, abs=0.015)
    assert moved["rendezvous_13"] == pytest.approx(1 / 13, abs=0.01)
    assert moved["rendezvous_24"] == pytest.approx(1 / 2, abs=0.015)
    assert [moved[f"kept_{count}"] for count in (13, 18, 24)] == [0, 0, 0]


@pytest.mark.parametrize(
    "asked",
    [scenarios(12, range(13, 33)), scenarios(40_000, [60_001], ["modulo", "rendezvous"])],
    ids=["twenty at once", "too many combinations to count together"],
)
def test_any_numbers_of_partitions_can_be_asked_about(sample: "DataFrame", asked: Sequence[Scenario]) -> None:
    from kafka_partition_events.spark.whatif.counting import count  # noqa: PLC0415

    found = count(sample, asked)
    assert found[-1] == expected(asked[-1])
    assert {outcome.keyed for outcome in found} == {found[-1].keyed}
