"""Delta and Iceberg, on the last Spark for which there are jars of both. `make lake` runs it.

What holds here is what `tests/integration` shows of files: two runs make what the batch computation makes of
all records at once, tables of another owner are refused, and maintenance changes no row.
"""

import os
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from kafka_partition_events.jvm import SPARK, jar_store, java
from kafka_partition_events.jvm.ivy import fetch
from kafka_partition_events.jvm.store import JarStore
from kafka_partition_events.spark.errors import SparkJobError
from tests.fleet_feed import Feed
from tests.fleet_kit import COMPILED, INTERPRETED, gold_at_once, gold_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.spark.ingest.sources import Source
    from kafka_partition_events.spark.pipeline import Pipeline

if not pyspark.__version__.startswith("4.1."):
    pytest.skip("jars of Delta and Iceberg are made for Spark 4.1: make lake", allow_module_level=True)

pytestmark = pytest.mark.spark

HERE = Path(__file__).parent
FEED = Feed(9, topics=1, partitions=2, days=0.3)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from kafka_partition_events.spark.session import BRIEF, local_session  # noqa: PLC0415

    store = JarStore.of(
        ivy_file=HERE / "ivy.xml",
        checksums_file=HERE / "jars.sha256",
        parent=jar_store(SPARK).directory.parent,
    )
    jars = sorted(store.ensure(partial(fetch, java=java())).glob("*/*.jar"))
    place = tmp_path_factory.mktemp("lake")
    settings = {
        **BRIEF,
        **INTERPRETED,
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(place / "delta"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(place / "iceberg"),
    }
    session = local_session(jars, settings=settings)
    for name, value in COMPILED.items():
        session.conf.set(name, value)
    yield session
    session.stop()


def pipeline(spark: "SparkSession", format_: str, work: Path) -> "Pipeline":
    from kafka_partition_events.spark.pipeline import Fleet, Pipeline  # noqa: PLC0415

    return Pipeline(spark, Fleet(out=NAMESPACES[format_], format=format_, work=str(work)))


def archive(place: Path, *, first: bool) -> "Source":
    """Return an archive with the first half of the feed, or with all of it."""
    from kafka_partition_events.spark.ingest.sources import JsonlArchive  # noqa: PLC0415

    place.mkdir(exist_ok=True)
    half = len(FEED.records) // 2
    written = FEED.days.end.timestamp()
    for number, records in enumerate((FEED.records[:half], FEED.records[half:])):
        path = place / f"{number}.jsonl"
        if not (path.exists() or (number and first)):
            path.write_bytes(b"".join(record.value + b"\n" for record in records))
            os.utime(path, (written, written))
    return JsonlArchive(path=str(place))


NAMESPACES = {"delta": "spark_catalog.kpe", "iceberg": "lake.kpe"}


@pytest.mark.parametrize("format_", NAMESPACES)
def test_a_table_format_is_as_good_as_files(spark: "SparkSession", tmp_path: Path, format_: str) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from kafka_partition_events.spark.tables.tables import open_tables  # noqa: PLC0415

    work, namespace = tmp_path / "work", NAMESPACES[format_]
    pipeline(spark, format_, work).run_once(archive(tmp_path / "archive", first=True))
    everything = archive(tmp_path / "archive", first=False)
    mark = pipeline(spark, format_, work).run_once(everything)
    assert mark.totals.read == len(FEED.records)
    tables = open_tables(spark, namespace, format_)
    expected = gold_at_once(spark, [record.value for record in FEED.records], FEED.days)
    assert gold_in(tables) == expected

    with pytest.raises(SparkJobError, match=r"\.bronze_records belongs to another kpe spark fleet"):
        pipeline(spark, format_, tmp_path / "lost").run_once(everything)

    def files() -> int:
        return tables.read("bronze/records").select(F.input_file_name()).distinct().count()

    before = files()
    pipeline(spark, format_, work).maintain(timedelta(days=401))
    assert files() < before
    assert gold_in(tables) == expected
    assert pipeline(spark, format_, work).run_once(everything).totals == mark.totals

    assert tables.read("bronze/records").count() > 0
    maintenance = pipeline(spark, format_, work)._maintenance()
    maintenance.drop_before(
        FEED.days.last + timedelta(days=2)
    )  # what tells no time is of when it was written
    assert tables.read("bronze/records").count() == 0
    assert tables.read("silver/states").count() > 0
    described = spark.sql(f"DESCRIBE {namespace}.gold_skew").collect()
    assert [row["comment"] for row in described if row["col_name"] == "rack"] == ["Its rack."]
