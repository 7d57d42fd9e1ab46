"""A broker that lags answers with the past: whichever client asks, nobody is told a change."""

from collections.abc import Callable

import pytest
from attrs import evolve

from kafka_partition_events import (
    MetadataPoller,
    MetadataRejected,
    MetadataSource,
    Observation,
    PartitionsAdded,
    Rejection,
)
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource
from kafka_partition_events.testing import KafkaCluster, RecordingListener
from kafka_partition_events.testing.plugin import MakeTopic

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0


class Lagging:
    """A real source behind which a broker falls back into the past when told to."""

    def __init__(self, inner: MetadataSource) -> None:
        self.inner = inner
        self.past: Observation | None = None

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        if self.past is not None:
            return evolve(self.past, started_at=started_at)
        return self.inner.fetch(topics, started_at=started_at, timeout=timeout)

    def close(self) -> None:
        self.inner.close()


MAKERS: dict[str, Callable[[str], MetadataSource]] = {
    "confluent-kafka": lambda servers: ConfluentMetadataSource({"bootstrap.servers": servers}),
    "kafka-python": lambda servers: KafkaPythonMetadataSource({"bootstrap_servers": servers}),
}


@pytest.mark.parametrize("client", MAKERS)
def test_growth_is_not_taken_back(client: str, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic) -> None:
    topic, heard = kafka_topic(partitions=3), RecordingListener()
    source = Lagging(MAKERS[client](kafka_cluster.bootstrap_servers))
    poller = MetadataPoller(source, [topic])
    poller.register(heard)
    before = source.fetch(frozenset({topic}), started_at=0.0, timeout=LIMIT_S)
    poller.poll_once()
    kafka_cluster.grow_topic(topic, 6)
    poller.poll_once()
    grown = poller.cluster
    source.past = before
    [refusal] = poller.poll_once()
    assert isinstance(refusal, MetadataRejected)
    assert (refusal.reason, refusal.topic) == (Rejection.SHRINK, topic)
    assert poller.cluster is grown, "nothing that anybody can see has changed"
    source.past = None
    assert poller.poll_once() == ()
    poller.close()
    assert len(heard.of(PartitionsAdded)) == 1
