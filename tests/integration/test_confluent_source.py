"""`ConfluentMetadataSource` against a real Kafka. What all sources do: test_kafka_python_clients.py."""

import time
from collections.abc import Callable

import pytest

from kafka_partition_events import ConfigurationError, MetadataPoller, Observation, TopicRecreated
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.testing import KafkaCluster, RecordingListener
from kafka_partition_events.testing.plugin import MakeTopic
from tests.mock_cluster import MockCluster

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0


def ask(source: ConfluentMetadataSource, *topics: str) -> Observation:
    return source.fetch(frozenset(topics), timeout=LIMIT_S)


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


def test_a_ca_file_that_does_not_exist_is_told_at_once() -> None:
    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.ca.location": "/no/ca.pem"}
    with pytest.raises(ConfigurationError, match=r"ssl\.ca\.location"):
        ConfluentMetadataSource(config)


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
