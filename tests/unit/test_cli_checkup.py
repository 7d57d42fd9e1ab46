"""`kpe doctor`: what a cluster's answers mean, and the cure."""

import pytest

from kafka_partition_events.cli.doctor.findings import (
    Asker,
    CheckStatus,
    Finding,
    of_broker,
    of_event_topic,
    of_visible,
)
from kafka_partition_events.metadata.cluster import Node, PartitionInfo, TopicInfo

ONE = Node(1, "broker-1", 9092)
ALICE = Asker(where="broker-1:9092", who="User:alice")
CREATE = "kafka-topics.sh --bootstrap-server broker-1:9092 --create --topic kpe.events"
RIGHTS = frozenset({"DESCRIBE", "READ", "WRITE"})


def topic(replicas: int = 3, leader: int | None = 1) -> TopicInfo:
    nodes = tuple(range(1, replicas + 1))
    infos = (PartitionInfo("kpe.events", number, leader, nodes, nodes) for number in range(12))
    return TopicInfo("kpe.events", tuple(infos), "id")


def judged(
    info: TopicInfo | None, operations: frozenset[str] | None = RIGHTS, brokers: int = 3
) -> list[Finding]:
    return [*of_event_topic("kpe.events", info, operations, brokers, ALICE)]


def test_a_cluster_that_is_well() -> None:
    found = [of_broker(ONE, seconds=0.004), of_visible(40, 40, ALICE), *judged(topic())]
    of_topics = ["DESCRIBE on topics", "topic kpe.events", "WRITE on topic kpe.events"]
    assert [each.check for each in found] == ["broker 1", *of_topics]
    assert {(each.status, each.cure) for each in found} == {(CheckStatus.OK, None)}
    assert found[0].detail == "broker-1:9092 answers in 4 ms"


def test_a_broker_that_can_not_be_reached() -> None:
    finding = of_broker(ONE, error="Connection refused")
    assert (finding.status, finding.detail) == (CheckStatus.FAILED, "broker-1:9092: Connection refused")
    assert "advertised.listeners" in str(finding.cure)


def test_two_brokers_at_one_address() -> None:
    finding = of_broker(ONE, another=True)
    assert finding.status is CheckStatus.FAILED
    assert finding.detail == "broker-1:9092: another broker answers there"


def test_topics_of_the_configuration_that_are_none_are_warned_of() -> None:
    finding = of_visible(40, 0, ALICE)
    assert (finding.status, "[observer] topics" in finding.detail) == (CheckStatus.WARNING, True)


def test_no_visible_topic_may_be_a_missing_right() -> None:
    finding = of_visible(0, 0, ALICE)
    assert finding.status is CheckStatus.WARNING
    assert "--operation Describe" in str(finding.cure)


@pytest.mark.parametrize(
    ("info", "detail", "cure"),
    [
        (topic(replicas=1), "replication factor 1", "reassign"),
        (topic(leader=None), "12 partitions without a leader", "back"),
        (None, "no such topic", CREATE),
    ],
)
def test_a_topic_for_events_that_is_not_fit_for_them(info: TopicInfo | None, detail: str, cure: str) -> None:
    finding, _ = judged(info)
    assert finding.status is CheckStatus.WARNING
    assert detail in finding.detail
    assert cure in str(finding.cure)


def test_on_one_broker_one_replica_is_all_there_can_be() -> None:
    assert judged(topic(replicas=1), brokers=1)[0].status is CheckStatus.OK


def test_a_right_that_is_not_held_tells_the_command() -> None:
    _, finding = judged(topic(), frozenset({"READ"}))
    assert (finding.status, finding.detail) == (CheckStatus.FAILED, "not held")
    assert finding.cure == (
        "kafka-acls.sh --bootstrap-server broker-1:9092 --add --allow-principal User:alice --operation Write "
        "--topic kpe.events"
    )


def test_what_the_brokers_do_not_tell_is_not_checked() -> None:
    assert judged(topic(), None)[1].status is CheckStatus.NOT_CHECKED
