"""What integration tests share: for feedback, a cluster whose broker 2 is there to be frozen and killed."""

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafka_partition_events.testing import KafkaCluster


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: "Callable[..., KafkaCluster]") -> "KafkaCluster":
    """Three brokers with a long session: metadata has nothing to say for as long as a test looks."""
    return own_kafka_cluster(brokers=3, session_timeout_ms=9000)


@pytest.fixture
def topic(cluster: "KafkaCluster") -> str:
    """Six partitions, two on each broker: broker 2 leads 1 and 4."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, assignment={partition: [partition % 3 + 1] for partition in range(6)})
    return name


@pytest.fixture(scope="session")
def orders(kafka_cluster: "KafkaCluster") -> str:
    """The address of a cluster with the topic that all documented examples write to."""
    kafka_cluster.create_topic("orders", 6)
    return kafka_cluster.bootstrap_servers
