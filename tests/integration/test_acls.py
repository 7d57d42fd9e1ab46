"""The rights that the pages show: with them all do their own work, and no other's."""

import argparse
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import define
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
)

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.cli.app import run
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.control import ConsumerAgent, ProducerAgent
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.tracker.tracker import Tracker
from kafka_partition_events.observe.config import load_config
from kafka_partition_events.observe.service import Service
from kafka_partition_events.testing import KafkaCluster
from tests.change_kit import documents
from tests.docs_kit import blocks
from tests.login_kit import login_options, observer_file
from tests.rights_kit import LIMIT_S, are_done, make_users, tracking, wait_until

pytestmark = pytest.mark.kafka
PASSWORD = "not-a-secret"  # noqa: S105 - of a cluster that is gone when the test is
ASKS_FOR_RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.login.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}
REQUESTER, TRACKER, PRODUCER, CONSUMER, READER = "requester", "tracker", "producer", "consumer", "reader"
OBSERVER, DOCTOR = "observer", "doctor"
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}

Captured = pytest.CaptureFixture[str]


@define
class World:
    """A cluster that asks everybody for rights, and who gives them."""

    cluster: KafkaCluster
    admin: AdminClient

    def config(self, user: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.cluster.addresses("LOGIN"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": PASSWORD,
        }

    def kpe(self, user: str, *arguments: str) -> int:
        options = self.config(user)
        return run([*arguments, "-b", options["bootstrap.servers"], *login_options(options)])

    def request(self, topic: str, change_id: str) -> None:
        """Request eight partitions."""
        asked = ("--topic", topic, "--to", "8", "--execute", "--yes", "--id", change_id)
        assert self.kpe(REQUESTER, "change", "request", *asked) == 0

    def let(self, *lines: str) -> None:
        """Give the rights that lines for Kafka's own tool give."""
        are_done(self.admin.create_acls([binding for line in lines for binding in _bindings(line)]))


def _bindings(line: str) -> list[AclBinding]:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--add", action="store_true", required=True)
    for name in ("--bootstrap-server", "--allow-principal"):
        parser.add_argument(name, required=True)
    parser.add_argument("--operation", action="append")
    parser.add_argument("--resource-pattern-type", default="literal")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", dest=kind, action="append", default=[])
    tool, *words = shlex.split(line)
    assert tool == "kafka-acls.sh"
    told = parser.parse_args(words)
    return [
        AclBinding(
            of_kind,
            name,
            ResourcePatternType[told.resource_pattern_type.upper()],
            told.allow_principal,
            "*",
            AclOperation["".join(f"_{c}" if c.isupper() else c for c in each)[1:].upper()],
            AclPermissionType.ALLOW,
        )
        for each in told.operation
        for kind, of_kind in KINDS.items()
        for name in getattr(told, kind)
    ]


@pytest.fixture(scope="module")
def world(own_kafka_cluster: Callable[..., KafkaCluster]) -> World:
    cluster = own_kafka_cluster(
        brokers=2, listeners={"LOGIN": "SASL_PLAINTEXT"}, broker_config=ASKS_FOR_RIGHTS
    )
    made = World(cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2}))
    cluster.create_topic("orders", 6)
    cluster.create_topic("payments", 6)
    users = (REQUESTER, TRACKER, PRODUCER, CONSUMER, READER, OBSERVER, DOCTOR)
    make_users(made.admin, dict.fromkeys(users, PASSWORD), ScramMechanism.SCRAM_SHA_512)
    assert run(["tracker", "init", "-b", cluster.bootstrap_servers]) == 0
    return made


@pytest.fixture(scope="module")
def given(world: World) -> None:
    """Give what the page shows, and what applications have anyway."""
    (told,) = (block for block in blocks("text") if "--allow-principal User:requester" in block.code)
    add = "kafka-acls.sh --bootstrap-server x:1 --add --allow-principal"
    world.let(
        *told.code.replace("--topic shop.", "--topic ord").splitlines(),
        f"{add} User:producer --operation Write --topic orders",
        f"{add} User:consumer --operation Read --topic orders",
        f"{add} User:consumer --operation Read --group billing",
    )


@pytest.fixture(scope="module")
def tracker(world: World, given: None) -> Iterator[Tracker]:
    with tracking(world.config(TRACKER)) as tracker:
        yield tracker


