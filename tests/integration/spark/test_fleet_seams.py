"""What comes in several batches, late, over midnight, in runs that are cut off: gold is as of one batch.

Each story is a cluster of its own, so that all of them take three refreshes together.
"""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from attrs import evolve
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.maintenance import compact, cutoff, drop_before
from kafka_partition_events.spark.tables.days import Days
from kafka_partition_events.spark.tables.state import Taken
from kafka_partition_events.spark.tables.tables import Tables
from tests.fleet_kit import (
    DAY,
    WRITTEN,
    Begun,
    Gold,
    beat,
    begun,
    created,
    gold_at_once,
    gold_of,
    grown,
    left,
    moment,
    moved,
    offline,
    online,
    record,
    recovered,
    tables_of,
    unavailable,
)

pytestmark = pytest.mark.spark

NEXT, THIRD = DAY + timedelta(days=1), DAY + timedelta(days=2)
Story = tuple[list[bytes], list[bytes], list[bytes]]


def end(cluster: str) -> bytes:
    """The last news of a cluster: an observer's, so that all computations end there."""
    return record("broker.joined", moment("20:00", THIRD), cluster=cluster, broker=9)


def stories() -> dict[str, Story]:
    names = ("cause", "midnight", "again", "stop", "split", "beats", "word", "producers", "both")
    cause, midnight, again, stop, split, beats, word, producers, both = (
        dict[str, Any](cluster=name) for name in names
    )
    second: dict[str, Any] = {"observer": "b", **both}
    once_more: dict[str, Any] = {"topic": "t", "topic_id": "t-2", "after": {"count": 3}, "id_": "R", **again}
    return {
        # An outage that ends days after its broker left keeps that as its cause.
        "cause": (
            [
                created("t", moment("09:00"), 3, **cause),
                left(2, moment("10:00"), moment("09:59"), **cause),
                offline("t", 0, moment("10:00"), prev_at=moment("09:59"), **cause),
            ],
            [],
            [online("t", 0, moment("10:00", THIRD), prev_at=moment("09:59", THIRD), **cause)],
        ),
        # So does one whose broker was seen to leave after midnight, which is told late.
        "midnight": (
            [
                created("t", moment("09:00"), 3, **midnight),
                offline("t", 0, moment("23:59:30"), prev_at=moment("23:59:20"), **midnight),
                online("t", 0, moment("23:59:50"), **midnight),
                created("t", moment("02:00", NEXT), 3, **midnight),
            ],
            [left(2, moment("00:00:40", NEXT), moment("00:00:10", NEXT), **midnight)],
            [],
        ),
        # Two observers tell of one re-creation, one before midnight and one after it.
        "again": (
            [
                created("t", moment("09:00"), 3, **again),
                record("topic.recreated", moment("23:59:50"), prev_at=moment("23:59:40"), **once_more),
                record(
                    "topic.recreated", moment("00:00:10", NEXT), prev_at=moment("23:59:45"), observer="b",
                    **once_more,
                ),
            ],
            [grown("t", moment("10:00", NEXT), 4, topic_id="t-2", **again)],
            [],
        ),
        # One observer can't look any more; another one does now and then.
        "stop": (
            [
                created("t", moment("09:00"), 3, **stop),
                unavailable(moment("09:59"), moment("10:00"), **stop),
                moved("t", 0, moment("12:00"), 1, 2, prev_at=moment("11:59"), observer="b", **stop),
            ],
            [moved("t", 0, moment("12:00", NEXT), 2, 1, prev_at=moment("11:59", NEXT), observer="b", **stop)],
            [created("u", moment("18:00"), 3, observer="b", **stop)],  # told late
        ),
        # Blind times that touch each other.
        "split": (
            [
                created("t", moment("09:00"), 3, **split),
                recovered(moment("10:00"), moment("12:00"), **split),
                moved("t", 0, moment("12:00:30"), 1, 2, **split),
            ],
            [
                unavailable(moment("12:00"), moment("12:01"), **split),
                moved("t", 0, moment("13:00"), 1, 2, **split),
            ],
            [],
        ),
        # Summaries of the second observer come late: somebody has looked all the time.
        "beats": (
            [
                created("t", moment("09:00"), 3, **beats),
                beat(moment("10:00"), **beats),
                beat(moment("10:30"), **beats),
                moved("t", 0, moment("10:34"), 1, 2, **beats),
            ],
            [beat(moment(f"10:{minute:02}"), observer="b", **beats) for minute in (5, 10, 15, 20, 25)],
            [],
        ),
        # A word of the second observer comes late: it watched when the first one lost the cluster.
        "word": (
            [
                beat(moment("08:35"), observer="b", **word),
                unavailable(moment("08:50"), moment("08:51"), **word),
                recovered(moment("08:50"), moment("09:05"), **word),
            ],
            [created("t", moment("08:44"), 3, observer="b", **word)],
            [],
        ),
        # Producers rescue records while no observer says anything.
        "producers": (
            [
                created("t", moment("10:00"), 3, **producers),
                record("records.rescued", moment("11:30"), broker=1, copies=5, withheld=0, **producers),
            ],
            [moved("t", 0, moment("12:30"), 1, 2, **producers)],
            [],
        ),
        # Nobody watched for thirteen hours, says the first observer. The second one did, and saw another
        # end, growth, and a move.
        "both": (
            [
                created("orders", moment("08:00"), 3, **both),
                created("payments", moment("08:00"), 2, **both),
                offline("orders", 1, moment("10:20"), prev_at=moment("10:19:50"), **both),
                left(2, moment("10:20"), prev_at=moment("10:19:50"), **both),
                online("orders", 1, moment("23:30"), prev_at=moment("10:30"), gap=True, **both),
                recovered(moment("10:30"), moment("23:30"), **both),
                moved("payments", 0, moment("23:31"), 2, 1, **both),
                offline("payments", 1, moment("23:40"), prev_at=moment("23:39"), **both),
            ],
            [],
            [
                online("orders", 1, moment("10:40"), prev_at=moment("10:39:50"), **second),
                offline("orders", 2, moment("22:00"), prev_at=moment("10:40"), **second),
                grown("payments", moment("11:00"), 4, prev_at=moment("10:59"), **second),
                moved("payments", 0, moment("12:00"), 1, 2, **second),
                online("payments", 1, moment("00:10", NEXT), prev_at=moment("00:09", NEXT), **both),
                record(
                    "cluster.summary", moment("00:10", NEXT),
                    brokers=[{"broker": 1, "leaders": 5, "replicas": 5}], **both,
                ),
            ],
        ),
    }  # fmt: skip


