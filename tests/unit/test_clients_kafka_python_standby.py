"""kafka-python's second producer, without a broker: who takes it, when it is made, and how it ends."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from attrs import define, field
from kafka.structs import TopicPartition

from kafka_partition_events import ConfigurationError, DefaultPartitioner
from kafka_partition_events.clients.kafka_python import standby as module
from kafka_partition_events.clients.kafka_python.deliveries import Reports
from kafka_partition_events.clients.kafka_python.sending import Sending
from kafka_partition_events.clients.kafka_python.standby import Standby
from kafka_partition_events.clients.standby import checked_standby, healthy
from kafka_partition_events.routing.lanes import MAIN, STANDBY
from kafka_partition_events.testing.scripted import cluster_of
from tests.waiting_kit import waiting

LIMIT_S = 10.0
THIRD = STANDBY + 1
wait_until = waiting(LIMIT_S, 0.005)
CLUSTER = cluster_of({"t": [1, 2, 3]}, brokers=[1, 2, 3])


class Buffer:
    """What a producer appends records to, and its metadata, sender and client."""

    _client: Any

    def __init__(self) -> None:
        self.records: list[tuple[int, Any]] = []
        self.known = {"t"}

    def append(
        self, tp: Any, timestamp_ms: Any, key: Any, value: Any, headers: Any, abort_on_new_batch: bool = False
    ) -> Any:
        if abort_on_new_batch:
            return None, False, False, True
        self.records.append((tp.partition, value))
        return "future", False, True, False

    def partitions_for_topic(self, topic: str) -> Any:
        return {0, 1, 2} if topic in self.known else None

    def add_topic(self, topic: str) -> None:
        self.known.add(topic)

    def topics(self) -> set[str]:
        return self.known

    def set_topics(self, topics: Any) -> None:
        self.known = set(topics)

    def connection_delay(self, node_id: int) -> float:
        return 0.0

    def wakeup(self) -> None:
        pass

    update_metadata = _manager = wakeup


class FakeProducer:
    """Sends to the partition that it is told, or to 1."""

    DEFAULT_CONFIG: ClassVar = {"client_id": None, "acks": -1, "bootstrap_servers": None, "partitioner": None}
    made: ClassVar[list["FakeProducer"]] = []
    may_be_made = threading.Event()

    def __init__(self, **config: Any) -> None:
        assert self.may_be_made.wait(LIMIT_S)
        self.config = config
        self._accumulator = self._metadata = self._sender = Buffer()
        self._sender._client = Buffer()
        self.flushed = 0
        self.closed = False
        self.made.append(self)
        if config.get("refuse"):
            raise OSError

    def send(self, topic: str, value: Any, key: Any = None, partition: Any = None, **_more: Any) -> Any:
        tp = TopicPartition(topic, 1 if partition is None else partition)
        future, _, _, again = self._accumulator.append(
            tp, None, key, value, [], abort_on_new_batch=partition is None
        )
        return self._accumulator.append(tp, None, key, value, [])[0] if again else future

    def flush(self, timeout: float | None = None) -> None:
        self.flushed += 1

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        self.closed = True

    @property
    def records(self) -> list[tuple[int, Any]]:
        return self._accumulator.records


@define
class Rig:
    partitioner: DefaultPartitioner = field(factory=DefaultPartitioner)
    producer: Any = None
    standbys: list[Any] = field(factory=list)
    sending: Any = None
    end: Callable[[Any], None] = print

    @property
    def standby(self) -> Any:
        return self.standbys[0]

    def second(self, way: int = STANDBY) -> FakeProducer:
        """Let a replica be suspect, and wait for the second producer, or the third."""
        ask_for_it(self, way)
        standby = self.standbys[way - STANDBY]
        standby.is_coming()
        wait_until(lambda: standby._takes, "another producer")
        return FakeProducer.made[-1]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(module, "KafkaProducer", FakeProducer)
    monkeypatch.setattr(module, "_OF_ITS_OWN", {})
    monkeypatch.setattr(module, "ask", lambda _manager, topics, *_args, **_options: topics)
    FakeProducer.made.clear()
    FakeProducer.may_be_made.set()
    rig = Rig(producer=FakeProducer(client_id="app"))
    rig.partitioner.adopt(CLUSTER)
    config = {"client_id": "app", "acks": -1, "bootstrap_servers": "a:1"}
    rig.standbys = [Standby(way, "lazy", config, rig.partitioner, poller()) for way in (STANDBY, THIRD)]
    reports = Reports(rig.partitioner, poller())
    reports.open = False
    rig.sending = Sending(FakeProducer, reports, rig.standbys, reroutes=False)
    rig.end = rig.sending.install(rig.producer, None, lambda: None)
    yield rig
    FakeProducer.may_be_made.set()
    rig.producer.close()
    wait_until(lambda: not any(standby._thread for standby in rig.standbys), "the end of their threads")


def send_copy(rig: Rig, partition: int) -> int:
    """Send a record that may take either way to this partition; return the way that it took."""
    _, way = rig.sending.send(rig.producer, "t", free=True, value=b"v", headers=[], partition=partition)
    return int(way)


def poller() -> Any:
    @define
    class Poller:
        cluster: Any = CLUSTER

    return Poller()


def ask_for_it(rig: Rig, way: int = STANDBY) -> None:
    """Let a replica be suspect."""
    rig.partitioner.deliveries._feedback.way = way


def test_what_may_go_anywhere_takes_the_second_way_and_nothing_else(rig: Rig) -> None:
    rig.producer.send("t", b"calm")
    ask_for_it(rig)
    FakeProducer.may_be_made.clear()
    rig.producer.send("t", b"meanwhile")
    FakeProducer.may_be_made.set()
    second = rig.second()
    for key, partition in [(None, None), (b"k", None), (None, 1)]:
        rig.producer.send("t", b"v", key, None, partition)
        assert rig.sending._latest.way == (STANDBY if key is None and partition is None else MAIN)
    assert send_copy(rig, 2) == STANDBY
    assert rig.producer.records == [(1, b"calm"), (1, b"meanwhile"), (1, b"v"), (1, b"v")]
    assert second.records == [(1, b"v"), (2, b"v")]
    assert second.config["client_id"] == "app-standby-1"


def test_a_third_one_takes_it_when_the_second_is_blocked_until_it_is_free(rig: Rig) -> None:
    second = rig.second()
    third = rig.second(THIRD)
    assert send_copy(rig, 2) == THIRD
    ask_for_it(rig, STANDBY)
    assert send_copy(rig, 1) == STANDBY
    assert (second.records, third.records) == ([(1, b"v")], [(2, b"v")])
    rig.producer.close(timeout=1.0)
    assert second.closed
    assert third.closed


def test_what_needs_a_suspect_stays_on_the_first_way(rig: Rig) -> None:
    second = rig.second()
    rig.partitioner.deliveries.unreachable(2, "test")
    ask_for_it(rig)
    rig.producer.send("t", b"v")  # broker 2 leads partition 1
    assert second.records == []


def test_a_topic_that_the_second_producer_does_not_know_is_asked_for(rig: Rig) -> None:
    second = rig.second()
    second._sender.known.clear()
    assert send_copy(rig, 1) == MAIN
    assert second.records == []
    assert send_copy(rig, 1) == STANDBY
    assert second.records == [(1, b"v")]


def test_sending_does_not_wait_for_it_and_copies_do(rig: Rig) -> None:
    assert not rig.standby.is_coming()
    ask_for_it(rig)
    FakeProducer.may_be_made.clear()
    assert rig.standby.is_coming()
    rig.producer.send("t", b"v")
    assert rig.producer.records == [(1, b"v")]
    FakeProducer.may_be_made.set()
    rig.second()
    assert not rig.standby.is_coming()


def test_copies_do_not_wait_for_what_cannot_be_made(rig: Rig) -> None:
    rig.standby._config["refuse"] = True
    ask_for_it(rig)
    rig.standby.is_coming()
    wait_until(lambda: not rig.standby.is_coming(), "a refusal")
    rig.producer.flush()
    rig.producer.send("t", b"v")
    assert rig.producer.records == [(1, b"v")]


def test_both_are_flushed_and_closed(rig: Rig) -> None:
    second = rig.second()
    rig.producer.flush(1.0)
    assert second.flushed == rig.producer.flushed == 1
    rig.producer.close(timeout=1.0)
    assert second.closed
    assert rig.producer.closed
    rig.producer.send("t", b"v")
    assert second.records == []


def test_it_is_closed_when_it_was_idle_and_made_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.05)
    first = rig.second()
    wait_until(lambda: first.closed and rig.standby._thread is None, "its end")
    assert rig.second() is not first


def test_ending_it_gives_the_producer_back_if_it_was_never_made(rig: Rig) -> None:
    rig.end(rig.producer)
    assert type(rig.producer) is FakeProducer
    assert type(rig.producer._accumulator) is Buffer


def test_ending_it_sends_what_is_on_the_way(rig: Rig) -> None:
    second = rig.second()
    rig.end(rig.producer)
    wait_until(lambda: second.closed, "its end")
    rig.producer.send("t", b"v")
    assert second.records == []


@pytest.mark.parametrize(
    ("mode", "transaction", "waits", "found"),
    [("lazy", None, True, "lazy"), ("warm", None, False, "off"), ("lazy", "transactional_id", True, "off")],
)
def test_where_there_is_none(mode: str, transaction: str | None, waits: bool, found: str) -> None:
    assert checked_standby(mode, transaction, waits_for_replicas=waits) == found


@pytest.mark.parametrize(("mode", "cause"), [("hot", "must be one of"), ("warm", "transactional_id")])
def test_what_cannot_be_is_refused(mode: str, cause: str) -> None:
    with pytest.raises(ConfigurationError, match=cause):
        checked_standby(mode, "transactional_id", waits_for_replicas=True)


def test_healthy_brokers_are_asked_first() -> None:
    assert healthy(None, ()) == []
    assert len(healthy(CLUSTER, {2})) == 2
