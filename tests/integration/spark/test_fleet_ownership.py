"""Whose tables are where, for file formats and for tables of a catalog."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka_partition_events.spark.errors import SparkJobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_directory_is_one_pipeline_s(spark: "SparkSession", tmp_path: Path) -> None:
    from kafka_partition_events.spark.ownership import own, refuse_others  # noqa: PLC0415

    out = str(tmp_path)
    refuse_others(spark, out, "parquet", "a", begun=False)
    own(spark, out, "parquet", "a")
    refuse_others(spark, out, "parquet", "a", begun=False)
    refuse_others(spark, out, "parquet", "a", begun=True)
    with pytest.raises(SparkJobError, match="belongs to another kpe spark fleet: choose another"):
        refuse_others(spark, out, "parquet", "b", begun=True)
    (tmp_path / "_owner.json").write_text("{")  # by a crash, when the ledger was written already
    refuse_others(spark, out, "parquet", "a", begun=True)
    own(spark, out, "parquet", "a")
    assert "a" in (tmp_path / "_owner.json").read_text()


@pytest.fixture
def namespace(spark: "SparkSession", tmp_path: Path) -> Iterator[str]:
    spark.sql(f"CREATE NAMESPACE kpe_owned LOCATION '{tmp_path}'")
    yield "kpe_owned"
    spark.sql("DROP NAMESPACE kpe_owned CASCADE")


def test_a_table_of_a_catalog_tells_whose_it_is(spark: "SparkSession", namespace: str) -> None:
    """Spark's own catalog can't replace rows, but has properties."""
    from kafka_partition_events.spark.ownership import properties, refuse_others  # noqa: PLC0415
    from kafka_partition_events.spark.tables.tables import _CatalogTables  # noqa: PLC0415

    rows = spark.createDataFrame([], "n INT, day DATE")
    _CatalogTables(spark, namespace, "parquet", properties("a")).ensure("bronze/records", rows.schema)
    spark.sql(f"CREATE TABLE {namespace}.gold_sales (n INT) USING parquet")  # nothing to us
    refuse_others(spark, namespace, "delta", "a", begun=False)
    with pytest.raises(SparkJobError, match=r"kpe_owned\.bronze_records belongs to another kpe spark fleet"):
        refuse_others(spark, namespace, "delta", "b", begun=False)
    spark.sql(f"CREATE TABLE {namespace}.gold_skew (n INT) USING parquet")
    with pytest.raises(SparkJobError, match=r"kpe_owned\.gold_skew was not made by kpe spark fleet: choose"):
        refuse_others(spark, namespace, "delta", "a", begun=True)
