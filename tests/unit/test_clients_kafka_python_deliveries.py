"""How kafka-python's deliveries reach the partitioner, without a broker."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field
from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    NotEnoughReplicasError,
    RequestTimedOutError,
)
from kafka.future import Future
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.structs import TopicPartition as KafkaTopicPartition

from kafka_partition_events import DefaultPartitioner, Event
from kafka_partition_events.clients.kafka_python.deliveries import (
    IDLE_S,
    SAMPLE_S,
    Reports,
    watch_connections,
)
from kafka_partition_events.clients.kafka_python.sending import Sending, override
from kafka_partition_events.clients.rerouting import HOME_HEADER, reroutes
from kafka_partition_events.errors import PollerClosedError
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from tests.chooser_kit import judged

MS = 0.001


@define
class FakePoller:
    """Takes what a poller is told."""

    events: list[Event] = field(factory=list)
    refreshed: int = 0

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def refresh(self, reason: str) -> None:
        self.refreshed += 1
        raise PollerClosedError("it may be: that harms nobody")


class FakeProducer:
    """Sends what it is told to, as far as `Sending` can tell."""

    def __init__(self) -> None:
        self.closed = False

    def send(self, topic: str, *, partition: int | None, **_more: Any) -> Any:
        """Send."""
        if topic == "refused":
            raise ValueError(topic)
        return FutureRecordMetadata(
            FutureProduceResult(KafkaTopicPartition(topic, partition)), 0, 0, None, -1, 1, -1
        )

    def flush(self, timeout: float | None = None) -> None:
        pass

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        self.closed = True
        if timeout == 0:
            raise OSError("no time")

    def __del__(self) -> None:
        self.closed = True


@define
class Rig:
    clock: ManualClock
    partitioner: DefaultPartitioner
    poller: FakePoller
    reports: Reports

    def send(self, partition: int, topic: str = "t") -> Any:
        future = FakeProducer().send(topic, partition=partition)
        self.reports.sent(future)
        return future

    def answer(self, future: Any) -> None:
        future._produce_future.success((0, 0, None))

    def fail(self, future: Any, error: Exception) -> None:
        future._produce_future.success((-1, -1, lambda _index: error))

    @property
    def outstanding(self) -> dict[TopicPartition, int]:
        return {tp: n for tp, n in self.partitioner.deliveries.stats.outstanding.items() if n}


@pytest.fixture
def rig() -> Rig:
    clock, partitioner, poller = ManualClock(start=1.0), DefaultPartitioner(), FakePoller()
    judged(partitioner, clock.monotonic)
    partitioner.adopt(cluster_of({"t": [1, 2, 3]}, brokers=[1, 2, 3]))
    return Rig(clock, partitioner, poller, Reports(partitioner, poller, clock.monotonic))  # type: ignore[arg-type]


def test_a_record_is_outstanding_until_it_is_answered(rig: Rig) -> None:
    future = rig.send(1)
    assert rig.outstanding == {TopicPartition("t", 1): 1}
    rig.answer(future)
    assert rig.outstanding == {}


@pytest.mark.parametrize("error", [NotEnoughReplicasError(), KafkaTimeoutError(), KafkaConnectionError()])
def test_a_record_that_fails_is_not_outstanding_any_more(rig: Rig, error: Exception) -> None:
    rig.fail(rig.send(1), error)
    assert rig.outstanding == {}


@pytest.mark.parametrize(
    ("error", "answers"),
    [(NotEnoughReplicasError(), True), (RequestTimedOutError(), False), (KafkaTimeoutError(), False)],
)
def test_only_an_error_of_the_broker_is_an_answer(rig: Rig, error: Exception, answers: bool) -> None:
    future = rig.send(1)
    rig.clock.advance(7 * MS)
    rig.fail(future, error)
    usual = rig.partitioner.deliveries._feedback.usual
    assert usual == (pytest.approx(7 * MS) if answers else None)


def test_many_records_at_once_are_sampled(rig: Rig) -> None:
    for _ in range(100):
        rig.send(0)
    assert rig.outstanding == {TopicPartition("t", 0): 1}
    rig.clock.advance(SAMPLE_S)
    rig.send(2)
    assert rig.outstanding == {TopicPartition("t", 0): 1, TopicPartition("t", 2): 1}


def test_a_silent_broker_is_told_once_and_probes_are_never_left_out(rig: Rig) -> None:
    for _ in range(9):
        for partition in (0, 1, 2):
            future = rig.send(partition)
            rig.clock.advance(2 * MS)
            rig.answer(future)
    stuck = rig.send(1)
    for _ in range(150):
        rig.clock.advance(2 * MS)
        rig.answer(rig.send(0))
    (event,) = rig.poller.events
    assert (event.kind, event.broker) == ("broker_suspected", 2)  # type: ignore[attr-defined]
    assert rig.poller.refreshed == 1
    rig.answer(stuck)
    rig.send(0)
    rig.send(1)  # within the same sampling time as the one before
    assert rig.outstanding == {TopicPartition("t", 1): 1}


@pytest.mark.parametrize(("topic", "partition"), [("unknown", 0), ("t", 7), ("t", None)])
def test_a_record_without_a_known_partition_is_left_alone(rig: Rig, topic: str, partition: Any) -> None:
    future = rig.send(partition, topic)
    assert rig.outstanding == {}
    assert not future._callbacks


def test_a_kafka_python_without_what_we_rely_on_goes_on_sending(rig: Rig) -> None:
    rig.reports.sent(Future())
    assert not rig.reports.open


def test_lost_connections_make_a_broker_suspect_until_it_is_over(rig: Rig) -> None:
    rig.reports.open = False
    rig.reports.lost_connection(1)
    assert rig.poller.events == []
    rig.reports.open = True
    rig.reports.lost_connection(1)
    assert [event.kind for event in rig.poller.events] == ["broker_suspected"]


# -- the producer's class ----------------------------------------------------------------------------


def watch(producer: Any, reports: Reports, closed: Callable[[], None] = lambda: None) -> Any:
    return Sending(type(producer), reports, (), reroutes=False).install(producer, None, closed)


def test_a_watched_producer_is_what_it_was_but_for_send(rig: Rig) -> None:
    producer, other = FakeProducer(), FakeProducer()
    undo = watch(producer, rig.reports)
    assert isinstance(producer, FakeProducer)
    assert type(producer).__qualname__ == "FakeProducer"
    assert producer.send.__doc__ == "Send."
    assert vars(producer) == {"closed": False}
    producer.send("t", partition=1)
    other.send("t", partition=1)
    assert rig.outstanding == {TopicPartition("t", 1): 1}
    undo(producer)
    assert type(producer) is FakeProducer


def test_it_is_told_when_a_watched_producer_was_closed(rig: Rig) -> None:
    producer, told = FakeProducer(), []
    watch(producer, rig.reports, lambda: told.append(producer.closed))
    producer.close(timeout=1)
    with pytest.raises(OSError, match="no time"):
        producer.close(timeout=0)
    assert told == [True, True]


def test_a_send_that_raises_is_not_tracked(rig: Rig) -> None:
    producer: Any = FakeProducer()
    watch(producer, rig.reports)
    with pytest.raises(ValueError, match="refused"):
        producer.send("refused", partition=1)
    assert rig.outstanding == {}


def test_a_rerouted_record_tells_its_home_by_a_list_of_its_own(rig: Rig) -> None:
    """By the order in which kafka-python's `send` asks its partitioner; its own is tried on real brokers."""

    class Asking(FakeProducer):
        def send(self, topic: str, *, partition: int | None, headers: Any = None, **_more: Any) -> Any:
            if not isinstance(headers, list):
                raise TypeError
            note_home(7)
            return headers

    producer: Any = Asking()
    rig.partitioner.keying.policy = "reroute"
    sending = Sending(Asking, rig.reports, (), reroutes=reroutes(rig.partitioner))
    note_home: Any = rig.partitioner.keying.note_home
    end = sending.install(producer, None, lambda: None)
    rig.reports.open = False
    own = [("own", b"1")]
    for given in (own, None):
        assert producer.send("t", key=b"k", headers=given) == [*(given or ()), (HOME_HEADER, b"7")]
    assert own == [("own", b"1")]
    with pytest.raises(TypeError):
        producer.send("t", key=b"k", headers=(("own", b"1"),))
    end(producer)
    assert type(producer) is not Asking, "the partitioner goes on without a poller"


