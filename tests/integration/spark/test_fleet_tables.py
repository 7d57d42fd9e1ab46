"""Tables, their state, and one event of all who tell it, on small data frames of one session."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from pyspark.sql import DataFrame, SparkSession

from kafka_partition_events.spark import events
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.ingest.batches import came
from kafka_partition_events.spark.tables.days import Days, Hours
from kafka_partition_events.spark.tables.state import CONTROL, Reading, Taken
from kafka_partition_events.spark.tables.state_table import StateTable
from kafka_partition_events.spark.tables.tables import Fence, Tables
from tests.fleet_kit import moment, offline, sightings

pytestmark = pytest.mark.spark

DAY = date(2026, 11, 20)


def day(number: int) -> date:
    return DAY + timedelta(days=number)


@pytest.fixture
def tables(pipelines_spark: SparkSession, tmp_path: Path) -> Tables:
    return Tables(pipelines_spark, str(tmp_path), fence=Fence(owner="a", run=1))


def rows(spark: SparkSession, *values: tuple[int, int]) -> DataFrame:
    """Return rows of a number and a day."""
    return spark.createDataFrame([(n, day(d)) for n, d in values], "n INT, day DATE")


def numbers(frame: DataFrame) -> list[int]:
    found: list[int] = frame.toArrow().column("n").to_pylist()
    return sorted(found)


class TestTables:
    def test_what_is_added_is_added_once(self, spark: SparkSession, tables: Tables) -> None:
        tables.ensure("bronze/x", rows(spark).schema, {"delta.enableChangeDataFeed": "true"})
        tables.append("bronze/x", rows(spark, (1, 0), (2, 1)), 1)
        begin = tables.version("bronze/x")
        tables.append("bronze/x", rows(spark, (3, 1)), 2)
        tables.append("bronze/x", rows(spark, (3, 1)), 2)
        assert numbers(tables.read("bronze/x")) == [1, 2, 3]
        assert numbers(tables.read("bronze/x", Days(day(1), day(9)))) == [2, 3]
        assert numbers(tables.added("bronze/x", begin, tables.version("bronze/x"))) == [3]
        tables.as_of["bronze/x"] = begin
        assert numbers(tables.read("bronze/x")) == [1, 2]

    def test_days_that_have_no_rows_any_more_are_emptied_and_others_left_alone(
        self, spark: SparkSession, tables: Tables
    ) -> None:
        tables.ensure("gold/x", rows(spark).schema, {})
        tables.replace("gold/x", rows(spark, (1, 0), (2, 1), (3, 2)), Days(day(0), day(2)))
        tables.replace("gold/x", rows(spark, (4, 2)), Days(day(1), day(2)))
        assert numbers(tables.read("gold/x")) == [1, 4]
        assert tables.days("gold/x") == [day(0), day(2)]
        kept = tables.read("gold/x", Days(day(2), day(2)))
        tables.replace("gold/x", kept.selectExpr("n * 10 AS n", "day"), Days(day(2), day(2)))
        assert numbers(tables.read("gold/x")) == [1, 40]

    def test_hours_are_replaced_by_themselves(self, spark: SparkSession, tables: Tables) -> None:
        def at(*values: tuple[int, int, int]) -> DataFrame:
            rows = [(n, day(d), hour) for n, d, hour in values]
            return spark.createDataFrame(rows, "n INT, day DATE, hour_of_day INT")

        def hours(first: tuple[int, int], last: tuple[int, int]) -> Hours:
            begins = (Days(day(d), day(d)).begin + timedelta(hours=hour) for d, hour in (first, last))
            return Hours.touched(*begins)

        tables.ensure("gold/x", at().schema, {})
        tables.replace("gold/x", at((1, 0, 22), (2, 0, 23), (3, 1, 0), (4, 1, 1)), hours((0, 0), (1, 23)))
        tables.replace("gold/x", at((5, 1, 0)), hours((0, 23), (1, 0)))
        assert numbers(tables.read("gold/x")) == [1, 4, 5]

    def test_a_table_that_has_no_rows_yet_is_empty_and_one_that_is_not_there_is_an_error(
        self, spark: SparkSession, tables: Tables
    ) -> None:
        with pytest.raises(SparkJobError, match=r"no table gold/y in .*: has kpe spark fleet been run"):
            tables.read("gold/y")
        tables.ensure("bronze/records", rows(spark).schema, {})
        tables.ensure("bronze/records", rows(spark).schema, {})
        assert numbers(tables.read("bronze/records", Days(day(0), day(1)))) == []
        with pytest.raises(SparkJobError, match=r"no table gold/y in .* yet"):
            tables.read("gold/y")

    def test_what_an_earlier_run_writes_is_passed_over(self, spark: SparkSession, tables: Tables) -> None:
        tables.ensure("gold/x", rows(spark).schema, {})
        tables.replace("gold/x", rows(spark, (1, 0)), Days(day(0), day(0)))
        later = Tables(tables.spark, tables.out, fence=Fence(owner="a", run=2))
        later.touch("gold/x")
        tables.replace("gold/x", rows(spark, (2, 0)), Days(day(0), day(0)))
        assert numbers(tables.read("gold/x")) == [1]
        later.overwrite("gold/x", rows(spark, (3, 0)))
        tables.overwrite("gold/x", rows(spark, (4, 0)))
        assert numbers(tables.read("gold/x")) == [3]


class TestState:
    def test_one_run_at_a_time_works_on_the_tables(self, tables: Tables) -> None:
        first, second = StateTable(tables), StateTable(Tables(tables.spark, tables.out))
        state = first.take_over([])
        first.write(evolve(state, mark=Taken(serial=4)))
        taken = second.take_over([])
        assert (state.run, taken.run, taken.mark.serial) == (1, 2, 4)
        with pytest.raises(SparkJobError, match=r"another .* \(run 2\): this one \(run 1\) stops"):
            first.write(evolve(state, mark=Taken(serial=5)))
        second.write(evolve(taken, ended=True))
        assert second.read() == evolve(taken, ended=True)


def test_offsets_that_were_gone_before_they_were_read_are_counted(spark: SparkSession) -> None:
    def batch(*places: tuple[int, int]) -> DataFrame:
        rows = [("kpe.events", partition, offset, None, DAY) for partition, offset in places]
        columns = "topic STRING, partition INT, offset BIGINT, defect STRING, day DATE"
        return spark.createDataFrame(rows, columns)

    first = came(batch((0, 5), (0, 6), (0, 7)), Reading(source="a topic"))
    assert (first.counts.read, first.counts.missing) == (3, 0)
    # From 8 to 12 retention was quicker; partition 1 is new, and is read from its beginning.
    second = came(batch((0, 12), (0, 13), (1, 0)), first.reading)
    assert (second.counts.read, second.counts.missing) == (3, 4)
    assert second.reading.next == {"0": 14, "1": 1}
    # Partition 2 had lost 5,000 before the topic was begun, as the end of the first batch says.
    begun = evolve(first.reading, next={"0": 6, "2": 5_000})
    third = came(batch((0, 5), (0, 7), (2, 5_000)), begun)
    assert (third.counts.missing, third.reading.next) == (1, {"0": 8, "2": 5_001})
    # Of kpe.changes they are what compaction took, and markers of transactions.
    control = came(batch((0, 12), (0, 14)), first.reading, CONTROL)
    assert (control.counts.read, control.counts.missing) == (2, 0)
    assert control.reading.next == {"0": 15}


# -- observations -> events ------------------------------------------------------------------------------


def observation(id_: str, at: str, prev_at: str | None = None, **more: Any) -> bytes:
    prev = None if prev_at is None else moment(prev_at)
    return offline("orders", 1, moment(at), prev_at=prev, id_=id_, **more)


def test_all_who_tell_one_event_narrow_its_bounds(spark: SparkSession) -> None:
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


def test_an_event_was_planned_if_one_of_its_observers_knew_the_change(spark: SparkSession) -> None:
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


def defects(spark: SparkSession, *seen: tuple[datetime, datetime, int]) -> list[str | None]:
    """Return the defects of events, by the record's timestamp, ``at``, and the timestamp's type."""
    rows = [
        (number, offline("orders", 1, at), written, kind) for number, (written, at, kind) in enumerate(seen)
    ]
    schema = "number INT, value BINARY, timestamp TIMESTAMP, timestampType INT"
    parsed = events.parsed(spark.createDataFrame(rows, schema), "number")
    return [row["defect"] for row in sorted(parsed.collect(), key=lambda row: row["number"])]


def test_an_event_of_a_wrong_clock_is_set_aside(spark: SparkSession) -> None:
    written = moment("12:00")
    cases = {
        timedelta(seconds=-1): None,
        timedelta(minutes=4, seconds=59): None,  # clocks differ
        timedelta(minutes=5, seconds=1): "future",
        timedelta(days=70 * 365): "future",
        -timedelta(days=7, hours=23): None,  # an outbox keeps a week
        -timedelta(days=9): "past",
        -timedelta(days=26 * 365): "past",
    }
    seen = [(written, written + off, 1) for off in cases]
    assert dict(zip(cases, defects(spark, *seen), strict=True)) == cases


def test_where_no_broker_tells_the_time_an_observer_s_own_must_fit_to_the_present(
    spark: SparkSession,
) -> None:
    cases = {0: None, 399: None, 402: "past", -3: "future"}
    ats = [datetime.now(UTC) - timedelta(days=days) for days in cases]
    assert dict(zip(cases, defects(spark, *((at, at, 0) for at in ats)), strict=True)) == cases


def test_a_bound_of_the_year_one_is_none(spark: SparkSession) -> None:
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
