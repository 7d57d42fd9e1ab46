"""Few files of many, and no old records: what is in the other tables stays."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fleet_feed import Feed
from tests.fleet_kit import DAY, WRITTEN, begun, gold_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.spark.tables.state import Mark

pytestmark = pytest.mark.spark

TODAY = DAY + timedelta(days=5)
NEWS = datetime(TODAY.year, TODAY.month, TODAY.day, 12, tzinfo=UTC)
FEED = Feed(9, topics=1, partitions=2, days=0.3)


def test_maintenance_changes_nothing_but_old_records(pipelines_spark: "SparkSession", tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from kafka_partition_events.spark.maintenance import compact, drop_before  # noqa: PLC0415

    run = begun(pipelines_spark, tmp_path)
    values = [record.value for record in FEED.records]
    for number in range(3):
        run.take_in(values[number::3], number)
        run = run.refresh()
    tables, before = run.tables, gold_of(pipelines_spark, tmp_path)

    def files() -> int:
        return tables.read("bronze/records").select(F.input_file_name()).distinct().count()

    assert files() > 1
    compact(tables, ["bronze/records", "silver/states", "gold/skew", "gold/none"])
    assert files() == 1
    run = run.refresh()
    assert gold_of(pipelines_spark, tmp_path) == before
    assert run.state.mark.totals.read == len(values)
    drop_before(tables, WRITTEN.date() + timedelta(days=1))
    assert tables.read("bronze/records").count() == 0
    run = run.refresh()
    assert run.state.mark.totals.read == len(values)
    assert gold_of(pipelines_spark, tmp_path) == before


def mark(**how: Any) -> "Mark":
    from kafka_partition_events.spark.tables.state import Mark  # noqa: PLC0415

    return Mark(until={"c-1": NEWS}, **how)


def test_what_is_needed_is_kept() -> None:
    from kafka_partition_events.spark.maintenance import cutoff  # noqa: PLC0415
    from kafka_partition_events.spark.tables.state import Mark  # noqa: PLC0415

    keep = timedelta(days=30)
    assert cutoff(Mark(), keep) is None
    assert cutoff(mark(), keep) == TODAY - keep
    stopped = NEWS - timedelta(days=100)
    assert cutoff(mark(stopped={"c-2": stopped}), keep) == (stopped - timedelta(days=2)).date()
