"""The prober and `kpe group probe` on a real Kafka: what can be seen of groups without the library."""

import json
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from attrs import define
from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_partition_events.cli.app import run
from kafka_partition_events.control.groups.prober import GroupProber
from kafka_partition_events.control.protocol.partition_set import Coverage, PartitionSet
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.testing import KafkaCluster
from tests.control_kit import NEW, Story, gated
from tests.kafka_version import HAS_NEW_GROUPS

pytestmark = pytest.mark.kafka

LIMIT_S = 20.0
PROTOCOLS = ("classic", "consumer") if HAS_NEW_GROUPS else ("classic",)


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline, f"not in {LIMIT_S:g} s: {what}"


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
def groups(kafka_cluster: KafkaCluster) -> Iterator[Groups]:
    topic = f"probed-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, 6)
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
    prober = GroupProber({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    yield prober
    prober.close()


def change_of(cluster: KafkaCluster, topic: str, **fields: object) -> Change:
    story = Story()
    more = {"topic": topic, "topic_id": None, "cluster_id": cluster.cluster_id, "required_groups": None}
    story.request(gated(**{**more, **fields}))
    return story.change


def test_it_sees_groups_follow_level_by_level(
    kafka_cluster: KafkaCluster, groups: Groups, prober: GroupProber, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, now_ms = groups.topic, round(1_000 * time.time())
    change = change_of(kafka_cluster, topic, settle_s=0)

    def look() -> dict[str, Coverage]:
        return dict(prober.look([change], now_ms).groups[change.change_id])

    def shell(*more: str) -> tuple[int, list[dict[str, object]]]:
        code = run(["groups", "-b", kafka_cluster.bootstrap_servers, "--topic", topic, *more])
        return code, list(map(json.loads, capsys.readouterr().out.splitlines()))

    first = prober.look([change], now_ms)
    assert (first.readers, first.unseen) == ({topic: groups.names}, frozenset())
    assert first.writers == {topic: 0}
    assert {one.assigned for one in look().values()} == {PartitionSet()}

    kafka_cluster.grow_topic(topic, 12)
    wait_until(lambda: groups.have(12), "all groups have the new partitions")
    assigned = look()
    assert assigned.keys() == groups.names
    assert {(one.assigned, one.positioned) for one in assigned.values()} == {
        (PartitionSet.of(NEW), PartitionSet())
    }
    code, found = shell("--partition", "6-11")
    assert code == 1, "not positioned"
    assert {str(one["group"]): one["protocol"] for one in found} == {groups.name(p): p for p in PROTOCOLS}
    assert [(one["assigned"], one["positioned"]) for one in found] == [("6-11", "")] * len(PROTOCOLS)

    groups.commit(0)
    assert {one.positioned for one in look().values()} == {PartitionSet.of(NEW)}
    assert shell("--partition", "6-11")[0] == 0

    writer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "enable.idempotence": True})
    for partition in [*NEW] * 3:
        writer.produce(topic, b"v", partition=partition)
    assert writer.flush(LIMIT_S) == 0

    groups.commit(1)
    _, found = shell("--partition", "6-11", "--group", groups.name("classic"))
    assert [one["positioned"] for one in found] == ["6-11"]

    groups.commit(3)
    assert prober.look([change], now_ms).writers == {topic: 1}

    groups.close()
    gone = prober.look([change], now_ms)
    assert (gone.readers, gone.unseen) == ({topic: frozenset()}, frozenset())


def test_a_stable_assignment_is_a_position_after_a_while(
    kafka_cluster: KafkaCluster, groups: Groups, prober: GroupProber
) -> None:
    change = change_of(kafka_cluster, groups.topic, settle_s=30.0)
    kafka_cluster.grow_topic(groups.topic, 12)
    wait_until(lambda: groups.have(12), "all groups have the new partitions")
    now_ms = round(1_000 * time.time())
    for seconds, positioned in ((0, PartitionSet()), (30, PartitionSet.of(NEW))):
        found = prober.look([change], now_ms + 1_000 * seconds).groups[change.change_id]
        assert {one.positioned for one in found.values()} == {positioned}


def test_what_is_not_there_is_told(kafka_cluster: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["groups", "-b", kafka_cluster.bootstrap_servers]
    assert run([*at, "--topic", "no-such-topic"]) == 2
    assert "there is no topic no-such-topic" in capsys.readouterr().err
    kafka_cluster.create_topic("unread", 2)
    assert run([*at, "--topic", "unread", "--partition", "1-2"]) == 2
    assert "has partitions 0-1, not 2" in capsys.readouterr().err
    assert run([*at, "--topic", "unread"]) == 0
    assert "no group reads unread" in capsys.readouterr().err
    assert run([*at, "--topic", "unread", "--group", "no-such-group"]) == 1
    assert json.loads(capsys.readouterr().out)["state"] == "dead"
