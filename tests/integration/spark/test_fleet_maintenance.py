"""Few files of many, and no old ones: what is in the tables stays, however often it is killed."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka_partition_events.spark.errors import SparkJobError
from tests.fleet_kit import DAY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.spark.maintenance import FileMaintenance
    from kafka_partition_events.spark.tables.ledger import Ledger, Mark
    from kafka_partition_events.spark.tables.storage import Storage

pytestmark = pytest.mark.spark

RECORDS = "bronze/records"
TODAY = DAY + timedelta(days=5)
NEWS = datetime(TODAY.year, TODAY.month, TODAY.day, 12, tzinfo=UTC)


class Killed(BaseException):
    """What nobody catches."""


class Mortal:
    """A storage that dies before its n-th change."""

    def __init__(self, storage: "Storage", lives: int) -> None:
        self._storage = storage
        self.lives = lives

    def __getattr__(self, name: str) -> Any:
        if name in {"move", "delete"}:
            self.lives -= 1
            if self.lives < 0:
                raise Killed
        return getattr(self._storage, name)


@pytest.fixture
def storage(spark: "SparkSession", tmp_path: Path) -> "Storage":
    from kafka_partition_events.spark.tables.storage import Storage  # noqa: PLC0415

    return Storage(spark, str(tmp_path / "out"))


@pytest.fixture
def ledger(spark: "SparkSession", tmp_path: Path) -> "Ledger":
    from kafka_partition_events.spark.tables.ledger import Ledger  # noqa: PLC0415
    from kafka_partition_events.spark.tables.storage import Storage  # noqa: PLC0415

    found = Ledger(Storage(spark, str(tmp_path / "work")))
    found.take_over()
    return found


@pytest.fixture
def filled(spark: "SparkSession", storage: "Storage", ledger: "Ledger") -> "FileMaintenance":
    """Records of three days in batches 0 to 4, one of which adds a column."""
    from kafka_partition_events.spark.maintenance import FileMaintenance  # noqa: PLC0415
    from kafka_partition_events.spark.tables.tables import open_tables  # noqa: PLC0415

    tables = open_tables(spark, storage.root, "parquet")
    for batch in range(5):
        rows = [(10 * batch + day, DAY + timedelta(days=day)) for day in (0, 1, 5)]
        frame = spark.createDataFrame(rows, "n INT, day DATE")
        tables.put(RECORDS, frame.selectExpr("*", "n AS more") if batch == 3 else frame, batch)
    return FileMaintenance(tables=tables, ledger=ledger, storage=storage, tell=print)


def mark(ingest: int = 4, **how: Any) -> "Mark":
    from kafka_partition_events.spark.tables.ledger import Mark  # noqa: PLC0415

    return Mark(ingest=ingest, until={"c-1": NEWS}, **how)


def found(maintenance: "FileMaintenance") -> list[tuple[int, date, int | None]]:
    rows = maintenance.tables.read(RECORDS).toArrow().to_pylist()
    return sorted((row["n"], row["day"], row["more"]) for row in rows)


def batches(maintenance: "FileMaintenance", day: date) -> set[str]:
    return set(maintenance.storage.children(f"{RECORDS}/day={day}"))


def test_the_batches_of_a_day_that_is_over_become_one(filled: "FileMaintenance") -> None:
    before = found(filled)
    filled.compact(mark())
    assert found(filled) == before
    # Spark may write the last batch once more, so that stays as it is.
    assert batches(filled, DAY) == {"batch=3", "batch=4"}
    assert len(batches(filled, TODAY)) == 5, "there may be more batches of it"
    filled.compact(mark(ingest=9))
    assert batches(filled, DAY) == {"batch=4"}
    assert found(filled) == before
    assert filled.tables.read(RECORDS, batches=[4]).count() == 11


@pytest.mark.parametrize("lives", range(6))  # the steps of one day
def test_a_kill_loses_and_doubles_nothing(filled: "FileMaintenance", lives: int) -> None:
    from attrs import evolve  # noqa: PLC0415

    before = found(filled)
    mortal = evolve(filled, storage=Mortal(filled.storage, lives))  # type: ignore[arg-type]
    with pytest.raises(Killed):
        mortal.compact(mark())
    filled.finish()
    assert found(filled) == before
    filled.compact(mark())
    assert found(filled) == before
    assert batches(filled, DAY) == {"batch=3", "batch=4"}


def test_it_stops_when_a_pipeline_begins(filled: "FileMaintenance", ledger: "Ledger") -> None:
    from kafka_partition_events.spark.tables.ledger import Ledger  # noqa: PLC0415

    Ledger(ledger._storage).take_over()
    before = found(filled)
    with pytest.raises(SparkJobError, match=r"has begun to work on .* since: this one stops"):
        filled.compact(mark())
    filled.finish()
    assert found(filled) == before


def test_old_days_are_dropped_and_so_is_what_killed_runs_have_left(filled: "FileMaintenance") -> None:
    filled.storage.make(f"{RECORDS}/.spark-staging-1")
    filled.drop_before(DAY + timedelta(days=1))
    filled.compact(mark())
    assert {day for _, day, _ in found(filled)} == {DAY + timedelta(days=1), TODAY}
    assert not {name for name in filled.storage.children(RECORDS) if "staging" in name}


def test_what_is_needed_is_kept() -> None:
    from kafka_partition_events.spark.maintenance import cutoff  # noqa: PLC0415
    from kafka_partition_events.spark.tables.ledger import Mark  # noqa: PLC0415

    keep = timedelta(days=30)
    assert cutoff(Mark(), keep) is None
    assert cutoff(mark(), keep) == TODAY - keep
    stopped = NEWS - timedelta(days=100)
    assert cutoff(mark(stopped={"c-2": stopped}), keep) == (stopped - timedelta(days=2)).date()