class Halfway(NamedTuple):
    """Tables with two of the batches, and the third one in bronze.

    Attributes:
        out: Where they are; use a copy.
        wanted: What gold must be of all three, by one computation.
        read: How many records that is.
    """

    out: Path
    wanted: Gold
    read: int


@pytest.fixture(scope="module")
def halfway(pipelines_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Halfway:
    told = stories()
    batches = [[value for story in told.values() for value in story[number]] for number in range(3)]
    batches[2] += map(end, told)
    out = tmp_path_factory.mktemp("halfway") / "out"
    run = begun(pipelines_spark, out)
    for number, values in enumerate(batches):
        run.take_in(values, number)
        if values is not batches[-1]:
            run = run.refresh()
    run.kept.write(evolve(run.state, ended=True))
    everything = [value for batch in batches for value in batch]
    wanted = gold_at_once(pipelines_spark, everything, Days(DAY, THIRD))
    return Halfway(out, wanted, len(everything))


WRITES: Final = frozenset({"append", "replace", "overwrite"})


class Watched:
    """Tables of a run that something may happen to before one of its writes.

    Attributes:
        written: What was called that writes.
    """

    def __init__(self, tables: Tables, before: int = -1, act: Callable[[], None] = lambda: None) -> None:
        self.written: list[str] = []
        self._tables, self._before, self._act = tables, before, act

    def __getattr__(self, name: str) -> Any:
        if name in WRITES:
            if len(self.written) == self._before:
                self._act()
            self.written.append(name)
        return getattr(self._tables, name)


class Whole(NamedTuple):
    """Tables with all of it, what gold is there, and how many writes the last refresh had."""

    run: Begun
    gold: Gold
    writes: int


@pytest.fixture(scope="module")
def whole(pipelines_spark: SparkSession, halfway: Halfway, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    out = tmp_path_factory.mktemp("whole") / "out"
    shutil.copytree(halfway.out, out)
    run = begun(pipelines_spark, out)
    watched = Watched(run.tables)
    return Whole(run.refresh(watched), gold_of(run.tables), len(watched.written))


@pytest.mark.parametrize("name", sorted(stories()))
def test_it_does_not_matter_in_which_batch_something_is_told(
    whole: Whole, halfway: Halfway, name: str
) -> None:
    found, wanted = (
        {table: of(rows, name) for table, rows in each.items()} for each in (whole.gold, halfway.wanted)
    )
    assert found == wanted
    assert wanted["availability_hourly"]


def of(rows: list[tuple[Any, ...]], cluster: str) -> list[tuple[Any, ...]]:
    return [row for row in rows if ("cluster_id", cluster) in row]


# -- cut off at each call that writes ----------------------------------------------------------------------


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.weekly)])
def test_a_run_that_thaws_before_any_of_its_writes_changes_nothing_of_what_another_has_made_right(
    step: int, pipelines_spark: SparkSession, halfway: Halfway, whole: Whole, tmp_path: Path
) -> None:
    """Before one of so many writes. To the other run it is as good as killed there."""
    assert whole.writes > 8, "there are more writes than that"
    for writes in range(step - 1, whole.writes, step):
        out = tmp_path / str(writes)
        shutil.copytree(halfway.out, out)
        frozen = begun(pipelines_spark, out)

        def take_over(out: Path = out) -> None:
            begun(pipelines_spark, out).refresh()

        # One thing after another, so that it is known which write is the next one.
        with pytest.raises(SparkJobError, match=r"this one \(run "):  # another one has taken over
            frozen.refresh(Watched(frozen.tables, writes, take_over), at_once=1)
        assert gold_of(tables_of(pipelines_spark, out)) == halfway.wanted, f"before write {writes}"


