"""What becomes of records when an idempotent producer of kafka-python gives its id up, by its own sender.

Only the network is a fake. On real brokers: ``tests/integration/test_feedback.py``.
"""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.errors import KafkaTimeoutError, RequestTimedOutError
from kafka.future import Future
from kafka.producer.transaction_manager import TransactionState
from kafka.protocol.metadata import MetadataResponse
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse, ProduceResponse

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.clients.kafka_python import attach

LIMIT_S = 10.0
DELIVERY_LIMIT_S = 0.4

Topic = ProduceResponse.TopicProduceResponse
Part = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition


def metadata() -> Any:
    """Return an answer that names two brokers, each of which leads one partition."""
    brokers = [MetadataResponse.MetadataResponseBroker(id_, f"b{id_}", 1, None, version=1) for id_ in (1, 2)]
    partitions = [Part(0, number, number + 1, [], [], version=1) for number in (0, 1)]
    topic = MetadataResponse.MetadataResponseTopic(0, "t", False, partitions, version=1)
    return MetadataResponse(brokers, 1, [topic], version=1)


def answered(partition: int) -> Any:
    return Topic.PartitionProduceResponse(index=partition, error_code=0, base_offset=0, log_append_time_ms=-1)


class FakeClient:
    """Two brokers as kafka-python's sender sees them; the one that leads partition 0 takes no records.

    It refuses each batch, and never answers the second time. So each batch expires after it was sent: only
    that costs an id. One whose time is over when a request of its own fails does not.
    """

    broker_version_data = "any"
    broker_version = (4, 0)
    closed = False

    def __init__(self, **config: Any) -> None:
        self._manager = self
        self._conns: dict[int, Any] = {}
        self._timeout_s = config["request_timeout_ms"] / 1000
        self._waiting: list[tuple[float, Any]] = []
        self._woken = threading.Event()
        self.ids = 0
        self.unheard = 0  # requests for an id that are to have no answer
        self.silent: int | None = 1
        self._refused: list[list[bytes]] = []
        self.cluster = ClusterMetadata(bootstrap_servers="a:1")
        self.cluster.update_metadata(metadata())
        self.cluster.request_update = Future

    def send(self, node: int, request: Any, wakeup: bool = True) -> Any:
        asks = isinstance(request, InitProducerIdRequest)
        if asks and not self.unheard:
            self.ids += 1
            said = InitProducerIdResponse(version=1, error_code=0, producer_id=self.ids, producer_epoch=0)
            return Future().success(said)
        future = Future()
        if asks:
            self.unheard -= 1
            self._waiting.append((time.monotonic() + self._timeout_s, future))
            return future
        if node == self.silent:
            sent = [bytes(part.records) for topic in request.topic_data for part in topic.partition_data]
            if sent in self._refused:
                return future
            self._refused.append(sent)
            return future.failure(RequestTimedOutError())
        topics = [
            Topic(
                name=topic.name, partition_responses=[answered(part.index) for part in topic.partition_data]
            )
            for topic in request.topic_data
        ]
        return future.success(ProduceResponse(version=8, responses=topics))

    def poll(self, timeout_ms: float = 0, future: Any = None) -> None:
        self._woken.wait(min(timeout_ms / 1000, 0.01))
        self._woken.clear()
        now = time.monotonic()
        late = [request for request in self._waiting if request[0] <= now]
        self._waiting = [request for request in self._waiting if request[0] > now]
        for _, unanswered in late:
            unanswered.failure(RequestTimedOutError())

    def wakeup(self) -> None:
        self._woken.set()

    def least_loaded_node(self) -> int:
        return 2

    def in_flight_request_count(self) -> int:
        return len(self._waiting)

    def connection_delay(self, node: int) -> float:
        return 0.0

    def is_ready(self, node: int, timeout_ms: float = 0) -> bool:
        return True

    await_ready = is_ready

    def get_connection(self, node: int) -> Any:
        raise AssertionError("the poller never looks in this test")

    def maybe_connect(self, node: int, wakeup: bool = True) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def make() -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(rescue: Any = None, *, attached: bool = True) -> Any:
        producer: Any = KafkaProducer(
            kafka_client=FakeClient,
            partitioner=DefaultPartitioner(),
            enable_idempotence=True,
            request_timeout_ms=50,
            retry_backoff_ms=1,
            delivery_timeout_ms=1000 * DELIVERY_LIMIT_S,
        )
        made.append(producer)
        if attached:
            attach(producer, rescue, standby="off", interval=1e6)
        return producer

    yield make
    for producer in made:
        producer.close(timeout=LIMIT_S)


@pytest.mark.parametrize("attached", [False, True])
def test_a_producer_that_has_given_its_id_up_gets_a_new_one_if_it_is_attached(
    make: Callable[..., Any], attached: bool
) -> None:
    producer = make(attached=attached)
    lost = producer.send("t", b"v", partition=0)
    with pytest.raises(KafkaTimeoutError):
        lost.get(LIMIT_S)
    later = producer.send("t", b"v", partition=1)
    if attached:
        assert later.get(LIMIT_S)
        assert producer._sender._client.ids > 1
    else:  # the day this fails, `keep_sending` is not needed any more
        with pytest.raises(KafkaTimeoutError, match="waiting"):
            later.get(2 * DELIVERY_LIMIT_S)
        producer._sender._client.silent = None
        producer._transaction_manager._current_state = TransactionState.UNINITIALIZED


def test_it_asks_again_where_nobody_answers(make: Callable[..., Any]) -> None:
    producer = make()
    assert producer.send("t", b"v", partition=1).get(LIMIT_S)
    producer._sender._client.unheard = 2
    with pytest.raises(KafkaTimeoutError):
        producer.send("t", b"v", partition=0).get(LIMIT_S)
    assert producer.send("t", b"v", partition=1).get(LIMIT_S)
    assert producer._sender._client.unheard == 0


def test_what_was_about_to_be_sent_when_the_id_was_given_up_is_sent_with_the_new_one(
    make: Callable[..., Any],
) -> None:
    """The sender drains batches, finds another one expired that was sent before, and sends none of them."""
    producer = make()
    accumulator, given_up, retried = producer._accumulator, [], threading.Event()
    drain = accumulator.drain

    def drain_and_expire(*args: Any, **kwargs: Any) -> Any:
        by_node = drain(*args, **kwargs)
        for batch in [batch for batches in by_node.values() for batch in batches]:
            if batch.topic_partition.partition == 0:
                given_up.append(batch)
                if batch.in_retry():
                    retried.set()
            elif not producer._sender._client.ids > 1:
                given_up[0].created -= DELIVERY_LIMIT_S
        return by_node

    accumulator.drain = drain_and_expire
    lost = producer.send("t", b"lost", partition=0)
    assert retried.wait(LIMIT_S)
    later = producer.send("t", b"later", partition=1)
    with pytest.raises(KafkaTimeoutError):
        lost.get(LIMIT_S)
    assert later.get(LIMIT_S).partition == 1
    assert producer._sender._client.ids == 2
