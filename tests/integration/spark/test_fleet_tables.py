"""Tables, ledger, and one event of all who tell it, on small data frames of one session."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.tables.days import Days, Hours
from kafka_partition_events.spark.tables.ledger import Counts
from tests.fleet_kit import moment, offline, sightings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_partition_events.spark.tables.storage import Storage
    from kafka_partition_events.spark.tables.tables import Tables

pytestmark = pytest.mark.spark

DAY = date(2026, 11, 20)


def day(number: int) -> date:
    return DAY + timedelta(days=number)


@pytest.fixture
def storage(spark: "SparkSession", tmp_path: Path) -> "Storage":
    from kafka_partition_events.spark.tables.storage import Storage  # noqa: PLC0415

    return Storage(spark, str(tmp_path / "out"))


@pytest.fixture
def tables(spark: "SparkSession", storage: "Storage") -> "Tables":
    from kafka_partition_events.spark.tables.tables import open_tables  # noqa: PLC0415

    return open_tables(spark, storage.root, "parquet")


def rows(spark: "SparkSession", *values: tuple[int, int]) -> "DataFrame":
    """Return rows of a number and a day."""
    return spark.createDataFrame([(n, day(d)) for n, d in values], "n INT, day DATE")


def numbers(frame: "DataFrame") -> list[int]:
    found: list[int] = frame.toArrow().column("n").to_pylist()
    return sorted(found)


class TestTablesInFiles:
    def test_a_batch_replaces_what_it_has_written_before(
        self, spark: "SparkSession", tables: "Tables"
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
        self, spark: "SparkSession", tables: "Tables"
    ) -> None:
        tables.replace("gold/x", rows(spark, (1, 0), (2, 1), (3, 2)), Days(day(0), day(2)))
        tables.replace("gold/x", rows(spark, (4, 2)), Days(day(1), day(2)))
        assert numbers(tables.read("gold/x")) == [1, 4]

    def test_a_table_without_days_is_replaced_by_batch(self, spark: "SparkSession", tables: "Tables") -> None:
        flat = rows(spark, (1, 0), (2, 0)).select("n")
        tables.put("silver/log", flat, 3)
        tables.put("silver/log", flat, 4)
        tables.put("silver/log", flat.where("n > 2"), 3)
        assert numbers(tables.read("silver/log")) == [1, 2]
        tables.drop("silver/log", 4)
        assert numbers(tables.read("silver/log", batches=[3, 4])) == []

    def test_a_table_that_has_no_rows_yet_is_empty_and_one_that_is_not_there_is_an_error(
        self, spark: "SparkSession", tables: "Tables", tmp_path: Path
    ) -> None:
        tables.ensure("gold/x", rows(spark).schema)
        assert tables.read("gold/x").columns == ["n", "day"]
        assert numbers(tables.read("gold/x", Days(day(0), day(1)))) == []
        with pytest.raises(SparkJobError, match=r"no table gold/y in .*out: has kpe spark fleet been run"):
            tables.read("gold/y")

    def test_tables_that_had_no_event_yet_are_not_told_to_be_unknown(
        self, spark: "SparkSession", tables: "Tables"
    ) -> None:
        tables.ensure("bronze/records", rows(spark).schema)
        with pytest.raises(SparkJobError, match="has been run, but there was nothing for it"):
            tables.read("gold/availability_hourly")

    def test_columns_that_come_later_are_null_in_what_was_there(
        self, spark: "SparkSession", tables: "Tables"
    ) -> None:
        tables.replace("gold/x", rows(spark, (1, 0)), Days(day(0), day(0)))
        wider = rows(spark, (2, 1)).selectExpr("n", "'new' AS text", "day")
        tables.replace("gold/x", wider, Days(day(1), day(1)))
        found = tables.read("gold/x").orderBy("n").toArrow().to_pylist()
        assert [row["text"] for row in found] == [None, "new"]

    def test_an_unknown_format_is_told_with_those_that_are_known(
        self, spark: "SparkSession", tmp_path: Path
    ) -> None:
        from kafka_partition_events.spark.tables.tables import open_tables  # noqa: PLC0415

        for format_ in ("delta", "nonsense"):  # this Spark has neither
            with pytest.raises(SparkJobError, match=rf"no format '{format_}': give one of parquet.*delta"):
                open_tables(spark, str(tmp_path), format_)

    def test_hours_are_replaced_by_themselves(self, spark: "SparkSession", tables: "Tables") -> None:
        def at(*values: tuple[int, int, int]) -> "DataFrame":
            rows = [(n, day(d), hour) for n, d, hour in values]
            return spark.createDataFrame(rows, "n INT, day DATE, hour_of_day INT")

        def hours(first: tuple[int, int], last: tuple[int, int]) -> Hours:
            return Hours(*(Days(day(d), day(d)).hours.first + hour for d, hour in (first, last)))

        tables.replace("gold/x", at((1, 0, 22), (2, 0, 23), (3, 1, 0), (4, 1, 1)), hours((0, 0), (1, 23)))
        tables.replace("gold/x", at((5, 1, 0)), hours((0, 23), (1, 0)))
        assert numbers(tables.read("gold/x")) == [1, 4, 5]
        assert numbers(tables.read("gold/x", Days(day(1), day(1)))) == [4, 5]
        assert tables.days("gold/x") == [day(0), day(1)]

    def test_rows_are_rewritten_in_their_places(self, spark: "SparkSession", tables: "Tables") -> None:
        tables.put("bronze/x", rows(spark, (1, 0), (2, 1)), 0)
        tables.put("bronze/x", rows(spark, (3, 1)), 1)
        kept = tables.read("bronze/x", Days(day(1), day(1)))
        tables.rewrite("bronze/x", kept.selectExpr("n * 10 AS n", "day", "batch"))
        assert numbers(tables.read("bronze/x")) == [1, 20, 30]
        assert numbers(tables.read("bronze/x", batches=[1])) == [30]


class TestLedger:
    def test_what_is_noted_is_taken_up_once(self, storage: "Storage") -> None:
        from kafka_partition_events.spark.tables.ledger import Batch, Ledger, Mark  # noqa: PLC0415

        at = datetime(2026, 11, 20, 10, tzinfo=UTC)
        ledger = Ledger(storage)
        assert ledger.mark() == Mark()
        counts = Counts(read=3, good=2)
        first = Batch(query="ingest", number=0, days=Days(DAY, DAY), counts=counts)
        second = Batch(query="control", number=4, heard=at, counts=Counts(read=1))
        ledger.note(first)
        ledger.note(first)
        ledger.note(second)
        assert ledger.has_news()
        assert ledger.noted() == [second, first]
        mark = ledger.mark().after(ledger.noted(), until={"c-1": at}, blind=1)
        ledger.settle(mark, ledger.noted())
        assert ledger.noted() == []
        assert not ledger.has_news()
        assert ledger.mark() == Mark(
            serial=1, ingest=0, control=4, blind=1, until={"c-1": at}, heard=at, totals=counts
        )
        again = ledger.mark().after([first])  # the same batch, once more after a crash
        assert again.totals == mark.totals
        assert (again.blind, again.until) == (1, {"c-1": at})

    def test_what_a_refresh_that_was_cut_off_was_about_to_change_is_not_forgotten(
        self, storage: "Storage"
    ) -> None:
        from kafka_partition_events.spark.tables.ledger import Intent, Ledger, Mark  # noqa: PLC0415

        first = Intent(rated=[Hours(5, 6)], began=[Days(DAY, DAY)])
        second = Intent(rated=[Hours(7, 7), Hours(9, 9)], grown=[Days(DAY, day(1))])
        ledger = Ledger(storage)
        assert ledger.intend(first) == first
        storage.write("intents/2.json", '{"rated": [{"fir')  # torn by a crash: nothing was changed after it
        both = Intent(rated=[Hours(5, 7), Hours(9, 9)], began=[Days(DAY, DAY)], grown=[Days(DAY, day(1))])
        assert Ledger(storage).intend(second) == both
        assert Ledger(storage).intend(Intent()) == both
        ledger.settle(Mark(serial=1), [])
        assert ledger.intend(second) == second

    def test_one_run_at_a_time_works_on_the_tables(self, storage: "Storage") -> None:
        from kafka_partition_events.spark.tables.ledger import Batch, Intent, Ledger, Mark  # noqa: PLC0415

        first, second = Ledger(storage), Ledger(storage)
        first.take_over()
        first.note(Batch(query="ingest", number=0))
        second.take_over()
        for act in (
            lambda: first.note(Batch(query="ingest", number=1)),
            lambda: first.intend(Intent()),
            lambda: first.settle(Mark(serial=1), []),
        ):
            with pytest.raises(SparkJobError, match="another kpe spark fleet has begun to work on"):
                act()
        second.settle(Mark(serial=1, ingest=0), second.noted())
        assert first.mark().ingest == 0

    def test_a_file_that_a_crash_has_torn_is_as_good_as_none(self, storage: "Storage") -> None:
        from kafka_partition_events.spark.tables.ledger import Batch, Ledger, Mark  # noqa: PLC0415

        ledger = Ledger(storage)
        ledger.settle(Mark(serial=1, ingest=4), [])
        storage.write("refreshes/2.json", '{"serial": 2, "ing')
        storage.write("batches/ingest-5.json", "")
        ledger.note(Batch(query="ingest", number=6))
        assert ledger.mark().ingest == 4
        assert [batch.number for batch in ledger.noted()] == [6]

    def test_offsets_are_those_that_spark_has_noted(self, storage: "Storage") -> None:
        from kafka_partition_events.spark.kafka import offsets_in  # noqa: PLC0415
        from kafka_partition_events.spark.tables.ledger import Ledger  # noqa: PLC0415

        ledger = Ledger(storage)
        storage.write("checkpoints/ingest/offsets/3", 'v1\n{"batchWatermarkMs":0}\n{"kpe.events":{"0":7}}')
        storage.write("checkpoints/ingest/offsets/4", 'v1\n{"batchWatermarkMs":0}\n{"logOffset":4}')
        assert offsets_in(ledger.offsets("ingest", 3)) == {TopicPartition("kpe.events", 0): 7}
        assert offsets_in(ledger.offsets("ingest", 4)) == {}, "of files"
        assert ledger.offsets("ingest", 5) is ledger.first_offsets("ingest") is None

    def test_tables_belong_to_one_source_as_soon_as_it_has_given_anything(self, storage: "Storage") -> None:
        from kafka_partition_events.spark.tables.ledger import Batch, Ledger  # noqa: PLC0415

        ledger = Ledger(storage)
        ledger.claim("the Kafka topic misspelt", "parquet tables", "out")
        ledger.claim("the Kafka topic kpe.events", "parquet tables", "out")
        ledger.note(Batch(query="ingest", number=0))
        ledger.claim("the Kafka topic kpe.events", "parquet tables", "out")
        with pytest.raises(
            SparkJobError, match=r"out is filled from the Kafka topic kpe\.events.*another --out"
        ):
            ledger.claim("the JSONL files x", "parquet tables", "out")
        with pytest.raises(SparkJobError, match="out holds parquet tables, not delta tables"):
            ledger.claim("the Kafka topic kpe.events", "delta tables", "out")


# -- observations -> events ------------------------------------------------------------------------------


def observation(id_: str, at: str, prev_at: str | None = None, **more: Any) -> bytes:
    prev = None if prev_at is None else moment(prev_at)
    return offline("orders", 1, moment(at), prev_at=prev, id_=id_, **more)


def test_all_who_tell_one_event_narrow_its_bounds(spark: "SparkSession") -> None:
    from kafka_partition_events.spark import events  # noqa: PLC0415

    told = sightings(
        spark,
        [
            observation("twice", "10:04", "10:01", gap=True),
            observation("twice", "10:06", "10:02", observer="b"),
            observation("restarted", "10:03", "10:01"),
            observation("restarted", "10:02", observer="b", initial=True),
            observation("restarted", "20:00", observer="c", initial=True),
            observation("too early", "10:09", "10:04"),
            observation("too early", "10:03", "10:01", observer="b"),
        ],
    )
    found = {row["id"]: row for row in events.distinct(told).toArrow().to_pylist()}
    assert {id_: tuple(row[name] for name in EVENT) for id_, row in found.items()} == {
        "twice": (moment("10:02"), moment("10:04"), False, False, "a"),
        "restarted": (moment("10:01"), moment("10:02"), False, False, "a"),
        "too early": (moment("10:01"), moment("10:03"), False, False, "b"),
    }


EVENT = ("prev_at", "at", "gap", "initial", "observer")


def test_an_event_was_planned_if_one_of_its_observers_knew_the_change(spark: "SparkSession") -> None:
    from kafka_partition_events.spark import events  # noqa: PLC0415

    told = sightings(
        spark,
        [
            observation("one knew", "10:01"),
            observation("one knew", "10:02", observer="b", planned=True, change_id="chg-1"),
            observation("one asked too late", "10:01", planned=True, change_id="chg-2"),
            observation("one asked too late", "10:02", observer="b", planned=False),
            observation("unplanned", "10:01", planned=False),
            observation("unplanned", "10:02", observer="b"),
            observation("nobody asked", "10:01"),
        ],
    )
    found = events.distinct(told).select("id", "planned", "change_id").toArrow().to_pylist()
    assert {row["id"]: (row["planned"], row["change_id"]) for row in found} == {
        "one knew": (True, "chg-1"),
        "one asked too late": (True, "chg-2"),
        "unplanned": (False, None),
        "nobody asked": (None, None),
    }


# -- clocks and offsets --------------------------------------------------------------------------------------

RECORD = "value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"


def defects(
    spark: "SparkSession", *seen: tuple[int | None, datetime, datetime, int | None]
) -> list[str | None]:
    """Return the defects of events, by offset, the record's timestamp, ``at``, and the timestamp's type."""
    from kafka_partition_events.spark import events  # noqa: PLC0415

    rows = [
        (number, offline("orders", 1, at), "kpe.events", 0, offset, written, kind)
        for number, (offset, written, at, kind) in enumerate(seen)
    ]
    parsed = events.parsed(spark.createDataFrame(rows, f"number INT, {RECORD}"), "number")
    return [row["defect"] for row in sorted(parsed.collect(), key=lambda row: row["number"])]


def test_an_event_of_a_wrong_clock_is_set_aside(spark: "SparkSession") -> None:
    written = moment("12:00")
    cases = {
        (7, timedelta(seconds=-1)): None,
        (7, timedelta(minutes=4, seconds=59)): None,  # clocks differ
        (7, timedelta(minutes=5, seconds=1)): "future",
        (7, timedelta(days=70 * 365)): "future",
        (7, -timedelta(days=7, hours=23)): None,  # an outbox keeps a week
        (7, -timedelta(days=9)): "past",
        (7, -timedelta(days=26 * 365)): "past",
        (None, -timedelta(days=399)): None,  # a file
        (None, -timedelta(days=401)): "past",
    }
    seen = [(offset, written, written + off, None if offset is None else 1) for offset, off in cases]
    assert dict(zip(cases, defects(spark, *seen), strict=True)) == cases


def test_where_no_broker_tells_the_time_an_observer_s_own_must_fit_to_the_present(
    spark: "SparkSession",
) -> None:
    cases = {0: None, 399: None, 402: "past", -3: "future"}
    ats = [datetime.now(UTC) - timedelta(days=days) for days in cases]
    assert dict(zip(cases, defects(spark, *((7, at, at, 0) for at in ats)), strict=True)) == cases


def test_a_bound_of_the_year_one_is_none(spark: "SparkSession") -> None:
    from kafka_partition_events.spark import events  # noqa: PLC0415

    at = moment("12:00")
    told = sightings(
        spark,
        [
            offline("orders", 1, at, prev_at=datetime(1, 1, 2, tzinfo=UTC)),
            offline("orders", 2, at, prev_at=at - timedelta(days=39)),
        ],
    )
    found = events.distinct(told).select("partitions", "prev_at").toArrow().to_pylist()
    assert {row["partitions"]: row["prev_at"] for row in found} == {"1": None, "2": at - timedelta(days=39)}


def test_offsets_that_were_gone_before_they_were_read_are_counted(
    spark: "SparkSession", storage: "Storage", tables: "Tables"
) -> None:
    from kafka_partition_events.spark.ingest.batches import write_events  # noqa: PLC0415
    from kafka_partition_events.spark.tables.ledger import Ledger  # noqa: PLC0415

    def batch(*offsets: int) -> "DataFrame":
        rows = [
            (None, offline("orders", 1, moment("12:00")), "kpe.events", 0, offset, moment("12:00"), 1)
            for offset in offsets
        ]
        return spark.createDataFrame(rows, f"key BINARY, {RECORD}")

    ledger = Ledger(storage)
    storage.write("checkpoints/ingest/sources/0/0", 'v1\n{"kpe.events":{"0":5}}')
    storage.write("checkpoints/ingest/offsets/0", 'v1\n{}\n{"kpe.events":{"0":8}}')
    ledger.note(write_events(tables, ledger, batch(5, 6, 7), 0))
    # From 8 to 12 retention was quicker; partition 1 is new, and is read from its beginning.
    storage.write("checkpoints/ingest/offsets/1", 'v1\n{}\n{"kpe.events":{"0":14, "1": 1}}')
    ledger.note(write_events(tables, ledger, batch(12, 13, 0), 1))
    assert [(each.counts.read, each.counts.missing) for each in ledger.noted()] == [(3, 0), (3, 4)]
