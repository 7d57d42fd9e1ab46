"""`PartitioningProducer` against a real Kafka: where records go, and that nothing else changed."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from kafka_partition_events import (
    GrowthSafePartitioner,
    MetadataPoller,
    Partitioner,
    RoundRobinPartitioner,
    Route,
)
from kafka_partition_events.clients.confluent import ConfluentMetadataSource, PartitioningProducer
from kafka_partition_events.clients.confluent.handle_metadata import HandleMetadata
from kafka_partition_events.routing.hashing import crc32_partition
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.poller_kit import also_ask_for
from tests.sick_broker_kit import read_back

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0

Make = Callable[..., PartitioningProducer]


class Deliveries:
    """What the brokers have acknowledged."""

    def __init__(self) -> None:
        self.partitions: Counter[int] = Counter()
        self.errors: list[str] = []

    def __call__(self, error: Any, message: Any) -> None:
        if error is None:
            self.partitions[message.partition()] += 1
        else:
            self.errors.append(error.name())


@pytest.fixture
def make(kafka_cluster: KafkaCluster) -> Iterator[Make]:
    """Make producers with a quick poller, and close them."""
    made: list[PartitioningProducer] = []

    def make(
        partitioner: Partitioner | str | None = None, poller: MetadataPoller | None = None, **config: Any
    ) -> PartitioningProducer:
        options = None if poller else {"interval": 0.2}
        full = {"bootstrap.servers": kafka_cluster.bootstrap_servers, "log_level": 2, **config}
        made.append(PartitioningProducer(full, partitioner, poller, poller_options=options))
        return made[-1]

    yield make
    for producer in made:
        producer.close()


def await_table(producer: PartitioningProducer, topic: str, partitions: int) -> None:
    """Wait until the partitioner knows so many partitions."""
    for _ in range(100):
        route = producer.partitioner.route(topic)
        if route is not None and route.count == partitions:
            return
        also_ask_for(producer.poller, topic)
        producer.poller.refresh(wait=LIMIT_S)
    raise AssertionError(f"{topic} never had {partitions} partitions: {producer.poller.health}")


def test_an_explicit_partition_wins(make: Make, kafka_topic: MakeTopic) -> None:
    topic, producer, got = kafka_topic(partitions=4), make(), Deliveries()
    await_table(producer, topic, 4)
    for _ in range(20):
        producer.produce(topic, b"v", b"key", 3, got)
        producer.produce(topic, b"v", partition=3, callback=got)
    producer.produce_batch(topic, [{"value": b"v", "key": b"key"}] * 20, partition=3, on_delivery=got)
    producer.produce_batch(topic, [{"value": b"v", "partition": 3}, {"value": b"v", "partition": 3}], -1, got)
    assert producer.flush(LIMIT_S) == 0
    assert got.partitions == {3: 62}
    placed: dict[str, Any] = {"value": b"v", "partition": 99}
    assert producer.produce_batch(topic, [placed]) == 0
    assert placed["_error"].name() == "_UNKNOWN_PARTITION"


class Last(Partitioner):
    """An application's own: the last usable partition, whatever the record."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[bytes | None, bytes | None]] = []

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        self.asked.append((key, value))
        return route.usable[-1]


def test_an_applications_partitioner_is_asked_once_for_each_record(
    make: Make, kafka_topic: MakeTopic
) -> None:
    topic, partitioner, got = kafka_topic(partitions=4), Last(), Deliveries()
    producer = make(partitioner)
    await_table(producer, topic, 4)
    producer.produce(topic, "ä", "ö", on_delivery=got)
    producer.produce(topic, b"v", on_delivery=got)
    producer.produce_batch(topic, [{"value": b"v"}, {"value": b"w", "key": "k"}], on_delivery=got)
    assert producer.flush(LIMIT_S) == 0
    assert partitioner.asked == [("ö".encode(), "ä".encode()), (None, b"v"), (None, b"v"), (b"k", b"w")]
    assert got.partitions == {3: 4}


