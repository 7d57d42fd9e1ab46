"""What kafka-python's rescue sends again, and what it refuses, without a broker."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import define
from kafka.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NotEnoughReplicasError,
)
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.structs import TopicPartition

from kafka_partition_events import ConfigurationError, DefaultPartitioner
from kafka_partition_events.clients.kafka_python.deliveries import Reports
from kafka_partition_events.clients.kafka_python.rescue import (
    Rescue,
    Serialized,
    SerializedOnce,
    refuse_with,
    rescue_stats,
)
from kafka_partition_events.clients.kafka_python.sending import Sending
from kafka_partition_events.clients.rescue import (
    ATTEMPT_HEADER,
    ID_HEADER,
    PARTITION_HEADER,
    RescueLimits,
    RescueStats,
)
from kafka_partition_events.testing.scripted import cluster_of
from tests.waiting_kit import waiting

LIMIT_S = 10.0
wait_until = waiting(LIMIT_S, 0.005)

# -- serializers -------------------------------------------------------------------------------------


class Json:
    def __init__(self) -> None:
        self.calls = 0

    def serialize(self, topic: str, headers: object, value: object) -> bytes:
        self.calls += 1
        return repr(value).encode()

    def close(self) -> str:
        return "closed"


class Old:
    def serialize(self, topic: str, value: object) -> bytes:
        return repr(value).encode()


def test_a_value_is_serialized_once() -> None:
    theirs = Json()
    once = SerializedOnce(theirs)
    value = {"n": 1}
    assert once.serialize("t", [], value) == b"{'n': 1}"
    kept = Serialized(once.latest)
    value["n"] = 2
    assert once.serialize("t", [], kept) == b"{'n': 1}"
    assert theirs.calls == 1
    assert once.close() == "closed"


def test_a_serializer_of_the_old_kind_is_told_by_its_type_error() -> None:
    once = SerializedOnce(Old())
    with pytest.raises(TypeError):
        once.serialize("t", [], 1)
    assert once.serialize("t", 1) == once.latest == b"1"
    assert not hasattr(once, "close")


# -- copies ------------------------------------------------------------------------------------------


@define
class Sent:
    partition: int
    value: Any
    headers: dict[str, bytes]
    timestamp_ms: int | None
    future: Any

    def arrive(self) -> None:
        self.future._produce_future.success((100, None, None))

    def fail(self, error: Exception) -> None:
        self.future._produce_future.success((-1, -1, lambda _index: error))


class FakeProducer:
    """Sends to partition 0 unless it is told where, and lets the test say what becomes of it."""

    def __init__(self, **config: Any) -> None:
        default = {"transactional_id": None, "enable_idempotence": False, "value_serializer": None}
        self.config = {**default, **config}
        self.sent: list[Sent] = []
        self.raises: BaseException | None = None
        self._closed = False
        self._metadata = None

    def send(
        self, topic: str, *, value: Any, headers: Any, timestamp_ms: Any, key: Any = None, partition: Any = 0
    ) -> Any:
        raises, self.raises = self.raises or (IllegalStateError() if self._closed else None), None
        if raises is not None:
            raise raises
        where = FutureProduceResult(TopicPartition(topic, partition or 0))
        future = FutureRecordMetadata(where, 0, timestamp_ms or 1234, None, -1, 1, -1)
        self.sent.append(Sent(partition or 0, value, dict(headers or ()), timestamp_ms, future))
        return future

    def flush(self, timeout: float | None = None) -> None:
        pass

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        self._closed = True


@define
class FakePoller:
    def emit(self, event: Any) -> None:
        pass


Make = Callable[..., Any]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Any] = []

    def make(mode: Any = "failed", **config: Any) -> Any:
        producer: Any = FakeProducer(**config)
        partitioner = DefaultPartitioner()
        partitioner.adopt(cluster_of({"t": [1, 2, 3]}, brokers=[1, 2, 3]))
        reports = Reports(partitioner, FakePoller())  # type: ignore[arg-type]
        sending = Sending(FakeProducer, reports, (), reroutes=False)
        rescue = Rescue(producer, partitioner, reports, sending, mode, RescueLimits())
        sending.install(producer, rescue, lambda: None)
        made.append(producer)
        return producer

    yield make
    for producer in made:
        producer.close()


def copy_of(producer: Any, number: int = 1) -> Any:
    wait_until(lambda: len(producer.sent) > number, "a copy")
    return producer.sent[number]


def test_a_record_that_times_out_is_sent_again_elsewhere(make: Make) -> None:
    producer = make()
    future = producer.send("t", b"v", headers=[("own", b"1")])
    (original,) = producer.sent
    original.fail(KafkaTimeoutError())
    copy = copy_of(producer)
    assert copy.partition != original.partition
    assert (copy.value, copy.timestamp_ms) == (b"v", 1234)
    marked = {"own": b"1", ID_HEADER: original.headers[ID_HEADER]}
    assert original.headers == marked
    assert copy.headers == {**marked, PARTITION_HEADER: b"0", ATTEMPT_HEADER: b"2"}
    assert not future.is_done
    copy.arrive()
    assert future.get(LIMIT_S)[2:4] == (TopicPartition("t", copy.partition), 100)
    assert rescue_stats(producer) == RescueStats(copies=1, saved=1)


def test_keys_and_explicit_partitions_are_not_its_business(make: Make) -> None:
    producer = make()
    producer.send("t", b"v", b"k")
    producer.send("t", b"v", partition=0)
    assert [sent.headers for sent in producer.sent] == [{}, {}]


@pytest.mark.parametrize(
    ("error", "again"),
    [(KafkaTimeoutError(), True), (NotEnoughReplicasError(), True), (MessageSizeTooLargeError(), False)],
)
def test_what_kafka_python_would_try_again_gets_a_copy(make: Make, error: Exception, again: bool) -> None:
    producer = make()
    future = producer.send("t", b"v")
    producer.sent[0].fail(error)
    producer.flush(LIMIT_S) if not again else copy_of(producer)
    assert len(producer.sent) == 1 + again
    assert future.is_done == (not again)


def test_flush_sends_copies_and_waits_for_them(make: Make) -> None:
    producer = make()
    future = producer.send("t", b"v")
    with pytest.raises(KafkaTimeoutError, match="still being rescued"):
        producer.flush(0.0)
    producer.sent[0].fail(KafkaTimeoutError())
    copy_of(producer).fail(KafkaTimeoutError())
    copy_of(producer, 2).arrive()
    producer.flush(LIMIT_S)
    assert future.succeeded()


def test_a_copy_that_cannot_be_sent_leaves_the_outcome_of_the_record(make: Make) -> None:
    producer = make()
    future = producer.send("t", b"v")
    producer.raises, error = ValueError("closed"), KafkaTimeoutError("the record's own")
    producer.sent[0].fail(error)
    producer.flush(LIMIT_S)
    assert future.exception is error


def test_what_is_outstanding_when_the_producer_is_closed_has_its_outcome(make: Make) -> None:
    producer = make("hedge")
    future = producer.send("t", b"v")
    producer.close()
    producer.sent[0].fail(KafkaTimeoutError())
    wait_until(lambda: future.is_done, "an outcome")
    assert isinstance(future.exception, KafkaTimeoutError)


# -- refusals ----------------------------------------------------------------------------------------


def test_what_a_rescue_cannot_keep_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="transactional_id"):
        refuse_with(FakeProducer(transactional_id="t", enable_idempotence=True))
    refuse_with(FakeProducer(enable_idempotence=True))


def test_a_producer_has_one_rescue(make: Make) -> None:
    with pytest.raises(ConfigurationError, match="already"):
        refuse_with(make())


def test_a_producer_without_a_rescue_has_done_nothing() -> None:
    producer = FakeProducer()
    refuse_with(producer)
    assert rescue_stats(producer) == RescueStats()
