"""Links of a real Kafka: what clients see, and what brokers do about each other."""

import threading
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from kafka_partition_events.testing import KafkaCluster
from tests.waiting_kit import waiting

pytestmark = pytest.mark.kafka

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def shared(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    # Followers that hear nothing of their leader are out of sync soon, and their leader says so.
    return own_kafka_cluster(brokers=3, links="all", broker_config={"replica.lag.time.max.ms": "1000"})


@pytest.fixture
def cluster(shared: KafkaCluster) -> Iterator[KafkaCluster]:
    yield shared
    shared.heal()


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    name = f"linked-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    return name


@pytest.fixture
def traffic(cluster: KafkaCluster, topic: str) -> Iterator[None]:
    """Records for all partitions: a follower of a leader that has nothing new stays in sync."""
    done = threading.Event()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "1", "log_level": 2})

    def write() -> None:
        while not done.wait(0.02):
            for partition in range(3):
                producer.produce(topic, b"x", partition=partition)
            producer.poll(0)

    writer = threading.Thread(target=write)
    writer.start()
    yield
    done.set()
    writer.join()
    producer.flush(LIMIT_S)


def await_in_sync(cluster: KafkaCluster, topic: str, wanted: dict[int, set[int]]) -> None:
    def are_so() -> bool:
        topics = cluster._node(1).ask().topics
        return {number: set(p.isr) for number, p in topics[topic].items()} == wanted

    waiting(LIMIT_S, 0.05)(are_so, f"in sync: {wanted}")


ALL = {0: {1, 2, 3}, 1: {1, 2, 3}, 2: {1, 2, 3}}


def test_brokers_that_hear_nothing_of_each_other_fall_out_of_sync(
    cluster: KafkaCluster, topic: str, traffic: None
) -> None:
    cluster.link(2, 3).blackhole()
    await_in_sync(cluster, topic, {0: {1, 2, 3}, 1: {1, 2}, 2: {1, 3}})
    cluster.link(3, 2).heal()
    await_in_sync(cluster, topic, ALL)


def test_a_partition_cuts_one_side_off_from_the_other(
    cluster: KafkaCluster, topic: str, traffic: None
) -> None:
    cluster.partition({1}, {2, 3})
    await_in_sync(cluster, topic, {0: {1}, 1: {2, 3}, 2: {2, 3}})
    assert cluster.leaders(topic) == {0: 1, 1: 2, 2: 3}
    cluster.heal()
    await_in_sync(cluster, topic, ALL)
