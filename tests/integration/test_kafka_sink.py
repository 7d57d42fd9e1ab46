"""The sink that writes an outbox's entries to Kafka, on a real cluster."""

import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from attrs import evolve
from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.cloudevents import to_entry
from kafka_partition_events.listeners import CloudEventsListener, KafkaSink
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.outbox import DeliveryError, Entry
from kafka_partition_events.testing import KafkaCluster, ManualClock
from kafka_partition_events.testing.plugin import MakeTopic
from kafka_partition_events.testing.ports import HOST, free_ports
from tests.every_event import EVERY_EVENT, SEEN
from tests.sick_broker_kit import read_back

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0
NOTHING_S = 1.5

MakeSink = Callable[..., KafkaSink]


class Entries(CloudEventsListener):
    """Keeps the entries of what it hears."""

    def __init__(self) -> None:
        super().__init__(observer="a", clock=ManualClock(wall=SEEN))
        self.made: list[Entry] = []

    def on_cloudevent(self, event: Event, cloudevent: CloudEvent) -> None:
        self.made.append(to_entry(event, cloudevent))


@pytest.fixture(scope="module")
def entries() -> Sequence[Entry]:
    listener = Entries()
    for event in EVERY_EVENT:
        event.deliver(listener)
    return listener.made


@pytest.fixture
def topic(kafka_topic: MakeTopic) -> str:
    return kafka_topic(3, 3)


@pytest.fixture
def small(kafka_topic: MakeTopic) -> str:
    """One that takes no more than 2 kB at once."""
    return kafka_topic(3, 3, {"max.message.bytes": "2000"})


@pytest.fixture
def make(cluster: KafkaCluster) -> Iterator[MakeSink]:
    made: list[KafkaSink] = []

    def make(topic: str, **settings: object) -> KafkaSink:
        config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **settings}
        made.append(KafkaSink(config, topic, timeout=LIMIT_S))
        return made[-1]

    yield make
    for sink in made:
        sink.close()


def values(cluster: KafkaCluster, topic: str) -> list[bytes | None]:
    return [message.value() for message in read_back(cluster, topic)]


def of_one_key(entries: Sequence[Entry], count: int) -> list[Entry]:
    return [evolve(entries[0], id=str(n), body=b'{"id": "%d"}' % n) for n in range(count)]


def test_the_records_are_those_of_the_events(
    cluster: KafkaCluster, make: MakeSink, topic: str, entries: Sequence[Entry]
) -> None:
    make(topic).deliver(entries)
    written = [(it.key(), it.value(), it.headers()) for it in read_back(cluster, topic)]
    headers = [("content-type", b"application/cloudevents+json")]
    assert sorted(written) == sorted((entry.key.encode(), entry.body, headers) for entry in entries)


def test_all_of_a_batch_is_there_when_it_returns_and_each_key_is_in_order(
    cluster: KafkaCluster, make: MakeSink, topic: str, entries: Sequence[Entry]
) -> None:
    sink, wanted = make(topic), of_one_key(entries, 1_200)
    for first in range(0, len(wanted), sink.batch):
        sink.deliver(wanted[first : first + sink.batch])
        assert len(values(cluster, topic)) == min(len(wanted), first + sink.batch)
    assert values(cluster, topic) == [entry.body for entry in wanted]


def test_an_entry_too_large_for_the_client_is_refused_and_those_before_it_are_delivered(
    cluster: KafkaCluster, make: MakeSink, topic: str, entries: Sequence[Entry]
) -> None:
    one, two, three = of_one_key(entries, 3)
    sink = make(topic)
    with pytest.raises(DeliveryError) as refused:
        sink.deliver([one, evolve(two, body=b"x" * 2_000_000), three])
    assert (refused.value.refused, refused.value.delivered) == (True, 1)
    assert refused.value.reason == "msg_size_too_large"
    sink.deliver([three])
    assert values(cluster, topic) == [one.body, three.body]


def test_of_a_batch_that_the_topic_refuses_only_the_entry_that_is_too_large_is_refused(
    cluster: KafkaCluster, make: MakeSink, small: str, entries: Sequence[Entry]
) -> None:
    one, two, three = of_one_key(entries, 3)
    sink = make(small)
    with pytest.raises(DeliveryError) as refused:
        sink.deliver([one, evolve(two, body=b"x" * 10_000), three])
    assert (refused.value.refused, refused.value.delivered) == (True, 1)
    sink.deliver([three])
    assert [body for body in values(cluster, small) if body in {one.body, three.body}][-1] == three.body
    assert one.body in values(cluster, small)


def test_entries_that_are_too_large_together_only_are_all_delivered(
    cluster: KafkaCluster, make: MakeSink, small: str, entries: Sequence[Entry]
) -> None:
    wanted = of_one_key(entries, 100)
    make(small, **{"linger.ms": 20}).deliver(wanted)
    assert values(cluster, small) == [entry.body for entry in wanted]


def test_brokers_that_cannot_be_reached_are_no_refusal_and_the_time_limit_holds(
    entries: Sequence[Entry],
) -> None:
    (port,) = free_ports(1)
    sink = KafkaSink({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0}, timeout=1.0)
    began = time.monotonic()
    with pytest.raises(DeliveryError) as failed:
        sink.deliver(entries)
    assert time.monotonic() - began < LIMIT_S
    assert (failed.value.refused, failed.value.delivered, failed.value.reason) == (False, 0, "timed_out")
    sink.close()


def test_after_an_outage_the_same_entries_are_delivered_and_nothing_that_was_given_up_comes_late(
    cluster: KafkaCluster, make: MakeSink, topic: str, entries: Sequence[Entry]
) -> None:
    first, second = of_one_key(entries, 20)[:10], of_one_key(entries, 20)[10:]
    sink = make(topic)
    sink.deliver(first)
    sink._timeout = NOTHING_S
    for broker in cluster.brokers:
        cluster.freeze(broker)
    try:
        for _ in range(2):
            with pytest.raises(DeliveryError) as failed:
                sink.deliver(second)
    finally:
        for broker in cluster.brokers:
            cluster.thaw(broker)
    assert (failed.value.refused, failed.value.delivered) == (False, 0)
    sink._timeout = LIMIT_S
    sink.deliver(second)
    sink.deliver(of_one_key(entries, 21)[20:])
    written = values(cluster, topic)
    assert [body for n, body in enumerate(written) if body not in written[:n]] == [
        entry.body for entry in of_one_key(entries, 21)
    ]
    assert len(written) <= 31  # what was on its way at first may have arrived, and comes again
    assert written[-1] == b'{"id": "20"}'


def test_a_queue_that_is_full_takes_a_part_now_and_the_rest_later(
    cluster: KafkaCluster, make: MakeSink, topic: str, entries: Sequence[Entry]
) -> None:
    sink, wanted = make(topic, **{"queue.buffering.max.messages": 4}), of_one_key(entries, 10)
    with pytest.raises(DeliveryError) as failed:
        sink.deliver(wanted)
    assert (failed.value.refused, failed.value.delivered, failed.value.reason) == (False, 4, "queue_full")
    assert values(cluster, topic) == [entry.body for entry in wanted[:4]]


@pytest.mark.parametrize("arguments", [{"topic": ""}, {"batch": 0}, {"timeout": 0}])
def test_wrong_arguments_are_refused_at_construction(arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(arguments))):
        KafkaSink({"bootstrap.servers": "127.0.0.1:1"}, **arguments)  # type: ignore[arg-type]
