"""What can be a sample for the what-if planner, and what it answers of one."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_partition_events import ConfigurationError
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.whatif.analysis import what_if
from kafka_partition_events.spark.whatif.plan import scenarios
from kafka_partition_events.spark.whatif.sample import of_file, of_frame, of_table
from tests.whatif_kit import place_of, written

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_a_file_of_any_kind_gives_the_same_answer(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    sample = of_file(spark, written(spark, tmp_path, kind), key="customer")
    answer = what_if(sample, scenarios(12, [13], ["modulo", "kept"]), hottest=3)
    (first, *_) = answer.outcomes
    assert first.keyed == 200
    assert answer.hottest[0].key == "hot"
    assert (answer.hottest[0].records, answer.hottest[0].share) == (100, 0.5)
    assert answer.hottest[0].after == tuple(
        place_of(outcome.scenario)(b"hot").home for outcome in answer.outcomes
    )


def test_a_table_is_read(spark: SparkSession) -> None:
    spark.createDataFrame([("a", 1), (None, 2)], "key STRING, other INT").createOrReplaceTempView(
        "whatif_records"
    )
    assert sorted(map(tuple, of_table(spark, "whatif_records").rows.collect()), key=str) == [("a",), (None,)]


@pytest.mark.parametrize(
    ("read", "error", "complaint"),
    [
        (
            lambda s: of_frame(s.range(1), "rows", key="id"),
            ConfigurationError,
            "the keys in id of rows are BIGINT",
        ),
        (lambda s: of_frame(s.range(1), "rows"), ConfigurationError, "rows has no column key; there are id"),
        (lambda s: of_table(s, "nowhere"), SparkJobError, "no table nowhere can be read"),
        (lambda s: of_file(s, "/nowhere.parquet"), SparkJobError, "/nowhere.parquet can't be"),
        (lambda s: of_file(s, "/keys.xls"), ConfigurationError, "does not end in a known format"),
    ],
)
def test_what_can_not_be_a_sample_is_refused_with_the_cause(
    spark: SparkSession, read: Callable[[SparkSession], object], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        read(spark)


@pytest.mark.parametrize("content", [b"", b"no parquet at all, but long enough to hold a footer"])
def test_a_file_that_is_not_what_its_name_says_is_told_in_one_line(
    spark: SparkSession, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)
    with pytest.raises(
        SparkJobError, match=r"bad\.parquet can't be read as parquet; is it there and whole"
    ) as raised:
        of_file(spark, str(path))
    assert "\n" not in str(raised.value)
    assert "FAILED_READ_FILE" in str(raised.value)


def test_nothing_is_no_sample(spark: SparkSession) -> None:
    empty = of_frame(spark.createDataFrame([], "key STRING"), "rows")
    with pytest.raises(SparkJobError, match="there is nothing in rows"):
        what_if(empty, scenarios(12, [13]))


def test_what_fails_while_it_is_read_is_told_without_a_stack(spark: SparkSession) -> None:
    rows = spark.range(3).selectExpr("raise_error('the disk is gone')::string AS key")
    with pytest.raises(SparkJobError, match=r"could not read rows: .*the disk is gone") as failed:
        what_if(of_frame(rows, "rows"), scenarios(12, [13]))
    assert "\tat " not in str(failed.value)
