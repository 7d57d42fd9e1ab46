"""A fleet of 50 capped producers on a real cluster, each started twice: 4 of 12 partitions for each."""

import random
import uuid
from collections import Counter
from typing import Any

import pytest

from kafka_partition_events import BufferBudget, RoundRobinPartitioner
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.testing import KafkaCluster

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0
FLEET, CAP, PARTITIONS = 50, 4, 12
MEAN = FLEET * CAP / PARTITIONS


def by_random_id(topic: str, number: int) -> BufferBudget:
    """Ids as `uuid.uuid4` makes them, but the same in each run: 16.7 on average, 3.3 standard deviation.

    The topic has the same name in each run, too: the choice is made by both.
    """
    drawn = random.Random(number).getrandbits(128)
    return BufferBudget(max_partitions={topic: CAP}, instance_id=uuid.UUID(int=drawn, version=4).hex)


def test_a_restarting_fleet_covers_the_topic(kafka_cluster: KafkaCluster) -> None:
    topic = "fleet-by_random_id"
    kafka_cluster.create_topic(topic, PARTITIONS)
    used: Counter[int] = Counter()
    for number in range(FLEET):
        first = partitions_of(by_random_id(topic, number), topic, kafka_cluster)
        assert len(first) == CAP
        again = partitions_of(by_random_id(topic, number), topic, kafka_cluster)
        assert again == first, "a restart changes nothing"
        used.update(first)
    shares = [used[partition] / MEAN for partition in range(PARTITIONS)]
    assert 1 / MEAN <= min(shares) <= max(shares) <= 1.6


def partitions_of(budget: BufferBudget, topic: str, cluster: KafkaCluster) -> set[int]:
    """Return where a producer's records go."""
    reached: set[int] = set()

    def note(_error: object, message: Any) -> None:
        reached.add(message.partition())

    config = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0}
    with PartitioningProducer(config, RoundRobinPartitioner(budget=budget)) as producer:
        producer.poller.track(topic)
        assert producer.poller.refresh("the fleet waits", wait=LIMIT_S)
        for _ in range(2 * CAP):
            producer.produce(topic, b"v", on_delivery=note)
        assert producer.flush(LIMIT_S) == 0
    return reached