def test_two_overrides_end_in_any_order() -> None:
    producer = FakeProducer()
    undo_first = override(producer, send=lambda self, *_, **_more: 1)
    undo_second = override(producer, send=lambda self, *_, **_more: 2)
    undo_first(producer)
    assert producer.send("t", partition=0) == 2
    undo_second(producer)
    assert producer.send("t", partition=0) == 1


def test_a_watched_producer_ends_as_soon_as_it_is_dropped(rig: Rig) -> None:
    producer = FakeProducer()
    watch(producer, rig.reports)
    future, gone = producer.send("t", partition=1), weakref.ref(producer)
    gc.disable()
    try:
        del producer
        assert gone() is None
    finally:
        gc.enable()
    rig.answer(future)


# -- connections -------------------------------------------------------------------------------------


class FakeConnection:
    def __init__(self) -> None:
        self.close_future = Future()


class FakeManager:
    """A connection manager, and the producer that has it."""

    def __init__(self) -> None:
        self._conns: dict[Any, FakeConnection] = {1: FakeConnection()}
        self.closed = False
        self._sender = self._client = self
        self._manager = self

    def get_connection(self, node_id: Any, *, make: Callable[[], FakeConnection] = FakeConnection) -> Any:
        return self._conns.setdefault(node_id, make())


@pytest.fixture
def lost() -> list[int]:
    return []


def test_connections_that_fail_are_told_old_and_new(lost: list[int]) -> None:
    manager = FakeManager()
    watch_connections(manager, lost.append)
    for node in (1, 2, 2):
        manager.get_connection(node)
    manager._conns[2].close_future.failure(KafkaConnectionError())
    manager._conns[1].close_future.failure(KafkaConnectionError())
    assert lost == [2, 1]


def test_connections_that_end_in_order_are_not_told(lost: list[int]) -> None:
    manager, clock = FakeManager(), ManualClock()
    stop = watch_connections(manager, lost.append, clock.monotonic)
    manager.get_connection(2).close_future.success(None)  # closed by us
    manager.get_connection("bootstrap-0").close_future.failure(KafkaConnectionError())  # which broker is it?
    idle, left = manager.get_connection(3), manager.get_connection(4)
    clock.advance(IDLE_S)
    idle.close_future.failure(KafkaConnectionError())  # closed by the broker, for being idle
    manager.get_connection(4)
    stop()
    left.close_future.failure(KafkaConnectionError())
    assert "get_connection" not in vars(manager)
    assert lost == []


def test_a_producer_that_closes_loses_nobody(lost: list[int]) -> None:
    manager = FakeManager()
    watch_connections(manager, lost.append)
    manager.closed = True
    manager._conns[1].close_future.failure(KafkaConnectionError())
    assert lost == []


def test_another_kafka_python_is_not_watched(lost: list[int]) -> None:
    watch_connections(object(), lost.append)()
    assert lost == []
