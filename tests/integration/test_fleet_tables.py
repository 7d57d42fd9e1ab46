"""Tables, ledger and the merging of sightings, on small data frames of one session."""

import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.fleet.days import Days
from kafka_partition_events.spark.fleet.progress import Counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_partition_events.spark.fleet.storage import Storage
    from kafka_partition_events.spark.fleet.tables import FileTables

pytestmark = pytest.mark.spark

DAY = date(2026, 11, 20)


def day(number: int) -> date:
    return DAY + timedelta(days=number)


@pytest.fixture
def storage(spark: "SparkSession", tmp_path: Path) -> "Storage":
    from kafka_partition_events.spark.fleet.storage import Storage  # noqa: PLC0415

    return Storage(spark, str(tmp_path / "out"))


@pytest.fixture
def tables(spark: "SparkSession", storage: "Storage") -> "FileTables":
    from kafka_partition_events.spark.fleet.tables import FileTables  # noqa: PLC0415

    return FileTables(spark, storage)


def rows(spark: "SparkSession", *values: tuple[int, int]) -> "DataFrame":
    """Return rows of a number and a day."""
    return spark.createDataFrame([(n, day(d)) for n, d in values], "n INT, day DATE")


def numbers(frame: "DataFrame") -> list[int]:
    found: list[int] = frame.toArrow().column("n").to_pylist()
    return sorted(found)


class TestFileTables:
    def test_a_batch_replaces_what_it_has_written_before(
        self, spark: "SparkSession", tables: "FileTables"
    ) -> None:
        tables.put("silver/x", rows(spark, (1, 0), (2, 1)), 0)
        tables.put("silver/x", rows(spark, (3, 1)), 1)
        tables.put("silver/x", rows(spark, (4, 1), (5, 1)), 1)
        assert numbers(tables.read("silver/x")) == [1, 2, 4, 5]
        assert numbers(tables.read("silver/x", Days(day(1), day(9)))) == [2, 4, 5]
        assert numbers(tables.read("silver/x", batches=[0, 7])) == [1, 2]
        assert numbers(tables.read("silver/x", Days(day(2), day(9)))) == []
        assert tables.read("silver/x").schema["batch"].dataType.simpleString() == "bigint"

    def test_days_that_have_no_rows_any_more_are_emptied_and_others_left_alone(
        self, spark: "SparkSession", tables: "FileTables"
    ) -> None:
        tables.replace("gold/x", rows(spark, (1, 0), (2, 1), (3, 2)), Days(day(0), day(2)))
        tables.replace("gold/x", rows(spark, (4, 2)), Days(day(1), day(2)))
        assert numbers(tables.read("gold/x")) == [1, 4]

    def test_a_table_without_days_is_replaced_by_batch(
        self, spark: "SparkSession", tables: "FileTables"
    ) -> None:
        flat = rows(spark, (1, 0), (2, 0)).select("n")
        tables.put("silver/log", flat, 3)
        tables.put("silver/log", flat, 4)
        tables.put("silver/log", flat.where("n > 2"), 3)
        assert numbers(tables.read("silver/log")) == [1, 2]
        tables.drop("silver/log", 4)
        assert numbers(tables.read("silver/log", batches=[3, 4])) == []

    def test_a_table_that_has_no_rows_yet_is_empty_and_one_that_is_not_there_is_an_error(
        self, spark: "SparkSession", tables: "FileTables", tmp_path: Path
    ) -> None:
        tables.ensure("gold/x", rows(spark).schema)
        assert tables.read("gold/x").columns == ["n", "day"]
        assert numbers(tables.read("gold/x", Days(day(0), day(1)))) == []
        with pytest.raises(SparkJobError, match=r"no table gold/y in .*out: has kpe spark fleet been run"):
            tables.read("gold/y")

    def test_tables_that_had_no_event_yet_are_not_told_to_be_unknown(
        self, spark: "SparkSession", tables: "FileTables"
    ) -> None:
        tables.ensure("silver/events", rows(spark).schema)
        with pytest.raises(SparkJobError, match="has been run, but there was nothing for it"):
            tables.read("gold/availability_hourly")

    def test_columns_that_come_later_are_null_in_what_was_there(
        self, spark: "SparkSession", tables: "FileTables"
    ) -> None:
        tables.replace("gold/x", rows(spark, (1, 0)), Days(day(0), day(0)))
        wider = rows(spark, (2, 1)).selectExpr("n", "'new' AS text", "day")
        tables.replace("gold/x", wider, Days(day(1), day(1)))
        found = tables.read("gold/x").orderBy("n").toArrow().to_pylist()
        assert [row["text"] for row in found] == [None, "new"]

    def test_an_unknown_format_is_told_with_those_that_are_known(
        self, spark: "SparkSession", tmp_path: Path
    ) -> None:
        from kafka_partition_events.spark.fleet.tables import open_tables  # noqa: PLC0415

        for format_ in ("delta", "nonsense"):  # this Spark has neither
            with pytest.raises(SparkJobError, match=rf"no format '{format_}': give one of parquet.*delta"):
                open_tables(spark, str(tmp_path), format_)
        open_tables(spark, str(tmp_path), "orc")


