"""What integration tests share: one cluster a process, whose broker 2 is there to be frozen and killed."""

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kafka_partition_events.testing.plugin import require_java

if TYPE_CHECKING:
    from kafka_partition_events.testing import KafkaCluster


@pytest.fixture(scope="package")
def kafka_cluster() -> "Iterator[KafkaCluster]":
    """Three brokers with a long session: metadata has nothing to say for as long as a test looks.

    In place of the kit's own, so that tests with a broker that dies need no cluster beside it.
    """
    require_java()
    from kafka_partition_events.testing import KafkaCluster  # noqa: PLC0415

    with KafkaCluster(brokers=3, session_timeout_ms=9000) as cluster:
        yield cluster


@pytest.fixture
def cluster(kafka_cluster: "KafkaCluster") -> "KafkaCluster":
    """The same for a test that freezes or kills: all brokers are there, whatever became of the one before."""
    for broker in {*kafka_cluster.brokers} - {*kafka_cluster.running}:
        kafka_cluster.restart(broker)
    kafka_cluster.await_registered()
    return kafka_cluster


@pytest.fixture
def topic(cluster: "KafkaCluster") -> str:
    """Six partitions, two on each broker: broker 2 leads 1 and 4."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, assignment={partition: [partition % 3 + 1] for partition in range(6)})
    return name


@pytest.fixture(scope="package")
def orders(kafka_cluster: "KafkaCluster") -> str:
    """The address of a cluster with the topic that all documented examples write to."""
    kafka_cluster.create_topic("orders", 6)
    return kafka_cluster.bootstrap_servers
