"""A producer of kafka-python that hears sooner than metadata tells, and sends again what is stuck."""

import gc
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import define, field
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.producer.future import FutureRecordMetadata

from kafka_partition_events import (
    AdaptivePartitioner,
    BrokerCleared,
    BrokerSuspected,
    MetadataPoller,
    PartitionOffline,
    RecordsRescued,
)
from kafka_partition_events.clients.flight.rescue import (
    ID_HEADER,
    RescueLimits,
)
from kafka_partition_events.clients.kafka_python import attach, rescue_stats
from kafka_partition_events.testing import KafkaCluster, RecordingListener

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
RATE = 500.0
SEEN_S = 0.25
"""By then nobody chooses by a table from before a suspicion."""
VICTIM = 2
LED = frozenset({1, 4})
"""The partitions that the victim leads."""


@define
class Attached:
    producer: Any
    poller: MetadataPoller
    heard: RecordingListener


Make = Callable[..., Attached]


def new_producer(cluster: KafkaCluster, **config: Any) -> Any:
    full = {
        "bootstrap_servers": cluster.bootstrap_servers.split(","),
        "partitioner": AdaptivePartitioner(),
        "enable_idempotence": False,
        "linger_ms": 5,
        "request_timeout_ms": 1000,
        "delivery_timeout_ms": 3000,
        **config,
    }
    return KafkaProducer(**full)


@pytest.fixture
def make(cluster: KafkaCluster, topic: str) -> Iterator[Make]:
    """Make producers that are attached and warm: the usual time to answer is known."""
    made: list[Any] = []

    def make(rescue: Any = None, rescue_limits: RescueLimits | None = None, **config: Any) -> Attached:
        producer, heard = new_producer(cluster, **config), RecordingListener()
        made.append(producer)
        producer.partitions_for(topic)
        poller = attach(producer, rescue, rescue_limits)
        poller.register(heard)
        assert poller.refresh("test", wait=LIMIT_S)
        write(producer, topic, Outcomes(), 0.5)
        producer.flush(LIMIT_S)
        return Attached(producer, poller, heard)

    yield make
    while made:
        made.pop().close(timeout=LIMIT_S)
    gc.collect()  # of the sockets, while their warning is filtered


@define
class Outcomes:
    """What the application heard of each record."""

    sent_at: list[float] = field(factory=list)
    heard: Counter[int] = field(factory=Counter)
    errors: dict[int, Exception] = field(factory=dict)
    partitions: Counter[int] = field(factory=Counter)
    threads: set[str] = field(factory=set)

    @property
    def sent(self) -> int:
        return len(self.sent_at)

    def follow(self, future: Any) -> None:
        number = self.sent
        self.sent_at.append(time.monotonic())

        def delivered(metadata: Any) -> None:
            self.heard[number] += 1
            self.partitions[metadata.partition] += 1
            self.threads.add(threading.current_thread().name)

        def failed(error: Exception) -> None:
            self.heard[number] += 1
            self.errors[number] = error

        future.add_callback(delivered)
        future.add_errback(failed)


def write(producer: Any, topic: str, outcomes: Outcomes, seconds: float) -> None:
    """Send at `RATE`."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        outcomes.follow(producer.send(topic, f"record {outcomes.sent}".encode()))
        time.sleep(max(0.0, now + 1 / RATE - time.monotonic()))


def read_back(cluster: KafkaCluster, topic: str) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers.split(","))
    partitions = [TopicPartition(topic, partition) for partition in range(6)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    found: list[Any] = []
    deadline = time.monotonic() + LIMIT_S
    while len(found) < sum(ends.values()) and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            found += records
    consumer.close()
    assert len(found) == sum(ends.values())
    return found


def share_failed_after(suspicion: BrokerSuspected, outcomes: Outcomes) -> float:
    """What failed of the records sent when it was known: how long that takes is the machine's matter."""
    after = [at > suspicion.observed_at + SEEN_S for at in outcomes.sent_at]
    return sum(after[number] for number in outcomes.errors) / sum(after)


def of_the_victim(events: list[Any]) -> list[Any]:
    # A busy machine may make another broker look silent for a moment, which is another matter.
    return [event for event in events if event.broker == VICTIM]


# -- feedback ----------------------------------------------------------------------------------------


def test_a_killed_broker_is_suspected_before_metadata_knows(
    cluster: KafkaCluster, topic: str, make: Make
) -> None:
    ours, outcomes = make(), Outcomes()
    write(ours.producer, topic, outcomes, 0.3)
    killed = time.monotonic()
    cluster.kill(VICTIM)
    try:
        write(ours.producer, topic, outcomes, 3.0)
        suspicion = next(e for e in of_the_victim(ours.heard.of(BrokerSuspected)) if e.observed_at >= killed)
        assert suspicion.observed_at - killed < 1.0
        assert not ours.heard.of(PartitionOffline)  # the cluster still names it as a leader
        ours.producer.flush(LIMIT_S)
    finally:
        cluster.restart(VICTIM)
    assert set(outcomes.heard.values()) == {1}
    assert len(outcomes.heard) == outcomes.sent
    assert share_failed_after(suspicion, outcomes) < 0.05  # a third of them without feedback


