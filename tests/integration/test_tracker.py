"""The tracker on a real Kafka: a change from request to convergence, a killed tracker, a fenced one."""

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Self

import pytest
from attrs import define, field
from confluent_kafka import Consumer, KafkaException, Producer

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.control.agents.agent_thread import AgentLink
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.agents.producer_agent import ProducerAgent
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.protocol.codec import decode, encode, key_of
from kafka_partition_events.control.protocol.records import Change, Command, Given
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.topics import control_topics
from kafka_partition_events.control.protocol.vocabulary import State, Verb
from kafka_partition_events.control.tracker.election import SESSION_S
from kafka_partition_events.control.tracker.leadership import Leadership, TrackerConfig
from kafka_partition_events.control.tracker.tracker import Tracker
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.control_kit import growth
from tests.rights_kit import tracking
from tests.waiting_kit import own_control_topics, waiting

pytestmark = pytest.mark.kafka
LIMIT_S = 40.0
wait_until = waiting(LIMIT_S)


@define
class World:
    """Control topics, a topic with six partitions, and a producer with an agent that writes to it."""

    config: dict[str, str]
    prefix: str
    topic: str
    producer: PartitioningProducer
    partitioner: DefaultPartitioner
    agent: ProducerAgent
    reader: AgentLink
    changes: list[Change] = field(factory=list)

    def route(self) -> int:
        found = self.partitioner.route(self.topic)
        return 0 if found is None else found.count

    @property
    def limited(self) -> bool:
        return self.topic in self.partitioner.routing.limits

    @property
    def seen(self) -> int:
        assert self.producer.poller.cluster is not None
        return len(self.producer.poller.cluster.by_topic[self.topic].partitions)

    @property
    def cluster_id(self) -> str:
        assert self.producer.poller.cluster is not None
        return str(self.producer.poller.cluster.cluster_id)

    def increase(self, **fields: object) -> Spec:
        known = {"topic": self.topic, "topic_id": None, "cluster_id": self.cluster_id}
        return growth(**{**known, **fields})

    def command(self, change_id: str, verb: Verb, **fields: object) -> None:
        command = Command(change_id=change_id, verb=verb, actor="alice", **fields)  # type: ignore[arg-type]
        producer = Producer(self.config)
        producer.produce(f"{self.prefix}commands", encode(command), key_of(command))
        assert producer.flush(LIMIT_S) == 0

    def read(self) -> list[Change]:
        """Return every record of ``kpe.changes`` so far."""
        found = self.reader.read_changes(LIMIT_S)
        self.changes += [decode(Change, value) for _, value in found if value is not None]
        return self.changes

    def states(self, change_id: str) -> list[State]:
        """Return the states of a change, in the order in which they were written; each once."""
        return [*dict.fromkeys(change.state for change in self.read() if change.change_id == change_id)]

    def last(self, change_id: str) -> Change:
        return [change for change in self.read() if change.change_id == change_id][-1]


@pytest.fixture
def world(kafka_cluster: KafkaCluster, kafka_topic: MakeTopic) -> Iterator[World]:
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    prefix = own_control_topics(kafka_cluster.bootstrap_servers, wait_until)
    topic = kafka_topic(6)
    partitioner = DefaultPartitioner()
    producer = PartitioningProducer(config, partitioner, poller_options={"interval": 0.3})
    producer.produce(topic, b"v", b"k")
    producer.flush(LIMIT_S)
    link = ControlLink(config, prefix=prefix)
    agent = ProducerAgent(producer.poller, link, "a", spread=0.2)
    reader = ControlLink(config, prefix=prefix)
    made = World(config, prefix, topic, producer, partitioner, agent, reader)
    wait_until(lambda: made.route() == 6, "the topic is known")
    assert agent.start(LIMIT_S)
    polling = threading.Event()

    def poll() -> None:
        while not polling.wait(0.1):
            producer.poll(0)
            agent._wake()  # else it looks again in half a minute, as nothing is open yet

    thread = threading.Thread(target=poll)
    thread.start()
    yield made
    polling.set()
    thread.join()
    producer.close()
    reader.close()


