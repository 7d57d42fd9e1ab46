"""`kpe doctor`: what a cluster's answers mean, and the cure."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.cli.doctor import command as checkup
from kafka_partition_events.cli.doctor.command import look
from kafka_partition_events.cli.doctor.findings import (
    Answers,
    BrokerAnswer,
    Finding,
    Status,
    TopicAnswer,
    findings,
)
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import Node, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.observe.settings import Client, Kafka
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import observe

Captured = pytest.CaptureFixture[str]

ONE, TWO, THREE = (Node(number, f"broker-{number}", 9092) for number in (1, 2, 3))
RIGHTS = frozenset({"DESCRIBE", "READ", "WRITE"})


def topic(
    name: str = "kpe.events",
    partitions: int = 12,
    replicas: int = 3,
    leader: int | None = 1,
) -> TopicAnswer:
    nodes = tuple(range(1, replicas + 1))
    infos = tuple(PartitionInfo(name, number, leader, nodes, nodes) for number in range(partitions))
    return TopicAnswer(name=name, info=TopicInfo(name, infos, "id"), operations=RIGHTS)


WELL = Answers(
    where="broker-1:9092",
    who="User:alice",
    brokers=tuple(BrokerAnswer(node=node, seconds=0.004) for node in (ONE, TWO, THREE)),
    topics=40,
    observed=40,
    event_topics=(topic(),),
)


def found(check: str, **changes: Any) -> Finding:
    (finding,) = (each for each in findings(evolve(WELL, **changes)) if each.check == check)
    return finding


def test_a_cluster_that_is_well() -> None:
    assert [(each.check, each.status, each.cure) for each in findings(WELL)] == [
        ("broker 1", Status.OK, None),
        ("broker 2", Status.OK, None),
        ("broker 3", Status.OK, None),
        ("DESCRIBE on topics", Status.OK, None),
        ("topic kpe.events", Status.OK, None),
        ("WRITE on topic kpe.events", Status.OK, None),
    ]
    assert found("broker 2").detail == "broker-2:9092 answers in 4 ms"


def test_a_broker_that_can_not_be_reached() -> None:
    brokers = (BrokerAnswer(node=ONE, error="Connection refused"),)
    finding = found("broker 1", brokers=brokers)
    assert (finding.status, finding.detail) == (Status.FAILED, "broker-1:9092: Connection refused")
    assert "advertised.listeners" in str(finding.cure)


def test_two_brokers_at_one_address() -> None:
    finding = found("broker 1", brokers=(BrokerAnswer(node=ONE, another=True),))
    assert (finding.status, finding.detail) == (Status.FAILED, "broker-1:9092: another broker answers there")


def test_topics_of_the_configuration_that_are_none_are_warned_of() -> None:
    finding = found("DESCRIBE on topics", observed=0)
    assert (finding.status, "[observer] topics" in finding.detail) == (Status.WARNING, True)


def test_no_visible_topic_may_be_a_missing_right() -> None:
    finding = found("DESCRIBE on topics", topics=0)
    assert finding.status is Status.WARNING
    assert "--operation Describe" in str(finding.cure)


@pytest.mark.parametrize(
    ("events", "detail", "cure"),
    [
        (topic(replicas=1), "replication factor 1", "reassign"),
        (topic(leader=None), "12 partitions without a leader", "back"),
        (
            TopicAnswer(name="kpe.events"),
            "no such topic",
            "kafka-topics.sh --bootstrap-server broker-1:9092 --create --topic kpe.events",
        ),
    ],
)
def test_a_topic_for_events_that_is_not_fit_for_them(events: TopicAnswer, detail: str, cure: str) -> None:
    finding = found("topic kpe.events", event_topics=(events,))
    assert finding.status is Status.WARNING
    assert detail in finding.detail
    assert cure in str(finding.cure)


def test_on_one_broker_one_replica_is_all_there_can_be() -> None:
    one = (BrokerAnswer(node=ONE),)
    assert found("topic kpe.events", brokers=one, event_topics=(topic(replicas=1),)).status is Status.OK


def test_a_right_that_is_not_held_tells_the_command() -> None:
    finding = found(
        "WRITE on topic kpe.events", event_topics=(evolve(topic(), operations=frozenset({"READ"})),)
    )
    assert (finding.status, finding.detail) == (Status.FAILED, "not held")
    assert finding.cure == (
        "kafka-acls.sh --bootstrap-server broker-1:9092 --add --allow-principal User:alice --operation Write "
        "--topic kpe.events"
    )


def test_what_the_brokers_do_not_tell_is_not_checked() -> None:
    blind = evolve(topic(), operations=None)
    assert found("WRITE on topic kpe.events", event_topics=(blind,)).status is Status.NOT_CHECKED


# -- the client of the service -----------------------------------------------------------------------------

EPOCHS = observe({"orders": [{"leader": 1, "epoch": 3}]})
NO_EPOCHS = observe({"orders": [1]})


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Finding]:
    """Let doctors see what a test says, with any client."""

    def look_at(answer: Observation | Exception, client: Client = "kafka-python") -> Finding:
        monkeypatch.setattr(checkup, "open_source", lambda _kafka: ScriptedSource(answer))
        properties = {"sasl.password": "hunter2"}
        return look(Kafka(client=client, bootstrap_servers="x:1", properties=properties))

    return look_at


def test_a_client_that_tells_epochs_is_fine(seen: Callable[..., Finding]) -> None:
    assert seen(EPOCHS) == Finding("client", Status.OK, "kafka-python can poll the cluster")


@pytest.mark.parametrize(
    ("client", "cure"),
    [
        ("confluent-kafka", 'set client = "kafka-python" in [kafka]'),
        ("kafka-python", "Kafka 2.4 and newer report them"),
    ],
)
def test_without_epochs_several_observers_may_give_an_outage_several_ids(
    client: str, cure: str, seen: Callable[..., Finding]
) -> None:
    finding = seen(NO_EPOCHS, client)
    assert (finding.status, finding.cure) == (Status.WARNING, cure)


def test_a_client_that_is_not_installed_is_warned_of(
    seen: Callable[..., Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kafka_partition_events.clients.kafka_python", None)
    assert seen(NO_EPOCHS) == Finding(
        "client",
        Status.WARNING,
        "kafka-python is not installed; kpe observe would use confluent-kafka",
        'pip install "kafka-partition-events[kafka-python]"',
    )


def test_a_client_that_gets_no_answer_has_failed(seen: Callable[..., Finding]) -> None:
    assert seen(MetadataFetchError("refused: hunter2")) == Finding(
        "client", Status.FAILED, "kafka-python: refused: ***", 'set client = "confluent-kafka" in [kafka]'
    )


def test_so_has_one_that_can_not_connect_like_that() -> None:
    finding = look(Kafka(bootstrap_servers="x:1", properties={"ssl.ca.pem": "hunter2"}))
    assert (finding.status, finding.cure) == (Status.FAILED, None)
    assert finding.detail == (
        "kafka.properties: ssl.ca.pem: kafka-python has nothing like it. "
        'Change that, or set client = "confluent-kafka" in [kafka]'
    )


# -- the command -------------------------------------------------------------------------------------------
