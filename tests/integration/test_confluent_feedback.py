"""A confluent producer that hears sooner than metadata tells, and sends again what is stuck."""

import gc
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from attrs import define, field
from confluent_kafka import KafkaError

from kafka_partition_events import (
    BrokerCleared,
    BrokerSuspected,
    Event,
    RecordsRescued,
)
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.clients.flight.rescue import (
    ID_HEADER,
)
from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.metadata.events import Clearance, Suspicion
from kafka_partition_events.testing import KafkaCluster, RecordingListener
from tests.stored_kit import stored

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
RATE = 1000.0
SEEN_S = 0.25
"""By then nobody chooses by a table from before a suspicion."""
VICTIM = 2
LED = frozenset({1, 4})
"""The partitions that the victim leads."""

MakeProducer = Callable[..., tuple[PartitioningProducer, RecordingListener]]


@pytest.fixture
def make(cluster: KafkaCluster) -> Iterator[MakeProducer]:
    made: list[PartitioningProducer] = []

    def make(rescue: Any = None, **config: Any) -> tuple[PartitioningProducer, RecordingListener]:
        full = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "linger.ms": 5,
            "message.timeout.ms": 3000,
            "log_level": 0,
            **config,
        }
        producer, heard = PartitioningProducer(full, rescue=rescue), RecordingListener()
        producer.poller.register(heard)
        made.append(producer)
        return producer, heard

    yield make
    for producer in made:
        producer.close()


@define
class Outcomes:
    """What the application heard of each record."""

    sent_at: list[float] = field(factory=list)
    reports: Counter[int] = field(factory=Counter)
    failed: list[int] = field(factory=list)
    partitions: Counter[int] = field(factory=Counter)
    heard_at: dict[int, float] = field(factory=dict)

    @property
    def sent(self) -> int:
        return len(self.sent_at)

    def callback(self, number: int) -> Callable[..., None]:
        def note(error: KafkaError | None, message: Any) -> None:
            self.reports[number] += 1
            self.heard_at[number] = time.monotonic()
            if error is not None:
                self.failed.append(number)
            else:
                self.partitions[message.partition()] += 1

        return note


