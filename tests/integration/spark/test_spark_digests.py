"""To Spark a digest is the transitions that it tells: the same rows, the same gold, whoever grouped how.

Gold is made of these rows and of nothing else.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_partition_events.events.cloudevents import to_json
from kafka_partition_events.events.digests import FOLDED, Observed, fold
from kafka_partition_events.events.names import NAMES
from kafka_partition_events.listeners import to_cloudevent, to_record
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.spark import events
from kafka_partition_events.testing.scripted import cluster_of
from tests.every_event import EVERY_EVENT
from tests.fleet_kit import parsed, sightings

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)


def look(lost: int | None, epoch: int) -> Cluster:
    """Of each topic broker 2 leads two partitions, one of which has no other replica."""
    alone = {"leader": 2, "isr": [2], "replicas": [2], "epoch": epoch}
    leader, isr = (1, [1]) if lost else (2, [2, 1])
    shared = {"leader": leader, "isr": isr, "replicas": [2, 1], "epoch": epoch}
    other = {"leader": 1, "isr": [1], "replicas": [1], "epoch": 0}
    partitions = [alone, alone, shared, shared, other]
    topics: dict[str, Any] = {
        name: {"id": f"id-{name}", "partitions": partitions} for name in ("orders", "payments")
    }
    return cluster_of(topics, [1] if lost else [1, 2], generation=epoch + 1)


def observed(delay_s: float, sequence: int) -> list[Observed]:
    """Broker 2 is away for a minute, as one who looks each ten seconds found it."""
    found: list[Observed] = []
    clusters = [(EMPTY, look(None, 0), 0), (look(None, 0), look(2, 1), 60), (look(2, 1), look(None, 2), 120)]
    for number, (old, new, second) in enumerate(clusters):
        at = START + timedelta(seconds=second + delay_s)
        found += [
            Observed(event=event, recorded_at=at, labels={"planned": False} if number else {})
            for event in diff(
                old,
                new,
                first_sequence=sequence + len(found),
                wall_time=at,
                previous_at=at - timedelta(seconds=10) if number else None,
                initial=not number,
            )
        ]
    return found


def records() -> tuple[list[bytes], list[bytes]]:
    """What two observers told of it: one by one, and together."""
    alone: list[bytes] = []
    together: list[bytes] = []
    for name, delay_s, sequence in (("first", 0.0, 1), ("second", 4.0, 1000)):
        seen = observed(delay_s, sequence)
        alone += [to_json(each.cloudevent(name)) for each in seen]
        entries = fold(seen, observer=name)
        together += [entry.body for entry in entries]
        assert any(entry.name in FOLDED for entry in entries)
    assert len(together) < len(alone)
    return alone, together


def rows(spark: SparkSession, values: list[bytes]) -> list[dict[str, Any]]:
    found = [row.asDict(recursive=True) for row in sightings(spark, values).collect()]
    return sorted(found, key=lambda row: (str(row["observer"]), row["sequence"]))


def test_a_digest_is_the_rows_of_what_it_tells(spark: SparkSession) -> None:
    alone, together = records()
    wanted = rows(spark, alone)
    assert rows(spark, together) == wanted
    # One observer is of an earlier version.
    mixed = [*alone[: len(alone) // 2], *together[len(together) // 2 :]]
    assert rows(spark, mixed) == wanted
    assert all(parsed(spark, values).where("defect IS NOT NULL").count() == 0 for values in records())


def test_every_event_that_the_listener_writes_is_understood(spark: SparkSession) -> None:
    told = parsed(spark, [to_record(to_cloudevent(event)).value or b"" for event in EVERY_EVENT])
    assert told.where("defect IS NOT NULL").count() == 0
    assert set(events.NAMES) == NAMES | set(events.BODIES)


@pytest.mark.parametrize(
    ("changed", "defect"),
    [
        (lambda told: told["data"].pop("changes"), events.UNPARSED),
        (lambda told: told["data"].update(changes=[]), events.UNPARSED),
        (lambda told: told["data"].update(changes=[{"partition": 1}]), events.UNPARSED),
        (lambda told: told["data"].update(changes="no"), events.UNPARSED),
        (lambda told: told.update(type="x.topic.created.v2"), events.UNKNOWN),
        (lambda told: told.update(type="x.partition.offline.v3"), events.UNKNOWN),
    ],
)
def test_what_is_no_digest_is_kept_and_named(spark: SparkSession, changed: Any, defect: str) -> None:
    (told, *_) = [json.loads(value) for value in records()[1] if b".v2" in value]
    changed(told)
    (row,) = parsed(spark, [json.dumps(told).encode()]).collect()
    assert row["defect"] == defect
