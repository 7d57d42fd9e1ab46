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


def test_a_topic_that_is_not_there_is_warned_of(kafka_cluster: KafkaCluster) -> None:
    done = kpe(
        "doctor", "-b", kafka_cluster.bootstrap_servers, "--events-topic", "nosuch", "--output", "table"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    where = kafka_cluster.bootstrap_servers
    assert f"-> kafka-topics.sh --bootstrap-server {where} --create --topic nosuch " in done.stdout


def test_check(kafka_cluster: KafkaCluster, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(3, 1)
    done = kpe("check", "-b", kafka_cluster.bootstrap_servers, "--topics", topic, "--min-brokers", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("KPE OK - 3 brokers, 1 topic, 3 partitions, 0 offline | offline=0;;0;0 ")
    done = kpe("check", "-b", kafka_cluster.bootstrap_servers, "--min-brokers", "4")
    assert done.returncode == 2
    assert done.stdout.startswith("KPE CRITICAL - only 3 brokers; ")
