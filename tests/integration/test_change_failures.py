"""What can go wrong with a change, with a real tracker, real records and a real cluster that is changed.

Producers are records here where a real one could not be made to do it on demand. Tracker and control topics
that fail: test_tracker. Clocks: tests/unit/control, with clocks that are injected.
"""

import contextlib
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import define, field
from confluent_kafka import Producer

from kafka_partition_events import BufferBudget, DefaultPartitioner
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.agents.producer_agent import ProducerAgent
from kafka_partition_events.control.described import describe_topics
from kafka_partition_events.control.operate.control_log import ControlLog
from kafka_partition_events.control.protocol.codec import Record, encode, key_of
from kafka_partition_events.control.protocol.records import Ack, Change, Command, Lease, TopicUse
from kafka_partition_events.control.protocol.vocabulary import State, Status, Verb
from kafka_partition_events.control.tracker.tracker import Tracker
from kafka_partition_events.testing import KafkaCluster
from tests.control_kit import ack, growth
from tests.waiting_kit import own_control_topics, waiting

pytestmark = pytest.mark.kafka
LIMIT_S = 40.0
wait_until = waiting(LIMIT_S)
TOPICS = {Command: "commands", Lease: "leases", Ack: "acks"}


@define
class World:
    """A cluster, a tracker, and what is said in the control topics."""

    cluster: KafkaCluster
    prefix: str
    tracker: Tracker
    topic: str = ""
    log: ControlLog = field(init=False)
    _producer: Producer = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.log = ControlLog(self.config, self.prefix)
        self._producer = Producer({**self.config, "partitioner": "murmur2_random"})

    @property
    def config(self) -> dict[str, str]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers}

    @property
    def change_id(self) -> str:
        return f"chg-{self.topic}"

    @property
    def change(self) -> Change:
        self.log.read(LIMIT_S)
        return self.log.ledger.changes[self.change_id]

    def write(self, *records: Record) -> None:
        for record in records:
            self._producer.produce(f"{self.prefix}{TOPICS[type(record)]}", encode(record), key_of(record))
        assert self._producer.flush(LIMIT_S) == 0

    def lives(self, name: str, seen: int = 6, **fields: Any) -> None:
        """Let a producer say that it is there; from the second time on, since when."""
        self.log.read(LIMIT_S)
        known = self.log.ledger.leases.get(name)
        born_ms = None if known is None else known.born_ms
        use = TopicUse(topic=self.topic, seen=seen, used=seen)
        self.write(
            Lease(
                **{
                    "instance_id": name,
                    "incarnation": f"{name}-1",
                    "lease_seq": time.monotonic_ns(),
                    "born_ms": born_ms,
                    "view": (use,),
                    **fields,
                }
            )
        )

    def says(self, name: str, status: Status, **fields: Any) -> Ack:
        """Let a producer answer that knows when it was born, as all do: by that answers are put in order."""
        born_ms = self.log.ledger.leases[name].born_ms
        known = {"change_id": self.change_id, "ack_seq": time.monotonic_ns(), "born_ms": born_ms}
        return ack(name, status, **{**known, **fields})

    def request(self, **fields: Any) -> None:
        """Ask for more partitions, and wait until the tracker follows."""
        with contextlib.closing(Connection(self.config)) as connection:
            info = describe_topics(connection, [self.topic], LIMIT_S)[self.topic]
        known = {
            "topic": self.topic,
            "topic_id": info.topic_id,
            "cluster_id": self.cluster.cluster_id,
            "required_groups": (),
        }
        spec = growth(**{**known, **fields})
        self.write(Command(change_id=self.change_id, verb=Verb.REQUEST, actor="alice", spec=spec))
        self.until(lambda change: change.state is State.REQUESTED, "it is requested")

    def until(self, true: Callable[[Change], bool], what: str) -> Change:
        def holds() -> bool:
            self.log.read(LIMIT_S)
            change = self.log.ledger.changes.get(self.change_id)
            return change is not None and true(change)

        wait_until(holds, what)
        return self.change


