"""One composed partitioner on both clients, against real brokers: keys have their places, loads are known."""

from collections import Counter, defaultdict
from collections.abc import Callable
from zlib import crc32

import pytest
from confluent_kafka import KafkaError, Message
from kafka import KafkaProducer

from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.clients.kafka_python import attach
from kafka_partition_events.partitioners.choosers import (
    Choice,
    Chooser,
    evenly,
    least_loaded,
    shuffle_sharded,
)
from kafka_partition_events.partitioners.choosers.shards import SHARDS, places_of
from kafka_partition_events.partitioners.composed import ComposedPartitioner
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic

pytestmark = pytest.mark.kafka

RECORDS = 600
KEYS = [b"acme", b"globex", b"initech"]
PARTITIONS = 12
WAIT_S = 30.0

Placed = dict[bytes | None, Counter[int]]


def by_confluent(partitioner: ComposedPartitioner, servers: str, topic: str) -> Placed:
    placed: Placed = defaultdict(Counter)

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        assert error is None
        assert partition is not None
        placed[message.key()][partition] += 1

    with PartitioningProducer({"bootstrap.servers": servers}, partitioner) as producer:
        producer.poller.track(topic)
        assert producer.poller.refresh("the test begins", wait=WAIT_S)
        for number in range(RECORDS):
            producer.produce(topic, b"v", KEYS[number % 3] if number % 2 else None, on_delivery=on_delivery)
            producer.poll(0)
    return placed


def by_kafka_python(partitioner: ComposedPartitioner, servers: str, topic: str) -> Placed:
    placed: Placed = defaultdict(Counter)
    producer = KafkaProducer(bootstrap_servers=servers, partitioner=partitioner, enable_idempotence=False)
    with attach(producer) as poller:
        poller.track(topic)
        assert poller.refresh("the test begins", wait=WAIT_S)
        keys = [KEYS[number % 3] if number % 2 else None for number in range(RECORDS)]
        futures = [(key, producer.send(topic, b"v", key=key)) for key in keys]
        for key, future in futures:
            placed[key][future.get(timeout=WAIT_S).partition] += 1
        producer.close()
    return placed


@pytest.mark.parametrize("produce", [by_confluent, by_kafka_python])
class TestOnEachClient:
    def test_a_key_stays_in_its_places_and_unkeyed_records_reach_all(
        self,
        produce: Callable[[ComposedPartitioner, str, str], Placed],
        kafka_cluster: KafkaCluster,
        kafka_topic: MakeTopic,
    ) -> None:
        topic = kafka_topic(partitions=PARTITIONS)
        looked: list[int] = []
        offered: set[tuple[int, ...]] = set()

        def noting_places(then: Chooser) -> Chooser:
            def choose(choice: Choice) -> int:
                offered.add(choice.places)
                return then(choice)

            return choose

        def noting_loads(then: Chooser) -> Chooser:
            def choose(choice: Choice) -> int:
                looked.append(sum(choice.outstanding(choice.places)))
                return then(choice)

            return choose

        chooser = noting_places(shuffle_sharded(3, noting_loads(least_loaded())))
        partitioner = ComposedPartitioner(chooser, keys="chooser")
        placed = produce(partitioner, kafka_cluster.bootstrap_servers, topic)
        assert sum(placed[None].values()) == RECORDS // 2
        for key in KEYS:
            # On a busy machine a broker may be silent or fenced: keys have others of what is left meanwhile.
            own = {place for places in offered for place in places_of(crc32(key) % SHARDS, 3, places)}
            assert set(placed[key]) <= own
        assert tuple(range(PARTITIONS)) in offered
        # Of all records together: whose first one takes long (a new log on a busy disk) is rightly let alone.
        assert set().union(*placed.values()) == set(range(PARTITIONS))
        assert max(looked) > 0, "records on their way are known"

    def test_keys_go_to_the_same_hash_as_everywhere_and_the_rest_evenly(
        self,
        produce: Callable[[ComposedPartitioner, str, str], Placed],
        kafka_cluster: KafkaCluster,
        kafka_topic: MakeTopic,
    ) -> None:
        topic = kafka_topic(partitions=PARTITIONS)
        partitioner = ComposedPartitioner(evenly())
        placed = produce(partitioner, kafka_cluster.bootstrap_servers, topic)
        assert placed[None] == dict.fromkeys(range(PARTITIONS), RECORDS // 2 // PARTITIONS)
        for key in KEYS:
            assert placed[key].keys() == {partitioner.keying.hash(key, PARTITIONS)}
