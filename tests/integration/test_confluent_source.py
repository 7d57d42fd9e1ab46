"""`ConfluentMetadataSource` against a real Kafka: what it tells, what it never does, how it fails."""

import time
import uuid
from collections.abc import Callable

import pytest

from kafka_partition_events import (
    ForkedError,
    MetadataFetchError,
    MetadataPoller,
    Observation,
    TopicRecreated,
)
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.testing import KafkaCluster, RecordingListener
from kafka_partition_events.testing.plugin import MakeTopic
from tests.fork_kit import in_child
from tests.mock_cluster import MockCluster

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0


def ask(source: ConfluentMetadataSource, *topics: str, timeout: float = LIMIT_S) -> Observation:
    return source.fetch(frozenset(topics), timeout=timeout)


@pytest.fixture
def source(kafka_cluster: KafkaCluster) -> ConfluentMetadataSource:
    return ConfluentMetadataSource({"bootstrap.servers": kafka_cluster.bootstrap_servers})


def test_an_answer_has_ids_racks_replicas_and_what_was_asked(
    kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, source: ConfluentMetadataSource
) -> None:
    topic = kafka_topic(partitions=3, replication_factor=3)
    seen = ask(source, topic)
    assert seen.cluster_id == kafka_cluster.cluster_id
    assert seen.requested == frozenset({topic})
    assert {(node.id, node.rack) for node in seen.nodes} == {(1, "r1"), (2, "r2"), (3, "r3")}
    info = seen.topics[topic]
    assert info.topic_id == str(uuid.UUID(info.topic_id))
    assert [p.partition for p in info.partitions] == [0, 1, 2]
    assert {p.partition: p.leader for p in info.partitions} == kafka_cluster.leaders(topic)
    assert all(sorted(p.replicas) == sorted(p.isr) == [1, 2, 3] for p in info.partitions)


def test_a_topic_in_error_is_told_by_kafkas_name(
    kafka_topic: MakeTopic, source: ConfluentMetadataSource
) -> None:
    topic = kafka_topic(partitions=1)
    seen = ask(source, topic, "no-such-topic", "no such name")
    assert set(seen.topics) == {topic}
    assert seen.errors == {
        "no-such-topic": "UNKNOWN_TOPIC_OR_PARTITION",
        "no such name": "INVALID_TOPIC_EXCEPTION",
    }


def test_a_recreated_topic_is_known_by_its_id(kafka_cluster: KafkaCluster, kafka_topic: MakeTopic) -> None:
    topic, heard = kafka_topic(partitions=3), RecordingListener()
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    with MetadataPoller(ConfluentMetadataSource(config), [topic], interval=0.2) as poller:
        poller.register(heard)
        heard.wait_for(lambda events: any(e.kind == "topic_added" for e in events), LIMIT_S)
        kafka_cluster.delete_topic(topic)
        kafka_cluster.create_topic(topic, 3)
        heard.wait_for(lambda events: any(isinstance(e, TopicRecreated) for e in events), LIMIT_S)
    [event] = heard.of(TopicRecreated)
    assert event.old.topic_id != event.new.topic_id


@pytest.mark.parametrize(
    ("servers", "cause"),
    [("127.0.0.1:1", "Connection refused"), ("no-such-host.invalid:9092", "Failed to resolve")],
)
def test_an_unreachable_cluster_is_told_with_its_cause_in_time(servers: str, cause: str) -> None:
    source = ConfluentMetadataSource({"bootstrap.servers": servers, "sasl.password": "hunter2"})
    began = time.monotonic()
    with pytest.raises(MetadataFetchError, match=cause) as failure:
        source.fetch(None, timeout=1.0)
    assert time.monotonic() - began < 3.0
    assert "hunter2" not in str(failure.value)
    source.close()


def test_the_mock_cluster_is_asked_the_only_way_it_answers(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 6)
    source = ConfluentMetadataSource({"bootstrap.servers": mock_cluster.bootstrap_servers})
    began = time.monotonic()
    for _ in range(3):
        seen = ask(source, "orders", "ghost")
    assert time.monotonic() - began < 5.0
    assert len(seen.topics["orders"].partitions) == 6
    assert seen.errors == {"ghost": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert seen.topics["orders"].topic_id is None


def test_a_forked_child_makes_a_source_of_its_own(
    kafka_cluster: KafkaCluster, source: ConfluentMetadataSource
) -> None:
    ask(source)

    def check() -> None:
        with pytest.raises(ForkedError, match="made before a fork"):
            ask(source)
        own = ConfluentMetadataSource({"bootstrap.servers": kafka_cluster.bootstrap_servers})
        assert len(ask(own).nodes) == 3
        own.close()

    in_child(check)


def test_a_dead_controller_is_not_waited_for(own_kafka_cluster: Callable[..., KafkaCluster]) -> None:
    # librdkafka describes through "the controller", a broker that each answer names anew, at random. For the
    # whole session metadata goes on naming the dead ones too: with two of three dead, four fetches that all
    # find the third are one in 81.
    cluster = own_kafka_cluster(brokers=3, session_timeout_ms=45_000)
    cluster.create_topic("orders", 1, replication_factor=3)
    source = ConfluentMetadataSource({"bootstrap.servers": cluster.bootstrap_servers})
    for _ in range(2):
        assert ask(source, "orders").topics["orders"].topic_id is not None
    for broker in (1, 2):
        cluster.kill(broker)
    killed = time.monotonic()
    took = []
    for _ in range(4):
        began = time.monotonic()
        seen = ask(source, "orders")
        took.append(time.monotonic() - began)
        assert len(seen.topics["orders"].partitions) == 1
    assert max(took) < LIMIT_S / 2, took
    assert time.monotonic() - killed < 45, "the session is over: this shows nothing"