class TestLedger:
    def test_what_is_noted_is_taken_up_once(self, storage: "Storage") -> None:
        from kafka_partition_events.spark.fleet.ledger import Batch, Ledger, Mark  # noqa: PLC0415

        at = datetime(2026, 11, 20, 10, tzinfo=UTC)
        ledger = Ledger(storage)
        assert ledger.mark() == Mark()
        first = Batch(query="ingest", number=0, first=at, last=at, seen=at, counts=Counts(read=3, good=2))
        second = Batch(query="outages", number=0, counts=Counts(late=1))
        ledger.note(first)
        ledger.note(first)
        ledger.note(second)
        assert ledger.has_news()
        assert ledger.noted() == [first, second]
        mark = ledger.mark().after(ledger.noted(), doubles=4, snapshot=1)
        ledger.settle(mark, ledger.noted())
        assert ledger.noted() == []
        assert not ledger.has_news()
        assert ledger.mark() == Mark(
            serial=1, ingest=0, outages=0, snapshot=1, since=at, until=at,
            totals=Counts(read=3, good=2, doubles=4, late=1),
        )  # fmt: skip
        again = ledger.mark().after([first], doubles=0)  # the same batch, once more after a crash
        assert again.totals == mark.totals
        assert again.snapshot == 1

    def test_a_file_that_a_crash_has_torn_is_as_good_as_none(self, storage: "Storage") -> None:
        from kafka_partition_events.spark.fleet.ledger import Batch, Ledger, Mark  # noqa: PLC0415

        ledger = Ledger(storage)
        ledger.settle(Mark(serial=1, ingest=4), [])
        storage.write("refreshes/2.json", '{"serial": 2, "ing')
        storage.write("batches/ingest-5.json", "")
        ledger.note(Batch(query="ingest", number=6))
        assert ledger.mark().ingest == 4
        assert [batch.number for batch in ledger.noted()] == [6]

    def test_tables_belong_to_one_source_as_soon_as_it_has_given_anything(self, storage: "Storage") -> None:
        from kafka_partition_events.spark.fleet.ledger import Batch, Ledger  # noqa: PLC0415

        ledger = Ledger(storage)
        ledger.claim("the Kafka topic misspelt", "parquet tables", "out")
        ledger.claim("the Kafka topic kpe.events", "parquet tables", "out")
        ledger.note(Batch(query="ingest", number=0))
        ledger.claim("the Kafka topic kpe.events", "parquet tables", "out")
        with pytest.raises(
            SparkJobError, match=r"out is filled from the Kafka topic kpe\.events.*another --out"
        ):
            ledger.claim("the JSONL files x", "parquet tables", "out")
        with pytest.raises(SparkJobError, match="out holds parquet tables, not orc tables"):
            ledger.claim("the Kafka topic kpe.events", "orc tables", "out")


# -- sightings -> events ---------------------------------------------------------------------------------

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
COLUMNS = (
    "id STRING, source STRING, name STRING, sequence BIGINT, severity INT, broker INT, before STRING, "
    "after STRING, observer STRING, initial BOOLEAN, detail STRING, dropped BIGINT, prev_at TIMESTAMP, "
    "at TIMESTAMP, gap BOOLEAN, batch BIGINT, planned BOOLEAN, change_id STRING"
)


def hours(number: float | None) -> datetime | None:
    return None if number is None else NOON + timedelta(hours=number)


def sighting(
    id_: str, prev: float | None, at: float, *, observer: str = "a", batch: int = 0, **more: Any
) -> tuple[Any, ...]:
    initial, gap = more.get("initial", False), more.get("gap", False)
    return (
        id_, "kafka://c", "partition.offline", 1, 17, None, None, None, observer, initial, None, None,
        hours(prev), hours(at), gap, batch, more.get("planned"), more.get("change_id"),
    )  # fmt: skip


def told(spark: "SparkSession", *values: tuple[Any, ...]) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from kafka_partition_events.spark.fleet.sightings import day_of  # noqa: PLC0415

    return spark.createDataFrame(list(values), COLUMNS).withColumn("day", day_of(F.col("at")))


