"""`kpe doctor` and `kpe check` on real clusters: what is well, what is not, and which rights are missing."""

import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_partition_events.control.protocol.codec import encode
from kafka_partition_events.control.protocol.vocabulary import Status
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from kafka_partition_events.testing.ports import free_ports
from tests.control_kit import ack, lease
from tests.login_kit import login_options

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


# -- a cluster without rules -------------------------------------------------------------------------------


def test_a_cluster_that_is_well(kafka_cluster: KafkaCluster, kafka_topic: MakeTopic) -> None:
    events = kafka_topic(3, 3, {"min.insync.replicas": "2"})
    done = kpe("doctor", "-b", kafka_cluster.bootstrap_servers, "--events-topic", events)
    found = checks(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {each["status"] for each in found.values()} == {"ok"}
    assert [name for name in found if name.startswith("broker ")] == ["broker 1", "broker 2", "broker 3"]
    assert found["api versions"]["detail"] == "brokers and topics can be described, topics have ids"
    assert found[f"WRITE on topic {events}"]["detail"] == "held"
    assert "the active controller's is 0.0" in found["clock"]["detail"]
    assert found["client"]["detail"] == "kafka-python can poll the cluster"
    assert done.stderr == ""


def test_a_topic_that_is_not_there_is_warned_of(kafka_cluster: KafkaCluster) -> None:
    done = kpe(
        "doctor", "-b", kafka_cluster.bootstrap_servers, "--events-topic", "nosuch", "--output", "table"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "-> kafka-topics.sh --create --topic nosuch --partitions 12 --replication-factor 3" in done.stdout


def test_nobody_answers() -> None:
    (port,) = free_ports(1)
    done = kpe("doctor", "-b", f"127.0.0.1:{port}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "Connection refused" in done.stderr


def test_a_broker_that_is_down_is_told_with_the_cause(
    own_kafka_cluster: Callable[..., KafkaCluster],
) -> None:
    with own_kafka_cluster(brokers=2, session_timeout_ms=60_000) as cluster:
        cluster.kill(2)
        found = checks(kpe("doctor", "-b", cluster.bootstrap_servers))
    assert found["broker 1"]["status"] == "ok"
    assert found["broker 2"]["status"] == "failed"
    assert "Connection refused" in found["broker 2"]["detail"]


def test_check(kafka_cluster: KafkaCluster, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(3, 1)
    done = kpe("check", "-b", kafka_cluster.bootstrap_servers, "--topics", topic, "--min-brokers", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("KPE OK - 3 brokers, 1 topic, 3 partitions, 0 offline | offline=0;;0;0 ")
    done = kpe("check", "-b", kafka_cluster.bootstrap_servers, "--min-brokers", "4")
    assert done.returncode == 2
    assert done.stdout.startswith("KPE CRITICAL - only 3 brokers; ")


@pytest.fixture
def prefix(kafka_cluster: KafkaCluster) -> str:
    """Control topics of one's own."""
    prefix = f"t{uuid.uuid4().hex[:8]}."
    done = kpe("topics", "init", "-b", kafka_cluster.bootstrap_servers, "--prefix", prefix)
    assert done.returncode == 0, done.stderr
    return prefix


def append(cluster: KafkaCluster, topic: str, *values: bytes) -> None:
    """Write records to the first partition of a topic."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, "key", partition=0)
    assert producer.flush(LIMIT_S) == 0


def test_records_of_change_control_that_everybody_skips_are_told_with_their_places(
    kafka_cluster: KafkaCluster, prefix: str
) -> None:
    command = ("doctor", "control", "-b", kafka_cluster.bootstrap_servers, "--prefix", prefix)
    append(kafka_cluster, f"{prefix}leases", encode(lease("a")))
    done = kpe(*command)
    assert (done.returncode, json.loads(done.stdout)["latest"]) == (0, []), done.stderr
    append(kafka_cluster, f"{prefix}commands", b"{}", b"\x1b[2J")
    append(kafka_cluster, f"{prefix}changes", b'{"format":"kpe.change","version":9}')
    append(kafka_cluster, f"{prefix}leases", encode(lease("b")), encode(ack("b", Status.HELD)))
    append(kafka_cluster, f"{prefix}acks", b"[" * 100_000)
    done = kpe(*command)
    told = json.loads(done.stdout)
    assert (done.returncode, told["skipped"]) == (1, {"malformed": 4, "version": 1}), done.stderr
    assert sorted((odd["topic"], odd["partition"], odd["offset"]) for odd in told["latest"]) == [
        (f"{prefix}acks", 0, 0),
        (f"{prefix}changes", 0, 0),
        (f"{prefix}commands", 0, 0),
        (f"{prefix}commands", 0, 1),
        (f"{prefix}leases", 0, 2),
    ]
    done = kpe(*command, "--output", "table")
    assert (done.returncode, "\x1b" in done.stdout) == (1, False)
    assert f"{prefix}leases-0" in done.stdout


def test_without_control_topics_there_is_nothing_to_tell(kafka_cluster: KafkaCluster) -> None:
    done = kpe("doctor", "control", "-b", kafka_cluster.bootstrap_servers, "--prefix", "nosuch.")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kpe: there is no topic nosuch.commands; `kpe topics init` ")


# -- a cluster with rights, TLS and logins -----------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    """Who has no rights of a resource that has some is refused; brokers among themselves may do all."""
    cluster = own_kafka_cluster(
        brokers=1,
        secured=True,
        broker_config={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        },
    )
    for topic in ("kpe.events", "kpe.audit", "secret"):
        cluster.create_topic(topic, 1)
    return cluster


@pytest.fixture(scope="module")
def rights(guarded: KafkaCluster) -> None:
    """What makes alice a reader of kpe.audit, and a stranger to kpe-observers and to the topic ``secret``."""
    bindings = [
        AclBinding(
            kind, name, ResourcePatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW
        )
        for kind, name, principal, operation in (
            (ResourceType.TOPIC, "kpe.audit", "User:alice", AclOperation.READ),
            (ResourceType.TOPIC, "secret", "User:bob", AclOperation.READ),
            (ResourceType.GROUP, "kpe-observers", "User:bob", AclOperation.READ),
        )
    ]
    admin = AdminClient({**guarded.confluent_options, "log_level": 2})
    for future in admin.create_acls(bindings).values():
        future.result(LIMIT_S)


def doctor(cluster: KafkaCluster, *options: str) -> "subprocess.CompletedProcess[str]":
    login = login_options(cluster.confluent_options)
    return kpe("doctor", "-b", cluster.bootstrap_servers, *login, *options)


def test_with_a_login_all_is_seen_and_no_secret_told(guarded: KafkaCluster, rights: None) -> None:
    done = doctor(guarded)
    found = checks(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert found["broker 1"]["status"] == "ok"
    assert found["WRITE on topic kpe.events"]["status"] == "ok"
    assert found["DESCRIBE on topics"]["detail"].startswith("2 topics visible")  # not the secret one
    assert (found["clock"]["status"], found["client"]["status"]) == ("ok", "ok")
    assert guarded.security is not None
    assert guarded.security.password not in done.stdout + done.stderr


def test_a_right_that_is_missing_fails_and_names_the_cure(guarded: KafkaCluster, rights: None) -> None:
    done = doctor(guarded, "--events-topic", "kpe.audit")
    found = checks(done)
    assert done.returncode == 1, done.stdout + done.stderr
    assert found["WRITE on topic kpe.audit"] == {
        "kind": "finding",
        "check": "WRITE on topic kpe.audit",
        "status": "failed",
        "detail": "not held",
        "cure": "kafka-acls.sh --add --allow-principal User:alice --operation Write --topic kpe.audit",
    }
    assert found["config of kpe.audit"]["status"] == "not checked"


def test_a_topic_that_must_not_be_seen_is_as_good_as_none(guarded: KafkaCluster, rights: None) -> None:
    found = checks(doctor(guarded, "--events-topic", "secret"))
    assert "DESCRIBE on it is not held" in found["topic secret"]["detail"]


def test_the_election_needs_its_group(
    guarded: KafkaCluster, rights: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("doctor") / "kpe.toml"
    file.write_text('[election]\nenabled = true\n[[sinks]]\nname = "k"\ntype = "kafka"\n')
    done = doctor(guarded, "--config", str(file))
    found = checks(done)
    assert done.returncode == 1, done.stdout + done.stderr
    assert found["topic kpe.election"]["detail"].startswith("there is none yet")
    assert found["READ on group kpe-observers"]["status"] == "failed"
    assert found["WRITE on topic kpe.events"]["status"] == "ok"
