"""librdkafka's mock cluster, seen by a real client."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kafka_partition_events.testing import KitError, MockCluster
from kafka_partition_events.testing.broker_probe import BrokerView, ask_broker

LIMIT_S = 30.0


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=3) as cluster:
        yield cluster


def ask(cluster: MockCluster, broker: int) -> BrokerView:
    host, port = cluster.bootstrap_servers.split(",")[broker - 1].split(":")
    return ask_broker(host, int(port))


def leaders(cluster: MockCluster, topic: str) -> dict[int, int]:
    return {partition: found.leader for partition, found in ask(cluster, 1).topics[topic].items()}


def test_set_leader_moves_a_partition_and_takes_it_offline(cluster: MockCluster) -> None:
    cluster.create_topic("orders", partitions=2, replication_factor=2)

    cluster.set_leader("orders", 0, 3)
    cluster.set_leader("orders", 1, None)

    assert leaders(cluster, "orders") == {0: 3, 1: -1}


def test_rtt_delays_one_broker_only(cluster: MockCluster) -> None:
    cluster.set_rtt(2, 300)

    before = time.monotonic()
    ask(cluster, 2)

    assert time.monotonic() - before >= 0.3


def test_a_closed_cluster_says_so(cluster: MockCluster) -> None:
    cluster.close()
    cluster.close()
    with pytest.raises(KitError, match="closed"):
        cluster.create_topic("orders", partitions=1)


def test_a_partition_may_go_offline_while_records_are_on_their_way_to_it(mock_cluster: MockCluster) -> None:
    """librdkafka 2.16 crashes the process here unless newer Produce and Fetch versions are forbidden."""
    mock_cluster.create_topic("orders", 1)
    producer = Producer({"bootstrap.servers": mock_cluster.bootstrap_servers, "linger.ms": 0, "log_level": 2})
    producer.produce("orders", b"first")
    assert producer.flush(LIMIT_S) == 0
    for broker in mock_cluster.brokers:
        mock_cluster.set_rtt(broker, 50)  # requests wait in the mock while the leader goes
    for round_ in range(20):
        producer.produce("orders", b"%d" % round_)
        producer.poll(0.01)
        mock_cluster.set_leader("orders", 0, None)
        producer.produce("orders", b"late")
        producer.poll(0.01)
        mock_cluster.set_leader("orders", 0, 1 + round_ % 3)
    assert producer.flush(LIMIT_S) == 0
