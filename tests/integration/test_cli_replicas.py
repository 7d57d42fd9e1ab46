"""``kpe doctor replicas`` on a real cluster: what it foretells comes true."""

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from kafka_partition_events.testing import KafkaCluster
from tests.replicas_kit import around

DOCTOR = [sys.executable, "-m", "kafka_partition_events.cli", "doctor", "replicas"]
LIMIT_S = 30.0
SESSION_S = 9.0
"""The shared cluster's."""
VICTIM = 2


def diagnosed(servers: str, topic: str) -> tuple[int, dict[str, Any]]:
    command = [*DOCTOR, "-b", servers, "--topics", topic]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def foretold(document: dict[str, Any], what: str) -> dict[int, int]:
    return {each["broker"]: each[what]["partitions"] for each in document["brokers"]}


def await_synced(servers: str, topic: str) -> None:
    admin, deadline = AdminClient({"bootstrap.servers": servers}), time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        partitions = admin.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions.values()
        if partitions and all(p.leader > 0 and len(p.isrs) == len(p.replicas) for p in partitions):
            return
        time.sleep(0.2)
    pytest.fail(f"{topic} is not in sync")


def written(producer: Producer, topic: str, partitions: int) -> set[int]:
    """Write a record to each partition and return those that took it before it expired."""
    took: set[int] = set()

    def note(error: KafkaError | None, message: Message) -> None:
        if error is None:
            took.add(message.partition() or 0)

    for number in range(partitions):
        producer.produce(topic, b"v", partition=number, on_delivery=note)
    assert producer.flush(LIMIT_S) == 0
    return took


@pytest.mark.kafka
def test_what_it_foretells_of_a_broker_that_hangs_comes_true(cluster: KafkaCluster) -> None:
    servers, rows = cluster.bootstrap_servers, around(6, 3, 2)
    cluster.create_topic("thirds", assignment=dict(enumerate(map(list, rows))))
    await_synced(servers, "thirds")
    code, document = diagnosed(servers, "thirds")
    assert (code, document["without_safe_alternative"]) == (0, 0)
    hanging, out = (foretold(document, what)[VICTIM] for what in ("while_it_hangs", "once_it_is_out"))
    assert (hanging, out) == (2, 6)

    quick = Producer({"bootstrap.servers": servers, "acks": "all", "message.timeout.ms": 4_000})
    assert len(written(quick, "thirds", 6)) == 6
    cluster.freeze(VICTIM)
    try:
        took = written(quick, "thirds", 6)
        assert took == {number for number, row in enumerate(rows) if VICTIM not in row}
        assert len(took) == hanging
        time.sleep(SESSION_S)
        late = Producer({"bootstrap.servers": servers, "acks": "all", "socket.timeout.ms": 5_000})
        assert len(written(late, "thirds", 6)) == out
    finally:
        cluster.thaw(VICTIM)
        cluster.await_registered()
    await_synced(servers, "thirds")
