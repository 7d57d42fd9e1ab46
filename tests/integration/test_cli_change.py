"""`kpe change` on a real Kafka, with a tracker, a producer and a group."""

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import define, evolve
from confluent_kafka import Consumer, Producer

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.cli.app import run
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.agents.producer_agent import ProducerAgent
from kafka_partition_events.control.protocol.codec import encode
from kafka_partition_events.control.protocol.records import Lease, TopicUse
from kafka_partition_events.control.tracker.tracker import Tracker
from kafka_partition_events.testing import KafkaCluster
from tests.change_kit import documents
from tests.waiting_kit import waiting

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
wait_until = waiting(LIMIT_S)

Captured = pytest.CaptureFixture[str]


@define
class World:
    """A topic with keyed records, a producer that follows changes, and a group that does not."""

    address: str
    prefix: str
    topic: str

    def kpe(self, *arguments: str) -> int:
        return run([*arguments, "-b", self.address, "--prefix", self.prefix])

    def request(self, *arguments: str) -> int:
        return self.kpe("change", "request", "--topic", self.topic, *arguments)


@pytest.fixture(scope="module")
def world(own_kafka_cluster: Callable[..., KafkaCluster]) -> Iterator[World]:
    cluster = own_kafka_cluster(brokers=1)
    made = World(cluster.bootstrap_servers, f"t{uuid.uuid4().hex[:8]}.", "orders")
    config = {"bootstrap.servers": made.address}
    assert made.kpe("tracker", "init") == 0
    cluster.create_topic(made.topic, 6)
    producer = PartitioningProducer(config, DefaultPartitioner(), poller_options={"interval": 0.3})
    for number in range(500):
        producer.produce(made.topic, b"v", b"customer-%d" % number)
    assert producer.flush(LIMIT_S) == 0
    link = ControlLink(config, prefix=made.prefix)
    agent = ProducerAgent(producer.poller, link, "shop-1", spread=0.1)
    consumer = Consumer({**config, "group.id": "billing", "auto.offset.reset": "latest"})
    consumer.subscribe([made.topic])
    done = threading.Event()

    def live() -> None:
        while not done.wait(0.1):
            consumer.poll(0)
            producer.poll(0)
            agent._wake()  # else it looks again in half a minute, as nothing is open yet

    thread = threading.Thread(target=live)
    thread.start()
    assert agent.start(LIMIT_S)
    _leave_a_stale_lease(made)
    wait_until(lambda: len(consumer.assignment()) == 6, "the group has the topic")
    yield made
    done.set()
    thread.join()
    consumer.close()
    producer.close()


def _leave_a_stale_lease(world: World) -> None:
    """Let an instance be lost at once."""
    use = TopicUse(topic="payments", seen=3, used=3)
    lost = Lease(instance_id="lost-1", incarnation="x", lease_seq=1, ttl_s=0.1, view=(use,))
    writer = Producer({"bootstrap.servers": world.address})
    writer.produce(f"{world.prefix}leases", encode(lost), "lost-1")
    assert writer.flush(LIMIT_S) == 0


@pytest.fixture(scope="module")
def tracker(world: World) -> Iterator[Tracker]:
    tracker = Tracker({"bootstrap.servers": world.address}, prefix=world.prefix)
    stop = threading.Event()
    thread = threading.Thread(target=tracker.run, args=(stop,))
    thread.start()
    yield tracker
    stop.set()
    thread.join()


def the_only(capsys: Captured) -> dict[str, Any]:
    (document,) = documents(capsys.readouterr().out)
    return document


def test_plan(world: World, capsys: Captured) -> None:
    plan: dict[str, Any] = {}

    def planned() -> bool:
        code = world.kpe("change", "plan", "--topic", world.topic, "--to", "12", "--gate")
        plan.update(the_only(capsys))
        return code == 0

    wait_until(planned, "a lease of shop-1")
    assert plan["producers"] == 1
    assert [(g["group"], g["members"], g["safety"]) for g in plan["groups"]] == [("billing", 1, "gate")]
    assert world.kpe("change", "plan", "--topic", world.topic, "--to", "8") == 1
    assert the_only(capsys)["verdict"] == "exposed"
    assert world.kpe("change", "plan", "--topic", world.topic, "--to", "8", "--from", "5") == 4
    assert "partitions, not 5" in the_only(capsys)["refusal"]


def test_a_request_that_nobody_answers(world: World, capsys: Captured) -> None:
    alone = evolve(world, prefix=f"{world.prefix}alone.")
    assert alone.kpe("tracker", "init") == 0
    wait_until(lambda: alone.kpe("change", "ls") == 0, "the topics are there")
    capsys.readouterr()
    assert alone.request("--to", "8") == 3
    told = capsys.readouterr()
    assert "no tracker has answered within 10 s" in told.err
    assert alone.kpe("change", "show", documents(told.out)[0]["change_id"]) == 2


@pytest.mark.usefixtures("tracker")
def test_a_gated_change_from_request_to_cancelling(world: World, capsys: Captured) -> None:
    assert world.request("--to", "12", "--gate") == 0
    change = the_only(capsys)
    id_, spec = change["change_id"], change["spec"]
    assert (spec["from_count"], spec["to_count"], spec["gate"]) == (6, 12, True)
    assert spec["topic_id"] is not None

    assert world.request("--to", "24") == 1
    told = capsys.readouterr()
    assert documents(told.out)[0]["answers"][0]["refused"]
    assert f"{id_} is requested; wait for it (kpe change wait)" in told.err

    assert world.kpe("change", "wait", id_, "--armed", "--timeout", "20s") == 0
    capsys.readouterr()
    assert world.kpe("change", "wait", id_, "--timeout", "1s") == 3
    capsys.readouterr()

    assert world.kpe("change", "cancel", id_, "--finish", "--yes") == 1
    assert "cancel it without an option" in capsys.readouterr().err
    assert world.kpe("change", "cancel", id_, "--reason", "wrong topic") == 0
    assert the_only(capsys)["state"] == "cancelled"
    assert world.kpe("change", "ls") == 0
    assert documents(capsys.readouterr().out) == []
    assert world.kpe("change", "show", id_) == 0
    assert the_only(capsys)["answers"][1]["refused"]


def test_without_control_topics_nothing_is_created(world: World, capsys: Captured) -> None:
    elsewhere = evolve(world, prefix="nowhere.")
    assert elsewhere.request("--to", "12") == 2
    error = capsys.readouterr().err
    assert error.startswith("kpe: there is no topic nowhere.")
    assert "`kpe tracker init` creates the control topics" in error
    assert world.kpe("tracker", "init") == 0
    assert documents(capsys.readouterr().out) == []
