"""``kpe doctor replicas`` on real clusters: what it foretells comes true."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_partition_events.testing import KafkaCluster
from tests.replicas_kit import around

DOCTOR = [sys.executable, "-m", "kafka_partition_events.cli", "doctor", "replicas"]
LIMIT_S = 30.0
SESSION_S = 12.0
VICTIM = 2


def doctor(servers: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*DOCTOR, "-b", servers, *options], capture_output=True, text=True, check=False, timeout=90
    )


def diagnosed(servers: str, topic: str, *options: str) -> tuple[int, dict[str, Any]]:
    done = doctor(servers, "--topics", topic, *options)
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


@pytest.fixture(scope="module")
def four(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    """Everybody may do everything that is not denied."""
    return own_kafka_cluster(
        brokers=4,
        session_timeout_ms=int(1_000 * SESSION_S),
        broker_config={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        },
    )


@pytest.mark.kafka
def test_what_it_foretells_of_a_broker_that_hangs_comes_true(four: KafkaCluster) -> None:
    servers, rows = four.bootstrap_servers, around(8, 4, 2)
    four.create_topic("halves", assignment=dict(enumerate(map(list, rows))))
    await_synced(servers, "halves")
    code, document = diagnosed(servers, "halves")
    assert (code, document["without_safe_alternative"]) == (0, 0)
    hanging, out = (foretold(document, what)[VICTIM] for what in ("while_it_hangs", "once_it_is_out"))
    assert (hanging, out) == (4, 8)

    quick = Producer({"bootstrap.servers": servers, "acks": "all", "message.timeout.ms": 4_000})
    assert len(written(quick, "halves", 8)) == 8
    four.freeze(VICTIM)
    try:
        took = written(quick, "halves", 8)
        assert took == {number for number, row in enumerate(rows) if VICTIM not in row}
        assert len(took) == hanging
        time.sleep(SESSION_S)
        late = Producer({"bootstrap.servers": servers, "acks": "all", "socket.timeout.ms": 5_000})
        assert len(written(late, "halves", 8)) == out
    finally:
        four.thaw(VICTIM)
        four.await_registered()
    await_synced(servers, "halves")


@pytest.mark.kafka
def test_a_setting_that_must_not_be_seen_is_unknown(four: KafkaCluster) -> None:
    servers = four.bootstrap_servers
    four.create_topic("secret", assignment=dict(enumerate(map(list, around(4, 4, 2)))))
    await_synced(servers, "secret")
    binding = AclBinding(
        ResourceType.TOPIC, "secret", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*",
        AclOperation.DESCRIBE, AclPermissionType.ALLOW,  # and nothing else from now on
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_acls([binding]).values():
        future.result(LIMIT_S)
    code, document = diagnosed(servers, "secret")
    assert (code, document["min_insync_replicas"]) == (3, None)
    assert {each["once_it_is_out"] for each in document["brokers"]} == {None}
    table = doctor(servers, "--topics", "secret", "--output", "table").stdout
    assert "min.insync.replicas of 1 topic unknown: no configuration of secret: " in table