def test_a_batch_of_keys_is_left_to_their_hash_and_one_without_shares_a_turn(
    make: Make, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic, producer = kafka_topic(partitions=5), make()
    await_table(producer, topic, 5)
    unkeyed: list[dict[str, Any]] = [{"value": b"v"} for _ in range(100)]
    keyed: list[dict[str, Any]] = [{"value": b"v", "key": b"key-%d" % i} for i in range(100)]
    mixed = [{"value": b"v"}, {"value": b"v", "key": b"key"}]
    for messages in (unkeyed, keyed, mixed):
        before = [dict(message) for message in messages]
        assert producer.produce_batch(topic, messages) == len(messages)
        assert messages == before
        assert producer.flush(LIMIT_S) == 0
    placed = {(it.key(), it.partition()) for it in read_back(kafka_cluster, topic)}
    assert len({partition for key, partition in placed if key is None}) <= 2
    assert {(key, crc32_partition(key, 5)) for key, _ in placed if key} == {it for it in placed if it[0]}


def test_growth_loses_nothing_with_a_shared_poller(
    make: Make, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic, got = kafka_topic(partitions=2), Deliveries()
    watcher = ConfluentMetadataSource({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    with MetadataPoller(watcher, [topic]) as poller:
        producer = make(RoundRobinPartitioner(), poller)
        producer.produce(topic, b"v", on_delivery=got)
        assert producer.flush(LIMIT_S) == 0  # the handle knows two partitions now
        kafka_cluster.grow_topic(topic, 4)
        await_table(producer, topic, 4)
        for _ in range(40):
            producer.produce(topic, b"v", on_delivery=got)
        producer.produce_batch(topic, [{"value": b"v"} for _ in range(40)], on_delivery=got)
        assert producer.flush(LIMIT_S) == 0
        assert got.errors == []
        assert sum(got.partitions.values()) == 81
        assert producer.stats.fallbacks == 0
        producer.close()
        assert poller.health.running  # a given poller is only left
    assert producer.partitioner.route(topic) is None


@pytest.mark.parametrize(
    "partitioner",
    [RoundRobinPartitioner, partial(GrowthSafePartitioner, mapping="rendezvous")],
    ids=["librdkafka may place keys", "librdkafka must not"],
)
def test_what_is_sent_before_the_handle_knows_of_growth_is_not_refused(
    make: Make, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, partitioner: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The broker that it asks may lag behind the one that the poller has asked."""
    topic, keys = kafka_topic(partitions=2), [b"%d" % number for number in range(80)]
    told: dict[bytes, int] = {}

    def note(error: Any, message: Any) -> None:
        assert error is None
        told[message.key()] = message.partition()

    source = ConfluentMetadataSource({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    poller = MetadataPoller(source, [topic])  # this thread polls
    producer = make(partitioner(), poller)
    poller.poll_once()
    producer.produce(topic, b"v")
    assert producer.flush(LIMIT_S) == 0  # the handle knows two partitions now
    with monkeypatch.context() as patched:
        patched.setattr(HandleMetadata, "ask_for", lambda *_: {})
        kafka_cluster.grow_topic(topic, 4)
        await_table(producer, topic, 4)
    batch = [{"value": b"v", "key": key} for key in keys[:40]]
    assert producer.produce_batch(topic, batch, on_delivery=note) == 40
    for key in keys[40:]:
        producer.produce(topic, b"v", key, on_delivery=note)
    assert producer.flush(LIMIT_S) == 0
    assert sorted(told) == sorted(keys)
    if not producer.partitioner.requires_metadata(topic):
        assert producer.stats.fallbacks > 0
    else:
        route = producer.partitioner.route(topic)
        assert route is not None
        assert told == {key: producer.partitioner.home(route, key) for key in keys}
        assert producer.stats.fallbacks == 0
    poller.close()
