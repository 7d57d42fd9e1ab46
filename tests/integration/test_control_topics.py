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


def init(cluster: KafkaCluster, prefix: str) -> int:
    return run(["tracker", "init", "-b", cluster.bootstrap_servers, "--prefix", prefix])


def actions(capsys: Captured) -> list[tuple[str, str]]:
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return [(line["topic"].partition(".")[2], line["action"]) for line in lines]


def test_it_creates_what_is_missing_once(kafka_cluster: KafkaCluster, prefix: str, capsys: Captured) -> None:
    names = ["commands", "changes", "leases", "acks"]
    assert init(kafka_cluster, prefix) == 0
    assert actions(capsys) == [(name, "create") for name in names]
    deadline = time.monotonic() + LIMIT_S
    while init(kafka_cluster, prefix) == 0 and actions(capsys):  # a broker may not know new topics yet
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_it_sets_right_what_differs(kafka_cluster: KafkaCluster, prefix: str, capsys: Captured) -> None:
    kafka_cluster.create_topic(f"{prefix}leases", 3, config={"cleanup.policy": "delete"})
    assert init(kafka_cluster, prefix) == 0
    assert ("leases", "configure") in actions(capsys)
