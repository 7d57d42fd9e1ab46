"""What people and their tools see of a look that found many changes for one cause."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.events.cloudevents import TYPE_PREFIX
from kafka_partition_events.events.digests import Observed, fold
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.outbox import Entry, SqliteOutbox, Write
from kafka_partition_events.testing.scripted import cluster_of
from kafka_partition_events_listeners.webhook.formats import writer_of
from tests.incident_kit import moment

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
    return fold(look, observer="a", type_prefix=TYPE_PREFIX)


UP, DOWN, BACK = looked(2, 1, [1, 2]), looked(None, 2, [1]), looked(2, 3, [1, 2])
LOSS, RETURN = found(UP, DOWN, 10), found(DOWN, BACK, 70)


def named(name: str, entries: list[Entry]) -> Entry:
    (entry,) = (entry for entry in entries if entry.name == name)
    return entry


def written(format_: str, entry: Entry) -> Any:
    return json.loads(writer_of(format_)([entry]).body)


def test_a_broker_that_left_says_what_followed() -> None:
    told = json.dumps(written("slack", named("broker.left", LOSS)))
    assert "1 leader moved, 3 partitions offline" in told
    assert "3 partitions online again" in json.dumps(written("slack", named("broker.joined", RETURN)))


def test_what_went_together_says_which_and_why() -> None:
    told = json.dumps(written("slack", named("partition.offline", LOSS)))
    assert "orders 0-2" in told
    assert "because of broker 2" in told
    assert "changes" not in told


def test_each_partition_is_an_alert_that_ends_however_it_comes_back() -> None:
    firing = written("alertmanager", named("partition.offline", LOSS))
    assert [alert["status"] for alert in firing["alerts"]] == ["firing"] * 3
    resolved = written("alertmanager", named("partition.online", RETURN))
    prints = [{alert["fingerprint"] for alert in body["alerts"]} for body in (firing, resolved)]
    assert prints[0] == prints[1]
    assert len(prints[0]) == 3
    one = looked(None, 1, [1], partitions=1)
    (alone,) = written("alertmanager", named("partition.offline", found(looked(2, 0, [1, 2], 1), one, 5)))[
        "alerts"
    ]
    assert alone["fingerprint"] in prints[0]


def test_events_are_listed_together_or_each_for_itself(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "outbox.db"
    with contextlib.closing(SqliteOutbox(path, max_age_s=1e9)) as outbox:
        outbox.write(Write(entries=LOSS))
    listing = ["events", "ls", "--outbox", str(path), "--type", "partition.offline", "--output", "jsonl"]
    assert run(listing) == 0
    (together,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert together["data"]["partitions"] == "0-2"
    assert together["data"]["cause"] == {"broker": 2}
    assert run([*listing, "--unfold"]) == 0
    each = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["subject"] for event in each] == [f"topic/orders/{n}" for n in range(3)]
    assert [event["id"] for event in each] == [change["id"] for change in together["data"]["changes"]]
    assert run(["events", "ls", "--outbox", str(path), "--output", "table"]) == 0
    assert "topic/orders/0-2" in capsys.readouterr().out
