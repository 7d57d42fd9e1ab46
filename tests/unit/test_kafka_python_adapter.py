"""What becomes of the records of a kafka-python producer that is attached, without a broker."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field
from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NotEnoughReplicasError,
    RequestTimedOutError,
)
from kafka.structs import TopicPartition

from kafka_partition_events import ConfigurationError, DefaultPartitioner
from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.clients.flight.rescue import ID_HEADER, RescueMode, RescueStats
from kafka_partition_events.clients.kafka_python import attach
from kafka_partition_events.clients.kafka_python.adapter import KafkaPythonAdapter
from kafka_partition_events.clients.kafka_python.second import Second
from kafka_partition_events.testing.scripted import cluster_of
from tests.unit.kafka_python_kit import FakeProducer, Sent
from tests.unit.keyed_rig import a_poller

CLUSTER = cluster_of({"t": [1, 2, 3], "u": [1, 2, 3]}, brokers=[1, 2, 3])


@define
class Way:
    """A detour that is open if the test says so."""

    open: Any = None
    is_coming: bool = False
    ended: int = 0

    def handle(self) -> Any:
        return self.open

    def close(self, _timeout: float | None) -> None:
        self.ended += 1


class Still(KafkaPythonAdapter):
    """One whose engine is served only where the test says so."""

    def _see_to(self) -> None:
        pass


@define
class Rig:
    partitioner: Any
    producer: Any
    adapter: KafkaPythonAdapter
    flight: Flight
    way: Way
    closed: list[bool] = field(factory=list)

    @property
    def outstanding(self) -> int:
        return sum(self.partitioner.deliveries.stats.outstanding.values())

    def last(self) -> Sent:
        sent: Sent = self.producer.sent[-1]
        return sent

    def detoured(self, monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
        """Let records that need no suspect take a second producer; return it."""
        monkeypatch.setattr("kafka_partition_events.clients.kafka_python.second.KafkaProducer", FakeProducer)
        monkeypatch.setattr("kafka_partition_events.clients.kafka_python.second.keep_sending", print)
        always = property(lambda _: 1, lambda *_: None)
        monkeypatch.setattr(type(self.partitioner.deliveries), "handle", always, raising=False)
        self.partitioner.deliveries.serve(standbys=1)
        self.way.open = Second({"partitioner": None})
        return FakeProducer.made[-1]


Make = Callable[..., Rig]


@pytest.fixture
def make() -> Make:
    def make(rescue: RescueMode | None = None, *, partitioner: Any = None, **config: Any) -> Rig:
        partitioner = partitioner or DefaultPartitioner()
        partitioner.apply_snapshot(CLUSTER)
        producer, way, closed = FakeProducer(partitioner=partitioner, **config), Way(), []
        adapter = Still(producer, partitioner, way)  # type: ignore[arg-type]
        flight = adapter.flight = Flight(
            partitioner, adapter, ProducerReports(partitioner), rescue, clock=lambda: 0.0
        )
        adapter.take_part(producer, lambda: closed.append(True))
        return Rig(partitioner, producer, adapter, flight, way, closed)

    return make


# -- the producer that the application has -------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "options", "why"),
    [
        ({"partitioner": print}, {}, "partitioner must be an object of this library"),
        ({"acks": 0}, {"rescue": "hedge"}, "acks=0"),
        ({"transactional_id": "t"}, {"keys": "move"}, "transactional_id"),
    ],
)
def test_what_can_not_be_is_refused(config: dict[str, Any], options: dict[str, Any], why: str) -> None:
    producer: Any = FakeProducer(**{"partitioner": DefaultPartitioner(), **config})
    with pytest.raises(ConfigurationError, match=why):
        attach(producer, poller=a_poller(), **options)
    assert type(producer) is FakeProducer


def test_closing_closes_both_and_says_so_whatever_raises(make: Make) -> None:
    rig = make()
    rig.producer.raises = OSError("no time")
    with pytest.raises(OSError, match="no time"):
        rig.producer.close(timeout=0)
    assert rig.closed == [True]
    assert rig.way.ended == 1


# -- what the failure detector learns ------------------------------------------------------------------


def test_a_record_is_in_flight_until_it_is_answered(make: Make) -> None:
    rig = make()
    future = rig.producer.send("t", b"v", b"k")
    assert future is rig.last().future, "the application has kafka-python's own"
    assert rig.outstanding == 1
    rig.last().arrive()
    assert rig.outstanding == 0


@pytest.mark.parametrize(
    ("error", "answers", "again"),
    [
        (NotEnoughReplicasError(), True, True),
        (RequestTimedOutError(), False, True),
        (KafkaTimeoutError(), False, True),
        (KafkaConnectionError(), False, True),
        (ValueError("never"), False, False),
    ],
)
def test_an_error_of_the_broker_is_an_answer_and_what_may_pass_gets_a_copy(
    make: Make, error: Exception, answers: bool, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[bool] = []
    monkeypatch.setattr(ProducerReports, "answered", lambda *_: said.append(True))
    monkeypatch.setattr(ProducerReports, "failed", lambda *_: said.append(False))
    rig = make("failed")
    future = rig.producer.send("t", b"v")
    rig.last().fail(error)
    rig.flight.served()
    assert said == [answers]
    assert (len(rig.producer.sent), future.is_done) == (1 + again, not again)


def test_what_is_not_placed_by_the_partitioner_is_not_tracked(make: Make) -> None:
    rig = make()
    rig.producer.send("t", b"v", partition=1)
    rig.producer.send("unknown", b"v")
    with pytest.raises(TypeError):
        rig.producer.send("t", b"v", headers={"a": b"b"})
    rig.producer.raises = ValueError("refused")
    with pytest.raises(ValueError, match="refused"):
        rig.producer.send("t", b"v")
    assert rig.outstanding == 0


# -- copies --------------------------------------------------------------------------------------------


def test_a_record_that_times_out_is_sent_again(make: Make) -> None:
    rig = make("failed")
    future = rig.producer.send("t", b"v", headers=[("own", b"1")], timestamp_ms=7)
    original = rig.last()
    original.fail(KafkaTimeoutError())
    rig.flight.served()
    copy = rig.last()
    assert copy.partition != original.partition, "although the turn is not over"
    assert (copy.value, copy.timestamp_ms) == (b"v", 7) == (original.value, original.timestamp_ms)
    assert original.headers[:-1] == [("own", b"1")]
    assert original.headers[-1][0] == ID_HEADER
    assert copy.headers == original.headers
    assert not future.is_done
    copy.arrive()
    assert future.get(0)[2:4] == (TopicPartition("t", copy.partition), 100)
    assert rig.flight.copies.stats == RescueStats(copies=1, saved=1)
    assert rig.outstanding == 0


def test_a_header_of_ours_never_makes_a_record_too_large(make: Make) -> None:
    rig = make("failed")
    future = rig.producer.send("t", b"v")
    rig.last().fail(MessageSizeTooLargeError())
    rig.flight.served()
    assert rig.last().headers == []
    rig.last().arrive()
    assert future.succeeded()


def test_a_copy_waits_while_a_second_producer_is_made(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make("hedge")
    rig.producer.send("t", b"v")
    stuck = {(0, "t", rig.last().partition): 1}
    monkeypatch.setattr(ProducerReports, "stuck", lambda _reports: stuck)
    monkeypatch.setattr(rig.partitioner.deliveries, "handle", 1)
    for rig.way.is_coming in (True, False):
        rig.flight._next_search = 0.0
        rig.flight.served()
        assert len(rig.producer.sent) == (1 if rig.way.is_coming else 2)


def test_flush_sends_copies_and_waits_for_them(make: Make) -> None:
    rig = make("failed")
    future = rig.producer.send("t", b"v")
    with pytest.raises(KafkaTimeoutError, match="still being rescued"):
        rig.producer.flush(0.0)
    rig.last().fail(KafkaTimeoutError())
    rig.producer.raises, error = ValueError("closed"), KafkaTimeoutError("the record's own")
    rig.producer.flush(1.0)
    assert isinstance(future.exception, KafkaTimeoutError)
    rig.producer.raises = None
    future = rig.producer.send("t", b"v")
    rig.last().fail(error)
    rig.flight.served()
    rig.last().arrive()
    rig.producer.flush(1.0)
    assert future.succeeded()


# -- the second producer -------------------------------------------------------------------------------


def test_what_needs_no_suspect_takes_the_second_producer_and_nothing_else(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make()
    second = rig.detoured(monkeypatch)
    future = rig.producer.send("t", bytearray(b"free"), timestamp_ms=5)
    rig.producer.send("t", b"keyed", b"k")
    rig.producer.send("t", b"placed", partition=1)
    assert [sent.value for sent in second.sent] == [b"free"]
    assert type(second.sent[0].value) is bytes
    assert second.sent[0].timestamp_ms == 5
    assert [sent.value for sent in rig.producer.sent] == [b"keyed", b"placed"]
    assert future is second.sent[0].future
    assert len(rig.way.open) == 1
    second.sent[0].arrive()
    assert len(rig.way.open) == 0
    rig.producer.flush(1.0)
    assert second.flushed == rig.producer.flushed == 1


def test_what_the_second_one_refuses_goes_by_the_first(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make()
    second = rig.detoured(monkeypatch)
    for error in (ValueError("Unrecognized partition"), KafkaTimeoutError()):
        second.raises = error
        rig.producer.send("t", b"v")
    assert (len(rig.producer.sent), len(second.sent)) == (2, 0)
    assert rig.way.open is not None


def test_turns_end_by_the_second_producer_as_batches_do(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make(batch_size=1_000)
    second = rig.detoured(monkeypatch)
    for _ in range(30):
        rig.producer.send("t", b"v" * 500)
    placed = [sent.partition for sent in second.sent]
    assert placed[::2] == placed[1::2]
    assert all(a != b for a, b in zip(placed[::2], placed[2::2], strict=False))
