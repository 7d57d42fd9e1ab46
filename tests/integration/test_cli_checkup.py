"""`kpe doctor` and `kpe check` on real clusters. Which rights are missing: test_rights.py."""

import json
import subprocess
import sys
from typing import Any

import pytest

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic

pytestmark = pytest.mark.kafka

LIMIT_S = 60.0


def kpe(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "kafka_partition_events.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def checks(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    return {each["check"]: each for each in map(json.loads, done.stdout.splitlines())}


def test_a_cluster_that_is_well(kafka_cluster: KafkaCluster, kafka_topic: MakeTopic) -> None:
    events = kafka_topic(3, 3, {"min.insync.replicas": "2"})
    done = kpe("doctor", "-b", kafka_cluster.bootstrap_servers, "--events-topic", events)
    found = checks(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {each["status"] for each in found.values()} == {"ok"}
    assert [name for name in found if name.startswith("broker ")] == ["broker 1", "broker 2", "broker 3"]
    assert found[f"WRITE on topic {events}"]["detail"] == "held"
    assert done.stderr == ""