# -- maintenance: few files of many, and no old records --------------------------------------------------


def test_maintenance_changes_nothing_but_old_records(whole: Whole, halfway: Halfway) -> None:
    run, tables = whole.run, whole.run.tables

    def files() -> int:
        return tables.read("bronze/records").select(F.input_file_name()).distinct().count()

    assert files() > 1
    compact(tables, ["bronze/records", "silver/states", "gold/skew", "gold/none"])
    assert files() == 1
    run = run.refresh()
    assert gold_of(tables) == whole.gold
    assert run.state.mark.totals.read == halfway.read
    drop_before(tables, WRITTEN.date() + timedelta(days=1))
    assert tables.read("bronze/records").count() == 0
    run = run.refresh()
    assert run.state.mark.totals.read == halfway.read
    assert gold_of(tables) == whole.gold


NEWS = datetime(2026, 11, 25, 12, tzinfo=UTC)


def test_what_is_needed_is_kept() -> None:
    keep, stopped = timedelta(days=30), NEWS - timedelta(days=100)
    assert cutoff(Taken(), keep) == (None, None)
    both = Taken(until={"c-1": NEWS, "c-2": NEWS - timedelta(days=39)})
    assert cutoff(both, keep) == ((NEWS - keep).date(), None)
    assert cutoff(evolve(both, stopped={"c-1": NEWS}), keep) == ((NEWS - keep).date(), None)
    both = evolve(both, stopped={"c-2": stopped})
    assert cutoff(both, keep) == ((stopped - timedelta(days=2)).date(), "c-2")
