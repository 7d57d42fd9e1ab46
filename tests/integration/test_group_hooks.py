"""Consumers with `latest` and new partitions, on a real Kafka: what a hook saves, and what is lost."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from kafka_partition_events.control.agents import confluent as of_confluent
from kafka_partition_events.control.agents.consumer_agent import ConsumerAgent
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.control_kit import NEW, Link, grown, growth
from tests.kafka_version import HAS_NEW_GROUPS

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0
FROZEN_S = 5.0
EACH = 5
"""Records on each new partition, all of them written before anybody is assigned it."""
PROTOCOLS: Mapping[str, Mapping[str, str]] = {
    "eager": {},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    **({"kip848": {"group.protocol": "consumer"}} if HAS_NEW_GROUPS else {}),
}


class ConfluentReader:
    """A consumer that begins at the end of what it has no offset of."""

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        group: str,
        agent: ConsumerAgent | None,
        *,
        more: Mapping[str, str] = PROTOCOLS["eager"],
        made: Callable[[dict[str, Any]], Any] = Consumer,
    ) -> None:
        self.consumer = made({
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "latest",
            "topic.metadata.refresh.interval.ms": 500,
            **more,
        })  # fmt: skip
        if agent is not None:
            of_confluent.RebalanceHook(agent).subscribe(self.consumer, [topic])
        else:
            self.consumer.subscribe([topic])

    def read(self, seconds: float) -> list[int]:
        deadline, found = time.monotonic() + seconds, []
        while (left := deadline - time.monotonic()) > 0:
            if (message := self.consumer.poll(left)) is not None and message.error() is None:
                found.append(message.partition())
        return [partition for partition in found if partition is not None]

    def assigned(self) -> set[int]:
        return {tp.partition for tp in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


MakesReader = Callable[..., ConfluentReader]


@pytest.fixture
def producer(kafka_cluster: KafkaCluster) -> Producer:
    return Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})


def until(reader: ConfluentReader, partitions: int) -> list[int]:
    """Poll until a reader has all partitions; return the partitions of the records that came."""
    deadline, found = time.monotonic() + LIMIT_S, []
    while len(reader.assigned()) < partitions:
        assert time.monotonic() < deadline, f"has {reader.assigned()} after {LIMIT_S:g} s"
        found += reader.read(0.1)
    return found


def grow_and_write(cluster: KafkaCluster, producer: Producer, topic: str) -> None:
    """Let the topic grow, and write to its new partitions. Nobody polls, so nobody is assigned them yet."""
    cluster.grow_topic(topic, 12)
    for number in range(6 * EACH):
        producer.produce(topic, b"v", partition=6 + number % 6)
    assert producer.flush(LIMIT_S) == 0


@pytest.fixture(params=PROTOCOLS)
def make(request: pytest.FixtureRequest) -> Iterator[MakesReader]:
    made: list[ConfluentReader] = []

    def make(*args: Any) -> ConfluentReader:
        made.append(ConfluentReader(*args, more=PROTOCOLS[request.param]))
        return made[-1]

    yield make
    for reader in made:
        reader.close()


def test_a_hook_saves_what_is_lost_without_one(
    kafka_cluster: KafkaCluster, producer: Producer, make: MakesReader, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(6)
    readers = {
        "hook": make(
            kafka_cluster, topic, f"{topic}-hook", ConsumerAgent(Link(), "member-0", f"{topic}-hook")
        ),
        "none": make(kafka_cluster, topic, f"{topic}-none", None),
    }
    for reader in readers.values():
        until(reader, 6)
    grow_and_write(kafka_cluster, producer, topic)
    received = {name: until(reader, 12) + reader.read(1.0) for name, reader in readers.items()}
    assert received["none"] == [], "it begins at the end, and nothing was written since then"
    assert sorted(received["hook"]) == sorted(list(NEW) * EACH)


def test_a_consumer_that_starts_after_the_growth_learns_of_it_from_the_change(
    kafka_cluster: KafkaCluster, producer: Producer, make: MakesReader, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(6)
    grow_and_write(kafka_cluster, producer, topic)
    link = Link()
    link.write(grown(growth(topic=topic, topic_id=None, cluster_id=kafka_cluster.cluster_id)).change)
    agent = ConsumerAgent(link, "member-0", f"{topic}-group")
    assert agent.start(LIMIT_S)
    reader = make(kafka_cluster, topic, f"{topic}-group", agent)
    received = until(reader, 12) + reader.read(1.0)
    agent.close()
    assert sorted(received) == sorted(list(NEW) * EACH)
    assert "6-11" in link.uses("positioned")


class Freezing(Consumer):
    """Lets all brokers freeze when something is committed for the first time, and thaw in a while."""

    def __init__(self, cluster: KafkaCluster, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._cluster = cluster
        self.froze, self.thawed = False, threading.Event()

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        if not self.froze:
            self.froze = True
            for broker in self._cluster.brokers:
                self._cluster.freeze(broker)
            threading.Timer(FROZEN_S, self._thaw).start()
        return super().commit(*args, **kwargs)

    def _thaw(self) -> None:
        for broker in self._cluster.brokers:
            self._cluster.thaw(broker)
        self.thawed.set()


def test_a_coordinator_that_freezes_at_the_commit_holds_nobody_up_and_nothing_is_lost(
    cluster: KafkaCluster, topic: str, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_confluent, "LIMIT_S", FROZEN_S / 5)
    agent = ConsumerAgent(Link(), "member-0", topic)
    reader = ConfluentReader(cluster, topic, topic, agent, made=partial(Freezing, cluster))
    until(reader, 6)
    grow_and_write(cluster, producer, topic)
    received = until(reader, 12)
    assert reader.consumer.froze
    assert not reader.consumer.thawed.is_set(), "the callback has not waited for the coordinator"
    assert reader.consumer.thawed.wait(LIMIT_S)
    deadline = time.monotonic() + LIMIT_S
    while len(received) < len(NEW) * EACH and time.monotonic() < deadline:
        received += reader.read(0.2)
    assert sorted(received) == sorted(list(NEW) * EACH)
    reader.close()
