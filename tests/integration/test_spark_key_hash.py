"""The ways to hash keys in Spark: the fastest one that gives Kafka's answers is used, the others are told."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.partition_column_kit import every_key, placed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def fresh_choice(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the session's way of hashing be chosen anew, and forget what a test has chosen."""
    from kafka_partition_events.spark.partitioning import backends  # noqa: PLC0415

    monkeypatch.setattr(backends, "_chosen", {})
    return monkeypatch


def test_a_classic_session_hashes_in_the_jvm(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.partition_column import backend_of  # noqa: PLC0415

    chosen = backend_of(spark)
    assert (chosen.name, dict(chosen.rejected)) == ("jvm", {})
    assert backend_of(spark) is chosen


def test_a_way_of_hashing_that_answers_wrongly_is_not_used_and_told(
    spark: "SparkSession", fresh_choice: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from kafka_partition_events.spark.partition_column import backend_of  # noqa: PLC0415
    from kafka_partition_events.spark.partitioning import backends  # noqa: PLC0415

    fresh_choice.setattr(backends, "murmur2_column", lambda _session, key: F.hash(key))
    chosen = backend_of(spark)
    assert chosen.name == "arrow"
    assert chosen.rejected["jvm"].startswith("the hash of 0x3231 is -973932308, not ")
    keyed = every_key(spark)
    assert placed(keyed) == placed(keyed, backend="arrow")


def test_a_way_of_hashing_that_fails_is_not_used_and_told(
    spark: "SparkSession", fresh_choice: pytest.MonkeyPatch
) -> None:
    from kafka_partition_events.spark.partition_column import KeyHashError, backend_of  # noqa: PLC0415
    from kafka_partition_events.spark.partitioning import backends  # noqa: PLC0415

    def missing(*_: object) -> Any:
        raise AttributeError("no such class")

    fresh_choice.setattr(backends, "murmur2_column", missing)
    assert backend_of(spark).rejected == {"jvm": "AttributeError: no such class"}
    with pytest.raises(KeyHashError, match="jvm: AttributeError: no such class"):
        backend_of(spark, "jvm")


def test_a_null_that_is_hashed_is_a_wrong_answer(
    spark: "SparkSession", fresh_choice: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from kafka_partition_events.spark.partition_column import KeyHashError, backend_of  # noqa: PLC0415
    from kafka_partition_events.spark.partitioning import backends  # noqa: PLC0415
    from kafka_partition_events.spark.partitioning.jvm_hash import murmur2_column as right  # noqa: PLC0415

    fresh_choice.setattr(
        backends, "murmur2_column", lambda session, key: F.coalesce(right(session, key), F.lit(0x106E08D9))
    )
    with pytest.raises(KeyHashError, match="the hash of null is None, not 275646681"):
        backend_of(spark, "jvm")
