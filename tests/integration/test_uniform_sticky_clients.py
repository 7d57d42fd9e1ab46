"""`UniformStickyPartitioner` in real producers: keyed records fill batches, and reach all partitions."""

import random
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import pytest
from kafka import KafkaProducer

from kafka_partition_events import (
    MetadataPoller,
    StickyPartitioner,
    UniformStickyPartitioner,
)
from kafka_partition_events.clients.confluent import ConfluentMetadataSource, PartitioningProducer
from kafka_partition_events.partitioners.sticky import BATCH_BYTES, record_bytes
from kafka_partition_events.testing import KafkaCluster, MockCluster
from kafka_partition_events.testing.plugin import MakeTopic

LIMIT_S = 30.0
VALUE = b"v" * 100
KEYS = [b"%06d" % number for number in range(6_000)]


# -- kafka-python, on a real Kafka -------------------------------------------------------------------


@pytest.mark.kafka
class TestOnKafkaPython:
    def send(
        self, cluster: KafkaCluster, topic: str, partitioner: Any, keys: Sequence[bytes | None]
    ) -> tuple[list[int], float]:
        """Return each record's partition, and how many bytes a batch had on average.

        The producer has no poller, so that no broker that is late becomes suspect and takes a probe. Batches
        are sent when they are full, and after the last record: what they hold does not depend on the time.
        """
        producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers.split(","), partitioner=partitioner, linger_ms=60_000
        )
        try:
            futures = [producer.send(topic, VALUE, key) for key in keys]
            producer.flush(LIMIT_S)
            placed = [future.get(LIMIT_S).partition for future in futures]
            size: float = producer.metrics()["producer-metrics"]["batch-size-avg"]
        finally:
            producer.close(timeout=LIMIT_S)
        return placed, size

    def test_keyed_records_reach_all_partitions_in_turns_of_a_batch(
        self, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
    ) -> None:
        """Some 43 turns over 8 partitions: one is missed with a probability below 8 * (6/7)**42 = 1.3%.

        So the partitioner's numbers are fixed.
        """
        partitioner = UniformStickyPartitioner(rng=random.Random(1))
        placed, _ = self.send(kafka_cluster, kafka_topic(partitions=8), partitioner, KEYS)
        runs = [len(list(run)) for _, run in groupby(placed)]
        assert set(runs[:-1]) == {-(-BATCH_BYTES // record_bytes(KEYS[0], VALUE))}
        assert set(placed) == set(range(8))

    def test_their_batches_are_fuller_than_those_of_their_hash(
        self, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
    ) -> None:
        """Together these records are 640 KB, so of 96 partitions none gets half a batch by its keys' hash."""
        topic = kafka_topic(partitions=96)
        _, by_turns = self.send(kafka_cluster, topic, UniformStickyPartitioner(), KEYS)
        _, by_hash = self.send(kafka_cluster, topic, StickyPartitioner(), KEYS)
        assert by_turns > 1.5 * by_hash


# -- confluent-kafka, on the mock cluster ------------------------------------------------------------


class Delivered:
    """The partitions of delivered records, in the order of sending."""

    def __init__(self) -> None:
        self.order: list[int] = []

    def next(self) -> Any:
        number = len(self.order)
        self.order.append(-1)

        def note(error: object, message: Any) -> None:
            assert error is None
            self.order[number] = message.partition()

        return note


@pytest.fixture
def topic(mock_cluster: MockCluster) -> str:
    mock_cluster.create_topic("orders", 4)
    return "orders"


class Producing:
    """A producer that knows the topic, and what it has delivered."""

    def __init__(self, cluster: MockCluster, topic: str, partitioner: Any, **config: Any) -> None:
        servers = {"bootstrap.servers": cluster.bootstrap_servers}
        self.poller = MetadataPoller(ConfluentMetadataSource(servers), [topic])
        self.poller.poll_once()
        self.producer = PartitioningProducer({**servers, **config}, partitioner, self.poller)
        self.topic = topic
        self.delivered = Delivered()

    def produce(self, *keys: str | bytes | None) -> None:
        for key in keys:
            self.producer.produce(self.topic, b"v", key, on_delivery=self.delivered.next())
            self.producer.poll(0)

    def produce_batch(self, *keys: str | bytes | None) -> None:
        messages = [{"value": b"v", "key": key, "callback": self.delivered.next()} for key in keys]
        assert self.producer.produce_batch(self.topic, messages) == len(keys)

    def order(self) -> list[int]:
        assert self.producer.flush(LIMIT_S) == 0
        return self.delivered.order

    def close(self) -> None:
        self.producer.close()
        self.poller.close()


@pytest.fixture
def producing(mock_cluster: MockCluster, topic: str) -> Iterator[Any]:
    made: list[Producing] = []

    def make(partitioner: Any, **config: Any) -> Producing:
        made.append(Producing(mock_cluster, topic, partitioner, **config))
        return made[-1]

    yield make
    for each in made:
        each.close()


MIXED = ["key-1", None, b"", b"key-2", "", "key-3"]


class TestOnConfluentKafka:
    def test_keyed_and_unkeyed_records_and_batches_share_a_turn(self, producing: Any) -> None:
        ours = producing(UniformStickyPartitioner(), **{"sticky.partitioning.linger.ms": 60_000})
        ours.produce(*MIXED * 100)
        ours.produce_batch(*MIXED * 100)
        ours.produce(*MIXED * 100)
        order = ours.order()
        assert len(order) == 1800
        assert len(set(order)) == 1

    def test_turns_end_and_keyed_records_reach_all_partitions(self, producing: Any) -> None:
        ours = producing(UniformStickyPartitioner(), **{"linger.ms": 5})
        while len(set(ours.delivered.order) - {-1}) < 4:
            ours.produce(*(f"key-{number}" for number in range(1_000)))
            assert len(ours.delivered.order) < 1_000_000
        order = ours.order()
        assert sum(one != other for one, other in pairwise(order)) < len(order) / 20