def events(frame: "DataFrame") -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in frame.orderBy("at").toArrow().to_pylist():
        values = row["prev_at"], row["at"], row["gap"], row["initial"], row["observer"]
        found.setdefault(row["id"], []).append(values)
    return found


def test_all_who_tell_one_event_narrow_its_bounds(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.fleet import sightings  # noqa: PLC0415

    frame = told(
        spark,
        sighting("twice", 1, 4, gap=True),
        sighting("twice", 2, 6, observer="b"),
        sighting("restarted", 1, 3),
        sighting("restarted", None, 2, observer="b", initial=True),
        sighting("restarted", None, 30, observer="c", initial=True),
        sighting("too early", 4, 9),
        sighting("too early", 1, 3, observer="b"),
        # Whoever starts days later tells the same id; that is an event of its own.
        sighting("long", 0, 1),
        sighting("long", None, 100, observer="b", initial=True),
        # But not if somebody told it in between.
        sighting("chain", 0, 1),
        sighting("chain", None, 50, observer="b", initial=True),
        sighting("chain", None, 100, observer="c", initial=True),
    )
    assert events(sightings.merged(frame)) == {
        "twice": [(hours(2), hours(4), False, False, "a")],
        "restarted": [(hours(1), hours(2), False, False, "a")],
        "too early": [(hours(1), hours(3), False, False, "b")],
        "long": [(hours(0), hours(1), False, False, "a"), (None, hours(100), False, True, "b")],
        "chain": [(hours(0), hours(1), False, False, "a")],
    }


def test_an_event_was_planned_if_one_of_its_observers_knew_the_change(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.fleet import sightings  # noqa: PLC0415

    frame = told(
        spark,
        sighting("one knew", 0, 1),
        sighting("one knew", 0, 2, observer="b", planned=True, change_id="chg-1"),
        sighting("one asked too late", 0, 1, planned=True, change_id="chg-2"),
        sighting("one asked too late", 0, 2, observer="b", planned=False),
        sighting("unplanned", 0, 1, planned=False),
        sighting("unplanned", 0, 2, observer="b"),
        sighting("nobody asked", 0, 1),
    )
    merged = sightings.merged(frame).select("id", "planned", "change_id").toArrow().to_pylist()
    assert {row["id"]: (row["planned"], row["change_id"]) for row in merged} == {
        "one knew": (True, "chg-1"),
        "one asked too late": (True, "chg-2"),
        "unplanned": (False, None),
        "nobody asked": (None, None),
    }


def test_events_of_a_day_follow_from_the_sightings_of_three_days_around_it(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.fleet import sightings  # noqa: PLC0415

    rng = random.Random(7)
    values = [
        sighting(
            rng.choice("abcdefghijkl"), None, round(rng.uniform(0, 24 * 20), 2), observer=rng.choice("abc")
        )
        for _ in range(60)
    ]
    frame = told(spark, *values).localCheckpoint()
    everything = events(sightings.merged(frame))
    for number in (3, 7, 8, 12):
        days = Days(day(number), day(number + 1))
        near = sightings.within(frame, days.widened(sightings.REACH_DAYS))
        some = events(sightings.within(sightings.merged(near), days))
        wanted = {
            id_: kept
            for id_, found in everything.items()
            if (kept := [one for one in found if days.begin <= one[1] < days.end])
        }
        assert some == wanted


def test_doubles_among_new_sightings_are_counted(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.fleet import sightings  # noqa: PLC0415

    frame = told(
        spark,
        sighting("old", 0, 1, batch=1),
        sighting("old and new", 0, 1, batch=1),
        sighting("old and new", 0, 2, batch=2),
        sighting("old and new", 0, 3, batch=3),
        sighting("new", 0, 1, batch=2),
        sighting("new twice", 0, 1, batch=2),
        sighting("new twice", 0, 1, batch=3, observer="b"),
    )
    counted = sightings.merged(frame, new_after=1).select("id", "doubles").toArrow().to_pylist()
    assert {row["id"]: row["doubles"] for row in counted} == {
        "old": 0,
        "old and new": 2,
        "new": 0,
        "new twice": 1,
    }


def test_the_days_that_new_sightings_touch(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.fleet import sightings  # noqa: PLC0415

    old = told(spark, sighting("x", 0, 1), sighting("y", 0, 30))
    new = told(spark, sighting("x", 0, 49), sighting("z", 0, 50))
    found = sightings.touched(old, new).toArrow().column("day").to_pylist()
    assert sorted(found) == [day(0), day(2)]
