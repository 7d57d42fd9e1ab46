"""What people and their tools see of a look that found many changes for one cause."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.events.digests import Observed, fold
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.outbox import Entry, SqliteOutbox, Write
from kafka_partition_events.testing.scripted import cluster_of
from tests.world_kit import moment

Captured = pytest.CaptureFixture[str]


def looked(leader: int | None, epoch: int, brokers: list[int], partitions: int = 3) -> Cluster:
    """Partitions 0 and on have no replica but on broker 2; the last one has another one."""
    alone: Any = {"leader": leader, "replicas": [2], "isr": [2], "epoch": epoch}
    other: Any = {"leader": leader or 1, "replicas": [2, 1], "isr": [leader or 1], "epoch": epoch}
    topic: Any = {"id": "t-1", "partitions": [alone] * partitions + [other]}
    return cluster_of({"orders": topic}, brokers, cluster_id="c-1", generation=epoch)


def found(old: Cluster, new: Cluster, second: float) -> list[Entry]:
    events = diff(old, new, first_sequence=1, wall_time=moment(second), previous_at=moment(second - 5))
    look = [Observed(event=event, recorded_at=moment(second)) for event in events]
    return fold(look, observer="a")


UP, DOWN, BACK = looked(2, 1, [1, 2]), looked(None, 2, [1]), looked(2, 3, [1, 2])
LOSS, RETURN = found(UP, DOWN, 10), found(DOWN, BACK, 70)


def test_events_are_listed_together(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "outbox.db"
    with contextlib.closing(SqliteOutbox(path, max_age_s=1e9)) as outbox:
        outbox.write(Write(entries=LOSS))
    listing = ["events", "ls", "--outbox", str(path), "--type", "partition.offline", "--output", "jsonl"]
    assert run(listing) == 0
    (together,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert together["data"]["partitions"] == "0-2"
    assert together["data"]["cause"] == {"broker": 2}
    assert run(["events", "ls", "--outbox", str(path), "--output", "table"]) == 0
    assert "topic/orders/0-2" in capsys.readouterr().out