def test_a_change_takes_everybodys_rights_and_each_has_his_own(
    world: World, tracker: Tracker, capsys: Captured
) -> None:
    wait_until(lambda: tracker.status.elected and tracker.status.trouble is None, "it is elected")
    config = world.config(PRODUCER)
    with (
        PartitioningProducer(config, DefaultPartitioner(), poller_options={"interval": 0.5}) as producer,
        ProducerAgent(producer.poller, ControlLink(config), "shop-0") as shop,
        ConsumerAgent(ControlLink(world.config(CONSUMER)), "billing-0", "billing") as billing,
    ):
        producer.produce("orders", b"v")
        assert producer.flush(LIMIT_S) == 0
        assert (shop.last_error, billing.last_error) == (None, None)

        wait_until(
            lambda: dict(tracker.status.instances) == {"producer": 1, "consumer": 1}, "both have leases"
        )

        world.request("orders", "orders-8")

        def converged() -> bool:
            producer.poll(0.1)
            shop._wake()
            return world.kpe(READER, "change", "wait", "orders-8", "--timeout", "1s") == 0

        wait_until(converged, "the topic has grown, and the producer has followed")
    capsys.readouterr()
    assert world.kpe(READER, "change", "ls", "--all") == 0
    (change,) = documents(capsys.readouterr().out)
    assert (change["change_id"], change["state"]) == ("orders-8", "converged")


def test_of_what_the_tracker_may_not_do_the_change_tells(
    world: World, tracker: Tracker, capsys: Captured
) -> None:
    world.request("payments", "pay-8")

    def tells() -> bool:
        capsys.readouterr()
        assert world.kpe(READER, "change", "show", "pay-8") == 0
        return (
            "can't add partitions to payments: User:tracker lacks ALTER on topic payments; to give it: "
            in capsys.readouterr().out
        )

    wait_until(tells, "the change says that the topic may not be altered")
    assert world.kpe(REQUESTER, "change", "cancel", "pay-8") == 0


def test_an_observer_looks_and_delivers(world: World, tmp_path: Path, capsys: Captured) -> None:
    world.cluster.create_topic("kpe.events", 1)
    file = observer_file(world.config(OBSERVER), tmp_path / "observer.toml")
    (told,) = (block for block in blocks("text") if "--allow-principal User:observer" in block.code)
    world.let(*told.code.replace("localhost:9092", world.cluster.bootstrap_servers).splitlines())
    with Service(load_config(file, {}).settings) as observer:
        wait_until(lambda: observer.why_not_ready() is None, "it is ready")
        run(["doctor", "--config", str(file), "--output", "jsonl"])
    found = {row["check"]: row["status"] for row in documents(capsys.readouterr().out)}
    assert "failed" not in found.values()
    assert found["WRITE on topic kpe.events"] == "ok"


def test_a_setting_that_must_not_be_seen_is_unknown(world: World, capsys: Captured) -> None:
    world.cluster.create_topic("secret", 4)
    who = "--bootstrap-server x:1 --add --allow-principal User:doctor"
    world.let(f"kafka-acls.sh {who} --operation Describe --topic secret")
    assert world.kpe(DOCTOR, "doctor", "replicas", "--topics", "secret", "--output", "jsonl") == 3
    document = json.loads(capsys.readouterr().out)
    assert document["min_insync_replicas"] is None
    assert {each["once_it_is_out"] for each in document["brokers"]} == {None}
    assert world.kpe(DOCTOR, "doctor", "replicas", "--topics", "secret", "--output", "table") == 3
    table = capsys.readouterr().out
    assert "min.insync.replicas of 1 topic unknown: no configuration of secret: " in table


@pytest.mark.parametrize(
    ("part", "topic"),
    [
        (part, topic)
        for part, topics in {
            REQUESTER: ("changes", "leases"),
            PRODUCER: ("commands", "changes"),
            CONSUMER: ("commands", "changes"),
            READER: ("commands", "changes", "leases"),
            TRACKER: ("commands",),
            OBSERVER: ("changes",),
        }.items()
        for topic in topics
    ],
)
def test_nobody_writes_what_is_anothers(world: World, given: None, part: str, topic: str) -> None:
    told: list[KafkaError | None] = []
    producer = Producer({**world.config(part), "message.timeout.ms": 10_000, "log_level": 0})
    producer.produce(f"kpe.{topic}", b"x", on_delivery=lambda error, _message: told.append(error))
    producer.flush(LIMIT_S)
    (error,) = told
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