@pytest.fixture
def tracker(world: World) -> Iterator[Tracker]:
    with tracking(world.config, world.prefix) as tracker:
        yield tracker


@pytest.fixture
def group(world: World) -> Iterator[str]:
    """A group that reads the topic from its end and does not run the library."""
    name = f"billing-{world.topic}"
    settings = {
        **world.config,
        "group.id": name,
        "auto.offset.reset": "latest",
        "topic.metadata.refresh.interval.ms": 500,
    }
    consumer, stop = Consumer(settings), threading.Event()
    consumer.subscribe([world.topic])

    def read() -> None:
        while not stop.is_set():
            consumer.poll(0.1)

    thread = threading.Thread(target=read)
    thread.start()
    yield name
    stop.set()
    thread.join()
    consumer.close()


def test_an_increase_from_request_to_convergence(world: World, group: str, tracker: Tracker) -> None:
    wait_until(lambda: tracker.status.elected, "it is elected")
    world.command("chg-1", Verb.REQUEST, spec=world.increase(execute=True, gate=True))
    wait_until(lambda: world.states("chg-1")[-1:] == [State.CONVERGED], "the change has converged")
    assert world.states("chg-1") == [
        State.REQUESTED, State.GATED, State.CONVERGING, State.CONVERGED
    ]  # fmt: skip
    change = world.last("chg-1")
    assert (change.totals.unarmed, change.opened_by, change.totals.applied) == (0, "evidence", 1)
    assert world.route() == 12
    revisions = [each.revision for each in world.changes]
    assert revisions == sorted(set(revisions))


# -- several trackers ----------------------------------------------------------------------------------


@pytest.fixture
def setting(world: World) -> TrackerConfig:
    return TrackerConfig(config=world.config, prefix=world.prefix, policy=Policy())


def test_a_tracker_that_was_fenced_writes_nothing(world: World, setting: TrackerConfig) -> None:
    with contextlib.closing(Leadership(setting)) as first:
        request = Command(change_id="chg-1", verb=Verb.REQUEST, actor="alice", spec=world.increase())
        first.round([Given(request, 0, first.now_ms)])
        with contextlib.closing(Leadership(setting)) as second:
            assert second.epoch == first.epoch + 1
            assert second.ledger.changes["chg-1"].state is State.REQUESTED
            late = Command(change_id="chg-1", verb=Verb.CANCEL, actor="alice")
            with pytest.raises(KafkaException, match="fenced"):
                first.round([Given(late, 1, first.now_ms)])
            assert first.ledger.changes["chg-1"].state is State.REQUESTED
            second.round([Given(late, 1, second.now_ms)])
            wait_until(lambda: State.CANCELLED in world.states("chg-1"), "the second one has written")


def test_a_gate_opens_by_its_producers_clock_when_tracker_and_control_topics_are_gone(
    kafka_cluster: KafkaCluster, world: World, setting: TrackerConfig
) -> None:
    spec = world.increase(gate=True, deadline_s=3.0)
    with contextlib.closing(Leadership(setting)) as leadership:
        request = Command(change_id="chg-1", verb=Verb.REQUEST, actor="alice", spec=spec)
        leadership.round([Given(request, 0, leadership.now_ms)])
        wait_until(lambda: world.limited, "the producer holds the gate")
    for topic in control_topics(world.prefix):
        kafka_cluster.delete_topic(topic.name)
    kafka_cluster.grow_topic(world.topic, 12)
    wait_until(lambda: world.seen == 12, "the producer sees the growth")
    began = time.monotonic()
    assert world.route() == 6
    wait_until(lambda: world.route() == 12, "the gate opens")
    assert time.monotonic() - began > spec.deadline_s - 1.0  # it may have known a moment before we asked


