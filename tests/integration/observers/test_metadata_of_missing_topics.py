"""Both clients ask for topics that are missing, of a cluster that creates those that are written."""

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer

from kafka_partition_events import DefaultPartitioner, MetadataPoller, MetadataSource
from kafka_partition_events.clients.confluent import ConfluentMetadataSource, PartitioningProducer
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource, attach
from kafka_partition_events.testing import KafkaCluster
from tests.poller_kit import also_ask_for

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0


@pytest.fixture
def pollers(cluster: KafkaCluster, topic: str) -> Iterator[list[MetadataPoller]]:
    """Those of a producer of each client, which has written a topic."""
    with contextlib.ExitStack() as closing:
        one: Any = PartitioningProducer(
            {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}, poller_options={"interval": 0.2}
        )
        closing.callback(one.close)
        servers = cluster.bootstrap_servers.split(",")
        other = KafkaProducer(bootstrap_servers=servers, partitioner=DefaultPartitioner())
        closing.callback(lambda: other.close(timeout=LIMIT_S))  # as it is then: `attach` adds to it
        poller = attach(other, interval=0.2)
        one.produce(topic, b"v")
        assert one.flush(LIMIT_S) == 0
        other.send(topic, b"v").get(LIMIT_S)
        yield [one.poller, poller]


def test_asking_never_creates_a_topic(
    cluster: KafkaCluster, topic: str, pollers: list[MetadataPoller]
) -> None:
    ghost = f"ghost-{uuid.uuid4().hex}"
    servers = cluster.bootstrap_servers
    own: list[MetadataSource] = [
        ConfluentMetadataSource({"bootstrap.servers": servers}),
        KafkaPythonMetadataSource({"bootstrap_servers": servers}),
    ]
    asking = [MetadataPoller(source, [ghost]) for source in own]
    for poller in pollers:
        also_ask_for(poller, ghost)
    for _ in range(5):
        for poller in asking:
            poller.poll_once()
        for poller in pollers:
            assert poller.refresh(wait=LIMIT_S)
    everything = own[0].fetch(None, timeout=LIMIT_S)
    assert ghost not in everything.topics
    assert topic in everything.topics
    for poller in asking:
        poller.close()


def test_growth_beside_a_missing_topic_does_not_bring_that_back(
    cluster: KafkaCluster, pollers: list[MetadataPoller]
) -> None:
    """The producers must be taught here, and a careless way of teaching creates the missing topic."""
    ghost, grown = f"ghost-{uuid.uuid4().hex}", f"grown-{uuid.uuid4().hex}"
    cluster.create_topic(grown, 2)
    for poller in pollers:
        also_ask_for(poller, ghost, grown)
        assert poller.refresh(wait=LIMIT_S)
    cluster.grow_topic(grown, 4)
    for poller in pollers:
        while poller.cluster is None or poller.cluster.partitions_for_topic(grown) != {0, 1, 2, 3}:
            assert poller.refresh(wait=LIMIT_S)
    source = ConfluentMetadataSource({"bootstrap.servers": cluster.bootstrap_servers})
    assert ghost not in source.fetch(None, timeout=LIMIT_S).topics
    source.close()
