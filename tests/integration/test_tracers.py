"""OpenTelemetry and Datadog, the real ones: trace headers arrive where they do with the plain client."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.integration.programs import ended

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).parent / "traced_producer.py"
MODES = ("plain", "None", "failed", "hedge")


def run(cluster: KafkaCluster, make_topic: MakeTopic, *words: str) -> dict[str, Any]:
    topics = [make_topic(partitions=3) for _ in MODES]
    done = ended(sys.executable, PROGRAM, *words, cluster.bootstrap_servers, *topics, limit_s=120)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("tracer", ["opentelemetry", "datadog"])
def test_confluent_kafka(kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, tracer: str, when: str) -> None:
    told = run(kafka_cluster, kafka_topic, tracer, when, "confluent")
    plain = told.pop("plain")
    assert plain["traced"] == plain["arrived"] == plain["sent"] > 0
    for mode, ours in told.items():
        assert ours["arrived"] == ours["sent"] == 16, mode
        assert ours["traced"] == 16, f"{mode}: with a list of headers, too, which Datadog can't take itself"
        assert ours["own"] == 4, mode
        assert ours["refused"] == [], mode


@pytest.mark.parametrize("when", ["before", "attach"])
def test_kafka_python(kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, when: str) -> None:
    """Datadog traces confluent-kafka only."""
    told = run(kafka_cluster, kafka_topic, "opentelemetry", when, "kafka-python")
    for mode, seen in told.items():
        assert seen["arrived"] == seen["traced"] == seen["sent"] == 6, mode
        assert seen["own"] == 3, mode