def test_a_stand_by_takes_over_at_once_from_one_that_is_stopped_and_soon_from_one_that_is_killed(
    kafka_cluster: KafkaCluster, world: World
) -> None:
    with Process(world) as first, Process(world) as second:
        wait_until(lambda: {first.ready, second.ready} == {"ok", "ok, standing by"}, "one is elected")
        elected, other = (first, second) if first.ready == "ok" else (second, first)
        assert elected.stop() == (0, "kpe: stopped")
        began = time.monotonic()
        wait_until(lambda: other.ready == "ok", "the other one takes over")
        assert time.monotonic() - began < SESSION_S
        assert "kpe_tracker_elected{" in other.get("metrics")
        with Process(world) as third:
            wait_until(lambda: third.ready == "ok, standing by", "a third one stands by")
            world.command("chg-1", Verb.REQUEST, spec=world.increase())
            wait_until(lambda: world.states("chg-1") == [State.REQUESTED], "the change is requested")
            other.kill()
            kafka_cluster.grow_topic(world.topic, 12)
            wait_until(lambda: world.states("chg-1")[-1] is State.CONVERGED, "its successor follows")
            assert len({change.tracker_epoch for change in world.changes}) == 2


def test_one_that_was_frozen_stands_by_and_writes_nothing_of_what_it_had_in_mind(world: World) -> None:
    with Process(world) as first, Process(world) as second:
        world.command("chg-1", Verb.REQUEST, spec=world.increase())
        wait_until(lambda: world.states("chg-1") == [State.REQUESTED], "the change is requested")
        # Who is asked before that may lose its place to the one that joins the group after it.
        wait_until(lambda: {first.ready, second.ready} == {"ok", "ok, standing by"}, "one is elected")
        elected, other = (first, second) if first.ready == "ok" else (second, first)
        with elected.frozen():
            # The broker answers its fetch that is under way, so it wakes up with this command.
            world.command("chg-1", Verb.CANCEL)
            wait_until(lambda: other.ready == "ok", "the other one takes over")
            wait_until(lambda: world.states("chg-1")[-1] is State.CANCELLED, "the successor obeys")
        # Why depends on where it was: another one was elected, it is fenced, or a limit of time is over.
        wait_until(lambda: not elected.ready.startswith("ok"), "it tells that it is not the tracker")
        # Its return is a rebalance. If that hits a commit of the other one, they may change places again.
        wait_until(lambda: {first.ready, second.ready} == {"ok", "ok, standing by"}, "one stands by")
        world.command("chg-2", Verb.REQUEST, spec=world.increase())
        wait_until(lambda: world.states("chg-2") == [State.REQUESTED], "there is a tracker that goes on")
        epochs = [change.tracker_epoch for change in world.read()]
        assert epochs == sorted(epochs), "nothing of the frozen one after its successor"
        assert epochs[0] < epochs[-1]


def test_without_control_topics_it_says_what_to_do(kafka_cluster: KafkaCluster, world: World) -> None:
    world.prefix = "no-such."
    with Process(world) as process:
        code, told = process.wait()
        assert code == 2
        assert "run: kpe tracker init -b 127.0.0.1:" in told
        assert told.endswith("--prefix no-such.")


class Process:
    """``kpe tracker``."""

    def __init__(self, world: World) -> None:
        command = [sys.executable, "-m", "kafka_partition_events.cli", "tracker"]
        where = ["-b", world.config["bootstrap.servers"], "--prefix", world.prefix]
        self._process = subprocess.Popen(
            [*command, *where, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
        )
        self._address: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill()
        if self._process.stderr is not None and not self._process.stderr.closed:
            sys.stderr.write(self._process.stderr.read())  # for whoever looks at a test that has failed
        self._process.communicate()

    @property
    def ready(self) -> str:
        return self.get("readyz").strip()

    def get(self, path: str) -> str:
        while self._address is None:
            assert self._process.stderr is not None
            line = self._process.stderr.readline()
            assert line, "it has ended"
            found = re.search(r"(http://\S+) has /metrics", line)
            self._address = found[1] if found else None
        try:
            with urllib.request.urlopen(f"{self._address}/{path}", timeout=LIMIT_S) as answer:  # noqa: S310
                return str(answer.read().decode())
        except urllib.error.HTTPError as refused:
            return refused.read().decode()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspend it for the time of a ``with``."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> tuple[int, str]:
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> tuple[int, str]:
        """Return the exit code, and the last line that it has told."""
        _, told = self._process.communicate(timeout=LIMIT_S)
        return self._process.returncode, told.splitlines()[-1]