def write(
    producer: PartitioningProducer, topic: str, outcomes: Outcomes, seconds: float, *, poll: bool = True
) -> int:
    """Send at `RATE`; return how many records have been sent so far in all."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        number = outcomes.sent
        producer.produce(topic, f"record {number}".encode(), on_delivery=outcomes.callback(number))
        outcomes.sent_at.append(now)
        while poll and time.monotonic() < now + 1 / RATE:
            producer.poll(0.0005)
    return outcomes.sent


def warm_up(producer: PartitioningProducer, topic: str) -> int:
    """Let the table and the usual time to answer become known; return how many records were sent.

    On a busy machine somebody may be avoided for a moment, who would then not be hit by what a test does.
    """
    outcomes, deadline = Outcomes(), time.monotonic() + LIMIT_S
    write(producer, topic, outcomes, 0.5)
    while producer.stats.deliveries.suspects:
        write(producer, topic, outcomes, 0.1)
        assert time.monotonic() < deadline
    assert producer.flush(LIMIT_S) == 0
    return outcomes.sent


def write_until_suspected(producer: PartitioningProducer, topic: str, heard: RecordingListener) -> None:
    """Send until the victim is suspected: a quarter of a second, and some where the machine is busy."""
    deadline = time.monotonic() + LIMIT_S
    while not any(event.broker == VICTIM for event in heard.of(BrokerSuspected)):
        write(producer, topic, Outcomes(), 0.1)
        assert time.monotonic() < deadline


def suspicion_of_the_victim(heard: RecordingListener) -> BrokerSuspected:
    # A busy machine may make another broker look silent for a moment, which is another matter.
    return next(event for event in heard.of(BrokerSuspected) if event.broker == VICTIM)


def copies_told(events: Sequence[Event]) -> int:
    return sum(event.copies for event in events if isinstance(event, RecordsRescued))


def test_a_frozen_broker_is_left_out_and_welcomed_back(
    cluster: KafkaCluster, topic: str, make: MakeProducer
) -> None:
    producer, heard = make(**{"message.timeout.ms": 20_000})
    warm_up(producer, topic)
    cluster.freeze(VICTIM)
    try:
        write_until_suspected(producer, topic, heard)
        outcomes = Outcomes()
        write(producer, topic, outcomes, 0.5)
        suspected = suspicion_of_the_victim(heard)
        assert suspected.reason is Suspicion.SILENT
        assert suspected.outstanding >= 1
        assert suspected.usual_ms is not None
        # Patience has an upper bound: a starved machine may usually answer later than that.
        assert suspected.silence_ms > min(suspected.usual_ms, DetectorPolicy().longest_stall * 1000)
        assert not LED & outcomes.partitions.keys()
        assert producer.stats.avoided > 0
    finally:
        cluster.thaw(VICTIM)
    deadline = time.monotonic() + LIMIT_S
    while not any(event.broker == VICTIM and event.probes for event in heard.of(BrokerCleared)):
        write(producer, topic, Outcomes(), 0.2)
        assert time.monotonic() < deadline
    cleared = next(event for event in heard.of(BrokerCleared) if event.broker == VICTIM and event.probes)
    assert cleared.reason is Clearance.ANSWERED
    outcomes = Outcomes()
    while not outcomes.partitions.keys() >= LED:
        write(producer, topic, outcomes, 0.2)
        assert time.monotonic() < deadline


def test_an_application_that_does_not_poll_suspects_nobody(topic: str, make: MakeProducer) -> None:
    producer, heard = make()
    warm_up(producer, topic)
    began = time.monotonic()  # before, where the machine is busy, a broker may really have been silent
    for _ in range(3):
        write(producer, topic, Outcomes(), 0.3, poll=False)
        time.sleep(0.3)
        producer.poll(0)
        producer.poll(0)
    ended = time.monotonic()
    producer.flush(LIMIT_S)
    assert not [event for event in heard.of(BrokerSuspected) if began <= event.observed_at <= ended]


def test_the_callbacks_of_the_application_are_called_as_without_us(
    cluster: KafkaCluster, topic: str, make: MakeProducer
) -> None:
    by_default: list[Any] = []
    errors: list[KafkaError] = []
    producer, _heard = make(on_delivery=lambda *report: by_default.append(report), error_cb=errors.append)
    warm_up(producer, topic)
    own: list[Any] = []
    by_default.clear()
    for number in range(50):
        producer.produce(topic, b"%d" % number)
        producer.produce(topic, b"%d" % number, callback=lambda *report: own.append(report))
        producer.produce(topic, b"%d" % number, b"key")
        producer.poll(0.002)
    messages = [{"value": b"batch"} for _ in range(10)]
    assert producer.produce_batch(topic, messages) == 10
    assert messages == [{"value": b"batch"} for _ in range(10)]
    assert producer.flush(LIMIT_S) == 0
    assert {message.value() for error, message in own if error is None} == {b"%d" % n for n in range(50)}
    assert len(own) == 50
    assert Counter(message.value() for _error, message in by_default) == {
        **{b"%d" % n: 2 for n in range(50)},
        b"batch": 10,
    }

    def refuse(_error: object, _message: object) -> None:
        raise RuntimeError("the application's own")

    producer.produce(topic, b"raises", on_delivery=refuse)
    with pytest.raises(RuntimeError, match="the application's own"):
        producer.flush(LIMIT_S)
    cluster.kill(VICTIM)
    try:
        deadline = time.monotonic() + LIMIT_S
        while not errors and time.monotonic() < deadline:
            producer.produce(topic, b"v")
            producer.poll(0.01)
        assert errors[0].code() == KafkaError._TRANSPORT
    finally:
        cluster.restart(VICTIM)


def test_a_producer_with_records_on_the_way_can_be_collected(cluster: KafkaCluster, topic: str) -> None:
    producer = PartitioningProducer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    warm_up(producer, topic)
    for _ in range(10):
        producer.produce(topic, b"v", on_delivery=print)
    gone = weakref.ref(producer)
    del producer
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("rescue", ["failed", "hedge"])
def test_a_rescue_loses_nothing_when_a_broker_is_killed(
    rescue: str, cluster: KafkaCluster, topic: str, make: MakeProducer
) -> None:
    producer, heard = make(rescue, **{"message.timeout.ms": 2000})
    warm = warm_up(producer, topic)
    outcomes = Outcomes()
    write(producer, topic, outcomes, 0.3)
    cluster.kill(VICTIM)
    try:
        sent = write(producer, topic, outcomes, 2.0)
        assert producer.flush(LIMIT_S) == 0
        assert len(producer) == 0
        stats = producer.stats.rescue
    finally:
        cluster.restart(VICTIM)
    assert outcomes.failed == []
    assert set(outcomes.reports) == set(range(sent))
    assert set(outcomes.reports.values()) == {1}
    assert stats.copies >= stats.saved > 0
    assert stats.unheld == stats.held_bytes == 0
    heard.wait_for(lambda events: copies_told(events) == stats.copies, LIMIT_S)
    records: list[Any] = stored(cluster.bootstrap_servers, topic)
    ids = {dict(record.headers())[ID_HEADER] for record in records}
    assert len(ids) == sent + warm  # every record once, whatever was sent twice
    assert len(records) - len(ids) <= stats.copies


def test_a_batch_is_rescued_too(cluster: KafkaCluster, topic: str, make: MakeProducer) -> None:
    producer, _heard = make("hedge")
    warm_up(producer, topic)
    messages: list[dict[str, Any]] = [{"value": b"v"}, {"value": b"v", "key": b"k"}]
    assert producer.produce_batch(topic, messages) == 2
    assert producer.flush(LIMIT_S) == 0
    last = [record for record in stored(cluster.bootstrap_servers, topic) if record.value() == b"v"]
    assert [bool(record.headers()) for record in sorted(last, key=lambda r: r.key() or b"")] == [True, False]
