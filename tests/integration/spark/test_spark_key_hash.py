"""The ways to hash keys in Spark: the fastest one that gives Kafka's answers is used, the others are told."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from kafka_partition_events import ConfigurationError
from tests.partition_column_kit import every_key, placed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.spark.partition_column import Backend

pytestmark = pytest.mark.spark


Choose = Callable[..., "Backend"]


@pytest.fixture
def chosen_with(monkeypatch: pytest.MonkeyPatch, spark: "SparkSession") -> Choose:
    """Return what chooses anew how to hash keys, where the JVM's way is another."""
    from kafka_partition_events.spark.partition_column import backend_of  # noqa: PLC0415
    from kafka_partition_events.spark.partitioner import backends  # noqa: PLC0415

    def choose(name: Any = None, **jvms: Any) -> "Backend":
        monkeypatch.setattr(backends, "KEY_HASH", evolve(backends.KEY_HASH, **jvms))
        return backend_of(spark, name)

    return choose


def test_a_classic_session_hashes_in_the_jvm(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.partition_column import backend_of  # noqa: PLC0415

    chosen = backend_of(spark)
    assert (chosen.name, dict(chosen.rejected)) == ("jvm", {})
    assert backend_of(spark) is chosen


def test_a_way_of_hashing_that_answers_wrongly_is_not_used_and_told(
    spark: "SparkSession", chosen_with: Choose
) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    chosen = chosen_with(jvm=lambda key: (key, F.lit(0)))
    assert chosen.name == "arrow"
    assert chosen.rejected["jvm"] == "the key hash of 0x3231 is -973932308, not 275646681"
    keyed = every_key(spark)
    assert placed(keyed) == placed(keyed, backend="arrow")


def test_a_way_of_hashing_that_fails_is_not_used_and_told(chosen_with: Choose) -> None:
    from kafka_partition_events.spark.partition_column import KeyHashError  # noqa: PLC0415

    missing = ("no.such.Hash", "hash32")
    assert "ClassNotFoundException: no.such.Hash" in chosen_with(method=missing).rejected["jvm"]
    with pytest.raises(KeyHashError, match=r"no way gives the right key hash in this session \(jvm: .*Hash"):
        chosen_with("jvm", method=missing)


def test_a_null_that_is_hashed_is_a_wrong_answer(chosen_with: Choose) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from kafka_partition_events.spark.partition_column import KeyHashError  # noqa: PLC0415

    key_or_empty: Any = lambda key: F.coalesce(key, F.lit(b""))  # noqa: E731
    with pytest.raises(KeyHashError, match="the key hash of null is None, not 275646681"):
        chosen_with("jvm", jvm=lambda key: (key_or_empty(key), F.octet_length(key_or_empty(key))))


def test_there_are_no_other_ways(chosen_with: Choose) -> None:
    with pytest.raises(ConfigurationError, match="backend must be one of jvm, arrow, or None, not 'rust'"):
        chosen_with("rust")