def test_a_frozen_broker_is_left_out_and_welcomed_back(cluster: KafkaCluster, topic: str, make: Make) -> None:
    ours = make(request_timeout_ms=20_000, delivery_timeout_ms=30_000)
    cluster.freeze(VICTIM)
    try:
        write(ours.producer, topic, Outcomes(), 0.4)
        outcomes = Outcomes()
        write(ours.producer, topic, outcomes, 0.5)
        assert of_the_victim(ours.heard.of(BrokerSuspected))
        assert not LED & outcomes.partitions.keys()
    finally:
        cluster.thaw(VICTIM)
    deadline = time.monotonic() + LIMIT_S
    while not outcomes.partitions.keys() >= LED or not of_the_victim(ours.heard.of(BrokerCleared)):
        write(ours.producer, topic, outcomes, 0.2)
        assert time.monotonic() < deadline
    ours.producer.flush(LIMIT_S)
    assert not outcomes.errors


def test_futures_callbacks_threads_and_errors_are_the_applications_own(topic: str, make: Make) -> None:
    ours, outcomes = make(), Outcomes()
    futures = [ours.producer.send(topic, b"v", key) for key in (None, b"k") for _ in range(100)]
    futures += [ours.producer.send(topic, b"v", partition=3) for _ in range(100)]
    for future in futures:
        assert type(future) is FutureRecordMetadata
        outcomes.follow(future)
        future.add_callback(lambda _metadata: 1 / 0)  # kafka-python logs it, and goes on
    assert all(future.get(LIMIT_S).topic == topic for future in futures)
    assert outcomes.heard == dict.fromkeys(range(300), 1)
    assert outcomes.threads <= {ours.producer._sender.name, threading.current_thread().name}
    with pytest.raises(TypeError, match="Unsupported type for serialized value"):
        ours.producer.send(topic, "text")
    with pytest.raises(ValueError, match="Unrecognized partition"):
        ours.producer.send(topic, b"v", partition=77)
    deliveries = ours.producer.config["partitioner"].deliveries
    assert not any(deliveries.stats.outstanding.values())


def test_closing_the_poller_gives_the_producer_back(topic: str, make: Make) -> None:
    ours = make()
    ours.poller.close()
    assert type(ours.producer) is KafkaProducer
    ours.producer.send(topic, b"v").get(LIMIT_S)
    attach(ours.producer).refresh("test", wait=LIMIT_S)
    ours.producer.send(topic, b"v").get(LIMIT_S)


@pytest.mark.parametrize("rescue", [None, "failed", "hedge"])
def test_a_producer_that_is_dropped_sends_what_it_has_and_ends(
    rescue: Any, cluster: KafkaCluster, topic: str
) -> None:
    producer = new_producer(cluster, linger_ms=200)
    attach(producer, rescue)
    futures = [producer.send(topic, b"v") for _ in range(10)]
    gone = weakref.ref(producer)
    gc.disable()
    try:
        del producer
        deadline = time.monotonic() + LIMIT_S
        while gone() is not None and time.monotonic() < deadline:  # our thread may be looking at it just now
            time.sleep(0.01)
        assert gone() is None
    finally:
        gc.enable()
    assert all(future.succeeded() for future in futures)


# -- rescue ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("rescue", ["failed", "hedge"])
def test_a_rescue_loses_nothing_when_a_broker_is_killed(
    rescue: str, idempotent: bool, cluster: KafkaCluster, topic: str, make: Make
) -> None:
    ours = make(rescue, delivery_timeout_ms=2000, enable_idempotence=idempotent)
    outcomes = Outcomes()
    warm = len(read_back(cluster, topic))
    write(ours.producer, topic, outcomes, 0.3)
    cluster.freeze(VICTIM)  # so that something is on its way when it dies
    write(ours.producer, topic, outcomes, 0.3)
    cluster.kill(VICTIM)
    try:
        write(ours.producer, topic, outcomes, 1.5)
        ours.producer.flush(LIMIT_S)
        assert len(outcomes.heard) == outcomes.sent
    finally:
        cluster.restart(VICTIM)
    assert outcomes.errors == {}
    assert set(outcomes.heard.values()) == {1}
    stats = rescue_stats(ours.producer)
    assert stats.copies >= stats.saved > 0
    assert stats.unheld == stats.withheld == stats.held_bytes == 0
    ours.heard.wait_for(
        lambda events: sum(e.copies for e in events if isinstance(e, RecordsRescued)) >= stats.copies, LIMIT_S
    )
    records = read_back(cluster, topic)
    ids = {dict(record.headers)[ID_HEADER] for record in records}
    assert len(ids) >= outcomes.sent
    assert len(records) - len(ids) <= stats.copies
    assert warm > 0
