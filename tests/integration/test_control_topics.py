"""`kpe tracker init` on a real Kafka."""

import json
import time
import uuid

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.testing import KafkaCluster

pytestmark = pytest.mark.kafka

LIMIT_S = 20.0

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def prefix() -> str:
    return f"t{uuid.uuid4().hex[:8]}."


def init(cluster: KafkaCluster, prefix: str, *more: str) -> int:
    return run(["tracker", "init", "-b", cluster.bootstrap_servers, "--prefix", prefix, *more])


def actions(capsys: Captured) -> list[tuple[str, str, bool]]:
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return [(line["topic"].partition(".")[2], line["action"], line["done"]) for line in lines]


def test_it_creates_what_is_missing_once(kafka_cluster: KafkaCluster, prefix: str, capsys: Captured) -> None:
    names = ["commands", "changes", "leases", "acks"]
    assert init(kafka_cluster, prefix, "--dry-run") == 0
    assert actions(capsys) == [(name, "create", False) for name in names]
    assert init(kafka_cluster, prefix) == 0
    assert actions(capsys) == [(name, "create", True) for name in names]
    deadline = time.monotonic() + LIMIT_S
    while init(kafka_cluster, prefix) == 0 and actions(capsys):  # a broker may not know new topics yet
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_it_sets_right_what_differs_and_refuses_what_it_can_not_set_right(
    kafka_cluster: KafkaCluster, prefix: str, capsys: Captured
) -> None:
    kafka_cluster.create_topic(f"{prefix}leases", 3, config={"cleanup.policy": "delete"})
    kafka_cluster.create_topic(f"{prefix}commands", 2)
    assert init(kafka_cluster, prefix) == 2
    told = capsys.readouterr()
    assert f"{prefix}commands: has 2 partitions and must have 1" in told.err
    assert init(kafka_cluster, prefix) == 2
    assert actions(capsys) == [("commands", "unfit", False)]


def test_it_notes_topics_with_fewer_replicas_than_there_could_be(
    kafka_cluster: KafkaCluster, prefix: str, capsys: Captured
) -> None:
    kafka_cluster.create_topic(f"{prefix}changes", 1, replication_factor=1)
    assert init(kafka_cluster, prefix) == 0
    assert f"kpe: note: fewer than 3 replicas: {prefix}changes (1); kafka-re" in capsys.readouterr().err
    assert init(kafka_cluster, prefix, "--replicas", "1") == 0
    assert "replicas" not in capsys.readouterr().err
