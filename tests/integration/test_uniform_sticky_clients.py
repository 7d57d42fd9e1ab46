"""`UniformStickyPartitioner` in real producers: keyed records fill batches, and reach all partitions."""

import random
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from kafka import KafkaProducer

from kafka_partition_events import (
    StickyPartitioner,
    UniformStickyPartitioner,
)
from kafka_partition_events.partitioners.sticky import BATCH_BYTES, record_bytes
from kafka_partition_events.testing import KafkaCluster
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
