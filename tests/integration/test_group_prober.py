"""The prober on a real Kafka: what can be seen of groups without the library."""

import contextlib
import time
from collections.abc import Iterator

import pytest
from attrs import define, evolve
from confluent_kafka import Consumer, TopicPartition

from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.control.groups.prober import GroupProber, groups_of
from kafka_partition_events.control.protocol.partition_set import PartitionSet
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.control_kit import NEW, Story, gated
from tests.kafka_version import HAS_NEW_GROUPS
from tests.waiting_kit import waiting

pytestmark = pytest.mark.kafka

LIMIT_S = 20.0
wait_until = waiting(LIMIT_S)
PROTOCOLS = ("classic", "consumer") if HAS_NEW_GROUPS else ("classic",)


@define
class Groups:
    """Two groups of one consumer each, one of each protocol. They commit only what they are told to."""

    topic: str
    consumers: dict[str, Consumer]

    def have(self, partitions: int) -> bool:
        """Poll, and tell whether both have so many partitions."""
        for consumer in self.consumers.values():
            consumer.poll(0.1)
        return all(len(consumer.assignment()) == partitions for consumer in self.consumers.values())

    def commit(self, offset: int) -> None:
        """Commit an offset on each of the new partitions."""
        offsets = [TopicPartition(self.topic, partition, offset) for partition in NEW]
        for consumer in self.consumers.values():
            consumer.commit(offsets=offsets, asynchronous=False)

    def close(self) -> None:
        while self.consumers:
            self.consumers.popitem()[1].close()

    def name(self, protocol: str) -> str:
        return f"{self.topic}-{protocol}"

    @property
    def names(self) -> frozenset[str]:
        return frozenset(map(self.name, PROTOCOLS))


@pytest.fixture
def groups(kafka_cluster: KafkaCluster, kafka_topic: MakeTopic) -> Iterator[Groups]:
    topic = kafka_topic(6)
    groups = Groups(topic, {})
    for protocol in PROTOCOLS:
        consumer = Consumer({
            "bootstrap.servers": kafka_cluster.bootstrap_servers,
            "group.id": groups.name(protocol),
            "group.protocol": protocol,
            "auto.offset.reset": "latest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
        })  # fmt: skip
        consumer.subscribe([topic])
        groups.consumers[protocol] = consumer
    wait_until(lambda: groups.have(6), "all groups have the old partitions")
    yield groups
    groups.close()


@pytest.fixture
def prober(kafka_cluster: KafkaCluster) -> Iterator[GroupProber]:
    prober = GroupProber(GroupAdmin({"bootstrap.servers": kafka_cluster.bootstrap_servers}))
    yield prober
    prober.close()


def change_of(cluster: KafkaCluster, topic: str, **fields: object) -> Change:
    story = Story()
    more = {"topic": topic, "topic_id": None, "cluster_id": cluster.cluster_id}
    story.request(gated(**{**more, **fields}))
    return story.change


def test_it_sees_where_groups_have_a_position(
    kafka_cluster: KafkaCluster, groups: Groups, prober: GroupProber
) -> None:
    topic, now_ms = groups.topic, round(1_000 * time.time())
    change = change_of(kafka_cluster, topic)
    grown = evolve(change, state=State.GATED)

    def look() -> dict[str, PartitionSet]:
        return dict(prober.probe_once([grown], now_ms).groups[change.change_id])

    first = prober.probe_once([change], now_ms)
    assert (first.readers, first.unseen) == ({topic: groups.names}, frozenset())

    kafka_cluster.grow_topic(topic, 12)
    wait_until(lambda: groups.have(12), "all groups have the new partitions")
    assert look() == dict.fromkeys(groups.names, PartitionSet())

    groups.commit(0)
    assert look() == dict.fromkeys(groups.names, PartitionSet.of(NEW))

    groups.close()
    gone = prober.probe_once([grown], now_ms)
    assert (gone.readers, gone.unseen) == ({topic: frozenset()}, frozenset())


def test_for_a_plan_groups_are_told_that_have_the_topic_or_offsets_of_it(
    kafka_cluster: KafkaCluster, groups: Groups
) -> None:
    with contextlib.closing(GroupAdmin({"bootstrap.servers": kafka_cluster.bootstrap_servers})) as admin:
        assert groups.names <= groups_of(admin, groups.topic, 6, LIMIT_S).keys()
        assert not groups.names & groups_of(admin, "unread", 1, LIMIT_S).keys()
