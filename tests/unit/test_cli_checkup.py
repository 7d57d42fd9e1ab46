"""`kpe doctor`: what a cluster's answers mean, and the cure."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.doctor import command as checkup
from kafka_partition_events.cli.doctor.command import _needs, look
from kafka_partition_events.cli.doctor.findings import (
    Answers,
    BrokerAnswer,
    Finding,
    GroupAnswer,
    QuorumAnswer,
    Status,
    TopicAnswer,
    findings,
)
from kafka_partition_events.cli.doctor.questions import ask_quorum
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import Node, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.observe.settings import Control, Kafka, Settings
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import observe

Captured = pytest.CaptureFixture[str]

ONE, TWO, THREE = (Node(number, f"broker-{number}", 9092) for number in (1, 2, 3))
RIGHTS = frozenset({"DESCRIBE", "READ", "WRITE"})


def topic(
    name: str = "kpe.events",
    partitions: int = 12,
    replicas: int = 3,
    config: Mapping[str, str] | None = None,
    leader: int | None = 1,
) -> TopicAnswer:
    nodes = tuple(range(1, replicas + 1))
    infos = tuple(PartitionInfo(name, number, leader, nodes, nodes) for number in range(partitions))
    settings = {"cleanup.policy": "delete", "retention.ms": "604800000", "min.insync.replicas": "2"}
    return TopicAnswer(
        name=name, info=TopicInfo(name, infos, "id"), operations=RIGHTS, config={**settings, **(config or {})}
    )


WELL = Answers(
    brokers=tuple(BrokerAnswer(node=node, seconds=0.004) for node in (ONE, TWO, THREE)),
    topics=40,
    describes=True,
    topic_ids=True,
    event_topics=(topic(),),
    quorum=QuorumAnswer(ahead=-0.02, uncertainty=0.01),
)


def found(check: str, **changes: Any) -> Finding:
    (finding,) = (each for each in findings(evolve(WELL, **changes)) if each.check == check)
    return finding


def test_a_cluster_that_is_well() -> None:
    assert [(each.check, each.status, each.cure) for each in findings(WELL)] == [
        ("broker 1", Status.OK, None),
        ("broker 2", Status.OK, None),
        ("broker 3", Status.OK, None),
        ("api versions", Status.OK, None),
        ("DESCRIBE on topics", Status.OK, None),
        ("topic kpe.events", Status.OK, None),
        ("WRITE on topic kpe.events", Status.OK, None),
        ("clock", Status.OK, None),
    ]
    assert found("broker 2").detail == "broker-2:9092 answers in 4 ms"
    assert found("clock").detail == (
        "the active controller's is 0.02 s behind this host's, give or take 0.01 s"
    )


def test_a_broker_that_can_not_be_reached() -> None:
    brokers = (BrokerAnswer(node=ONE, error="Connection refused"),)
    finding = found("broker 1", brokers=brokers)
    assert (finding.status, finding.detail) == (Status.FAILED, "broker-1:9092: Connection refused")
    assert "advertised.listeners" in str(finding.cure)


def test_two_brokers_at_one_address() -> None:
    finding = found("broker 1", brokers=(BrokerAnswer(node=ONE, another=True),))
    assert (finding.status, finding.detail) == (Status.FAILED, "broker-1:9092: another broker answers there")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"describes": False}, Status.WARNING),
        ({"topic_ids": False}, Status.WARNING),
        ({"topic_ids": None}, Status.OK),
    ],
)
def test_api_versions(changes: dict[str, Any], status: Status) -> None:
    assert found("api versions", **changes).status is status


def test_no_visible_topic_may_be_a_missing_right() -> None:
    finding = found("DESCRIBE on topics", topics=0)
    assert finding.status is Status.WARNING
    assert "--operation Describe" in str(finding.cure)


@pytest.mark.parametrize(
    ("events", "detail", "cure"),
    [
        (topic(replicas=1), "replication factor 1", "reassign"),
        (topic(config={"min.insync.replicas": "3"}), "min.insync.replicas", "min.insync.replicas=2"),
        (topic(config={"cleanup.policy": "compact"}), "compact", "cleanup.policy=delete"),
        (topic(config={"retention.ms": "60000"}), "less than a day", "retention.ms="),
        (topic(leader=None), "12 partitions without a leader", "back"),
        (TopicAnswer(name="kpe.events"), "no such topic", "--create --topic kpe.events"),
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


def test_a_topic_that_is_kept_for_ever_is_fine() -> None:
    assert found("topic kpe.events", event_topics=(topic(config={"retention.ms": "-1"}),)).status is Status.OK


def test_a_right_that_is_not_held_tells_the_command() -> None:
    finding = found(
        "WRITE on topic kpe.events", event_topics=(evolve(topic(), operations=frozenset({"READ"})),)
    )
    assert (finding.status, finding.detail) == (Status.FAILED, "not held")
    assert "--operation Write --topic kpe.events" in str(finding.cure)


def test_what_the_brokers_do_not_tell_is_not_checked() -> None:
    blind = evolve(topic(), operations=None, config=None)
    assert found("WRITE on topic kpe.events", event_topics=(blind,)).status is Status.NOT_CHECKED
    assert found("config of kpe.events", event_topics=(blind,)).status is Status.NOT_CHECKED


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (TopicAnswer(name="kpe.election"), Status.OK),
        (topic("kpe.election", partitions=1), Status.OK),
        (topic("kpe.election", partitions=2), Status.FAILED),
    ],
)
def test_the_topic_of_the_election(answer: TopicAnswer, status: Status) -> None:
    group = GroupAnswer(name="kpe-observers", operations=RIGHTS)
    assert found("topic kpe.election", election_topic=answer, election_group=group).status is status


@pytest.mark.parametrize(
    ("answer", "checks"),
    [
        (TopicAnswer(name="kpe.observers"), {"topic kpe.observers": Status.OK}),
        (
            topic("kpe.observers", partitions=1, config={"cleanup.policy": "compact"}),
            {
                "topic kpe.observers": Status.OK,
                "READ on topic kpe.observers": Status.OK,
                "WRITE on topic kpe.observers": Status.OK,
                "config of kpe.observers": Status.OK,
            },
        ),
        (topic("kpe.observers", partitions=2), {"topic kpe.observers": Status.FAILED}),
        (topic("kpe.observers", partitions=1, leader=None), {"topic kpe.observers": Status.FAILED}),
        (topic("kpe.observers", partitions=1), {"config of kpe.observers": Status.FAILED}),
        (
            topic("kpe.observers", partitions=1, config={"cleanup.policy": "compact,delete"}),
            {"config of kpe.observers": Status.FAILED},
        ),
        (
            evolve(topic("kpe.observers", partitions=1), config=None, operations=frozenset({"READ"})),
            {"config of kpe.observers": Status.NOT_CHECKED, "WRITE on topic kpe.observers": Status.FAILED},
        ),
    ],
)
def test_the_topic_that_observers_share(answer: TopicAnswer, checks: dict[str, Status]) -> None:
    all_of_it = {each.check: each.status for each in findings(evolve(WELL, shared_topic=answer))}
    assert checks.items() <= all_of_it.items()
    assert len(all_of_it) == len({each.check for each in findings(WELL)}) + (1 if answer.info is None else 4)


def test_the_rights_of_observers_and_of_who_is_on_call_are_printed(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "kpe.toml"
    more = '[election]\nenabled = true\n[control]\nenabled = true\n[[sinks]]\nname = "k"\ntype = "kafka"\n'
    file.write_text(f'[kafka]\nbootstrap_servers = "x:1"\n{more}')
    assert run(["doctor", "--config", str(file), "--print-acls", "--acl", "observer=User:kpe"]) == 0
    lines = capsys.readouterr().out.splitlines()
    add = "kafka-acls.sh --bootstrap-server x:1 --add --allow-principal"
    all_of_it = "--operation Read --operation Write --operation Create --operation DescribeConfigs"
    assert lines == [
        "# observer",
        f"{add} User:kpe --operation Describe --topic '*'",
        f"{add} User:kpe --operation Write --topic kpe.events",
        f"{add} User:kpe --operation Read --operation Create --topic kpe.election",
        f"{add} User:kpe --operation Read --group kpe-observers",
        f"{add} User:kpe {all_of_it} --topic kpe.observers",
        f"{add} User:kpe --operation Read --topic kpe.changes",
    ]
    assert run(["doctor", "--config", str(file), "--print-acls", "--acl", "on-call=User:ada"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "# on-call",
        f"{add} User:ada --operation Write --topic kpe.observers",
    ]


def test_who_has_no_kafka_sink_needs_no_topic_for_events(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "kpe.toml"
    sink = '[[sinks]]\nname = "pager"\ntype = "webhook"\nurl = "https://example.com/"\n'
    file.write_text(f'[kafka]\nbootstrap_servers = "x:1"\n{sink}')
    assert run(["doctor", "--config", str(file), "--print-acls"]) == 0
    assert [line.rpartition("--operation ")[2] for line in capsys.readouterr().out.splitlines()] == [
        "# observer", "Describe --topic '*'", "# on-call",
    ]  # fmt: skip


def test_the_group_of_the_election() -> None:
    group = GroupAnswer(name="kpe-observers", operations=frozenset({"DESCRIBE"}))
    finding = found(
        "READ on group kpe-observers",
        election_topic=TopicAnswer(name="kpe.election"),
        election_group=group,
    )
    assert finding.status is Status.FAILED
    assert "--operation Read --group kpe-observers" in str(finding.cure)


def test_the_topic_that_labels_events() -> None:
    nowhere = found("topic kpe.changes", changes_topic=TopicAnswer(name="kpe.changes"))
    assert (nowhere.status, nowhere.cure) == (Status.WARNING, "kpe topics init")
    there = evolve(topic("kpe.changes", partitions=1), operations=frozenset({"DESCRIBE"}))
    assert found("topic kpe.changes", changes_topic=there).status is Status.OK
    assert found("READ on topic kpe.changes", changes_topic=there).status is Status.FAILED


@pytest.mark.parametrize(
    ("control", "asked"),
    [
        (Control(), None),
        (Control(enabled=True), "kpe.changes"),
        (Control(enabled=True, prefix="staging."), "staging.changes"),
        (Control(enabled=True, bootstrap_servers="control:9092"), None),
    ],
)
def test_it_is_asked_for_where_it_is(control: Control, asked: str | None) -> None:
    assert _needs(Settings(control=control), None).changes_topic == asked


@pytest.mark.parametrize(
    ("quorum", "status"),
    [
        (QuorumAnswer(ahead=0.9, uncertainty=0.0), Status.OK),
        (QuorumAnswer(ahead=1.5, uncertainty=0.1), Status.WARNING),
        (QuorumAnswer(ahead=-1.5, uncertainty=0.1), Status.WARNING),
        (QuorumAnswer(ahead=1.5, uncertainty=1.0), Status.OK),
        ("kafka-python is asked for it", Status.NOT_CHECKED),
    ],
)
def test_the_clock(quorum: QuorumAnswer | str, status: Status) -> None:
    assert found("clock", quorum=quorum).status is status


def test_without_kafka_python_the_clock_is_not_checked_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "kafka", None)
    reason = ask_quorum({"bootstrap.servers": "127.0.0.1:1"}, timeout=1.0)
    assert reason == (
        "only kafka-python can ask for a broker's time, and it is not installed: "
        'pip install "kafka-partition-events[kafka-python]"'
    )
    assert found("clock", quorum=reason) == Finding("clock", Status.NOT_CHECKED, reason)


def test_so_it_is_with_a_property_that_kafka_python_can_not_follow() -> None:
    reason = ask_quorum({"bootstrap.servers": "x:1", "ssl.ca.pem": "hunter2"}, timeout=1.0)
    assert reason == (
        "only kafka-python can ask for a broker's time, and it can't connect: "
        "ssl.ca.pem: kafka-python has nothing like it"
    )


# -- the client of the service -----------------------------------------------------------------------------

EPOCHS = observe({"orders": [{"leader": 1, "epoch": 3}]})
NO_EPOCHS = observe({"orders": [1]})


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Finding]:
    """Let doctors see what a test says, with any client."""

    def look_at(
        answer: Observation | Exception, client: str = "kafka-python", *, several: bool = True
    ) -> Finding:
        monkeypatch.setattr(checkup, "open_source", lambda _kafka: ScriptedSource(answer))
        properties = {"sasl.password": "hunter2"}
        return look(Kafka(client=client, bootstrap_servers="x:1", properties=properties), several=several)

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
    assert seen(NO_EPOCHS, client, several=False).status is Status.OK


def test_a_client_that_is_not_installed_is_warned_of(
    seen: Callable[..., Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kafka_partition_events.clients.kafka_python", None)
    assert seen(NO_EPOCHS, several=False) == Finding(
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
    finding = look(Kafka(bootstrap_servers="x:1", properties={"ssl.ca.pem": "hunter2"}), several=False)
    assert (finding.status, finding.cure) == (Status.FAILED, None)
    assert finding.detail == (
        "kafka.properties: ssl.ca.pem: kafka-python has nothing like it. "
        'Change that, or set client = "confluent-kafka" in [kafka]'
    )


# -- the command -------------------------------------------------------------------------------------------


def test_it_asks_where_the_brokers_are(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KPE_BOOTSTRAP_SERVERS", raising=False)
    assert run(["doctor"], Services()) == 2
    assert capsys.readouterr().err.startswith("kpe: no brokers are named: give -b HOST:PORT")


def test_help_of_both_doctors(capsys: Captured) -> None:
    assert run(["doctor", "--help"]) == 0
    text = capsys.readouterr().out
    assert "Exit codes: 0 " in text
    assert "\n  kpe doctor -b" in text
    assert "partitioner" in text
    assert run(["doctor", "partitioner", "--help"]) == 0