@pytest.fixture(scope="module")
def watched(kafka_cluster: KafkaCluster) -> Iterator[World]:
    prefix = own_control_topics(kafka_cluster.bootstrap_servers, wait_until)
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    tracker, stop = Tracker(config, prefix=prefix), threading.Event()
    thread = threading.Thread(target=tracker.run, args=(stop,))
    thread.start()
    wait_until(lambda: tracker.status.elected, "a tracker is elected")
    made = World(kafka_cluster, prefix, tracker)
    yield made
    stop.set()
    thread.join(LIMIT_S)
    made.log.close()


@pytest.fixture
def world(watched: World) -> World:
    watched.topic = f"orders-{uuid.uuid4().hex[:8]}"
    watched.cluster.create_topic(watched.topic, 6)
    return watched


def test_a_topic_that_is_created_anew_is_another_one(world: World) -> None:
    world.request()
    world.cluster.delete_topic(world.topic)
    world.cluster.create_topic(world.topic, 12)
    change = world.until(lambda change: change.state.final, "it is over")
    assert change.state is State.REJECTED
    assert not change.holds


def test_growth_to_another_number_is_a_conflict(world: World) -> None:
    world.request()
    world.cluster.grow_topic(world.topic, 9)
    change = world.until(lambda change: change.state.final, "it is over")
    assert change.state is State.REJECTED
    assert "has 9 partitions, neither 6 nor 12" in change.detail


def test_a_producer_without_memory_for_all_is_capped_and_says_why(world: World) -> None:
    partitioner = DefaultPartitioner(budget=BufferBudget(buffer_memory=8 * 16_384, batch_size=16_384))
    with PartitioningProducer(world.config, partitioner, poller_options={"interval": 0.3}) as producer:
        producer.produce(world.topic, b"v")
        producer.flush(LIMIT_S)
        link = ControlLink(world.config, prefix=world.prefix)
        agent = ProducerAgent(producer.poller, link, "tiny", spread=0.2)
        assert agent.start(LIMIT_S)
        wait_until(lambda: _has_lease(world, "tiny"), "it has a lease")
        world.request()
        world.cluster.grow_topic(world.topic, 12)
        change = world.until(lambda change: change.state.final, "it is over")
    assert change.state is State.PARTIALLY_CONVERGED
    assert (change.totals.capped, change.totals.applied) == (1, 0)
    (told,) = (a.record for a in world.log.ledger.acks[world.change_id].values())
    assert told.status is Status.CAPPED
    (use,) = world.log.ledger.leases["tiny"].record.view
    assert use.used == 8


def test_doubled_and_shuffled_answers_count_once_and_the_last_one_counts(world: World) -> None:
    names = [f"p{number:02}" for number in range(20)]
    for name in names:
        world.lives(name)
    world.request()
    earlier = [world.says(name, Status.OBSERVED) for name in names]
    later = [world.says(name, Status.APPLIED) for name in names]
    said = [*earlier, *later] * 3
    random.Random(20).shuffle(said)
    world.write(*said)
    world.cluster.grow_topic(world.topic, 12)
    change = world.until(lambda change: change.state.final, "it is over")
    assert change.state is State.CONVERGED
    assert (change.totals.applied, change.totals.live) == (20, 20)


def test_a_topic_that_grows_before_all_hold_the_gate_is_not_verified(world: World) -> None:
    world.lives("in-time")
    world.lives("too-late")
    world.request(gate=True)
    # The tracker looks at the cluster after both hold; only one of them did before it saw new partitions.
    world.write(
        world.says("in-time", Status.HELD, armed_count=6),
        world.says("too-late", Status.HELD, armed_count=12),
    )
    world.until(lambda change: change.totals.held == 2, "both hold")
    world.cluster.grow_topic(world.topic, 12)
    change = world.until(lambda change: change.state.happened, "it has happened")
    assert change.totals.unarmed == 1
    assert "producers that did not hold the gate when the topic grew: 1" in change.unverified


def _has_lease(world: World, name: str) -> bool:
    world.log.read(LIMIT_S)
    return name in world.log.ledger.leases
