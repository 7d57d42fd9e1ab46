"""What is told in several batches, late, or over midnight: gold is what one computation of all of it makes.

Each story is a cluster of its own, so that all of them take three refreshes together.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kafka_partition_events.spark.tables.days import Days
from tests.fleet_kit import (
    DAY,
    Gold,
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
    unavailable,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NEXT, THIRD = DAY + timedelta(days=1), DAY + timedelta(days=2)
Story = tuple[list[bytes], list[bytes], list[bytes]]


def beat(at: datetime, **how: Any) -> bytes:
    begin, end = (f"{at - timedelta(minutes=back):%Y-%m-%dT%H:%M:%SZ}" for back in (5, 0))
    return record("cluster.summary", at, period={"begin": begin, "end": end}, brokers=[], **how)


def end(cluster: str) -> bytes:
    """The last news of a cluster: an observer's, so that all computations end there."""
    return record("broker.joined", moment("20:00", THIRD), cluster=cluster, broker=9)


def stories() -> dict[str, Story]:
    def of(cluster: str) -> dict[str, Any]:
        return {"cluster": cluster}

    cause, midnight, again, stop, split, beats, producers = (
        of(name) for name in ("cause", "midnight", "again", "stop", "split", "beats", "producers")
    )
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
        # Producers rescue records while no observer says anything.
        "producers": (
            [
                created("t", moment("10:00"), 3, **producers),
                record("records.rescued", moment("11:30"), broker=1, copies=5, withheld=0, **producers),
            ],
            [moved("t", 0, moment("12:30"), 1, 2, **producers)],
            [],
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def bit_by_bit(
    pipelines_spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory
) -> tuple[Gold, Gold]:
    """Gold after three refreshes, and that of the batch computation."""
    told = stories()
    batches = [[value for story in told.values() for value in story[number]] for number in range(3)]
    batches[2] += map(end, told)
    out = tmp_path_factory.mktemp("seams")
    run = begun(pipelines_spark, out)
    for number, values in enumerate(batches):
        run.take_in(values, number)
        run = run.refresh()
    everything = [value for batch in batches for value in batch]
    return gold_of(pipelines_spark, out), gold_at_once(pipelines_spark, everything, Days(DAY, THIRD))


@pytest.mark.parametrize("name", sorted(stories()))
def test_it_does_not_matter_in_which_batch_something_is_told(
    bit_by_bit: tuple[Gold, Gold], name: str
) -> None:
    found, wanted = ({table: of(rows, name) for table, rows in gold.items()} for gold in bit_by_bit)
    assert found == wanted
    assert wanted["availability_hourly"]


def of(rows: list[tuple[Any, ...]], cluster: str) -> list[tuple[Any, ...]]:
    return [row for row in rows if ("cluster_id", cluster) in row]
