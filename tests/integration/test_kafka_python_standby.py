"""A producer of kafka-python goes on by a second one while a broker hangs that its writes wait for."""

import gc
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import pytest
from kafka import KafkaProducer

from kafka_partition_events import AdaptivePartitioner
from kafka_partition_events.clients.kafka_python import attach, key_stats, rescue_stats
from kafka_partition_events.testing import KafkaCluster
from tests.key_order_kit import proven_moves
from tests.waiting_kit import waiting

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
VICTIM = 2
REPLICAS = [[1, 2], [3, 2], [4, 2], [2, 1], [1, 3], [3, 4], [4, 1]]
"""Every leader waits for the victim for one partition, and for another one it does not."""
SAFE = {partition for partition, brokers in enumerate(REPLICAS) if VICTIM not in brokers}
wait_until = waiting(LIMIT_S)


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    return own_kafka_cluster(brokers=4, session_timeout_ms=9000)


@pytest.fixture
def make(cluster: KafkaCluster) -> Iterator[Callable[..., Any]]:
    """Make a producer that is attached and warm, and its topic."""
    made: list[Any] = []

    def make(*, idempotent: bool = False, **options: Any) -> tuple[Any, str]:
        topic = f"orders-{uuid.uuid4().hex[:8]}"
        cluster.create_topic(topic, assignment=dict(enumerate(REPLICAS)))
        producer: Any = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers.split(","),
            partitioner=AdaptivePartitioner(),
            acks="all",
            enable_idempotence=idempotent,
            linger_ms=5,
            request_timeout_ms=20_000,
            delivery_timeout_ms=30_000,
        )
        made.append(producer)
        producer.partitions_for(topic)
        assert attach(producer, **options).refresh("test", wait=LIMIT_S)
        write(producer, topic, 300)
        producer.flush(LIMIT_S)
        return producer, topic

    yield make
    while made:
        made.pop().close(timeout=LIMIT_S)
    gc.collect()  # of the sockets, while their warning is filtered


def write(producer: Any, topic: str, count: int) -> Counter[int]:
    """Send so many records; return by partition how many have been delivered, which goes on."""
    delivered: Counter[int] = Counter()
    for number in range(count):
        producer.send(topic, f"{number}".encode()).add_callback(lambda m: delivered.update([m.partition]))
        time.sleep(0.003)
    return delivered


def test_what_needs_nobody_frozen_is_delivered_meanwhile(
    cluster: KafkaCluster, make: Callable[..., Any]
) -> None:
    producer, topic = make(rescue="hedge")
    cluster.freeze(VICTIM)
    try:
        delivered = write(producer, topic, 600)
        wait_until(lambda: delivered.total() == 600, "all records")
        # Without a judge it would be three of seven; a busy machine takes its time to find out.
        assert sum(delivered[partition] for partition in SAFE) > 400
    finally:
        cluster.thaw(VICTIM)
    producer.flush(LIMIT_S)
    assert rescue_stats(producer).held_bytes == 0


@pytest.mark.parametrize("rescue", [None, "hedge"])
def test_keys_that_may_move_leave_and_come_home_in_an_order_that_can_be_proven(
    cluster: KafkaCluster, make: Callable[..., Any], rescue: Any
) -> None:
    producer, topic = make(idempotent=True, keys="move", rescue=rescue)
    deliveries, numbers = producer.config["partitioner"].deliveries, count()
    places: dict[int, tuple[int, int]] = {}  # partition and offset of what was acknowledged
    futures: list[Any] = []

    def send(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, "it does not come"
            for number in islice(numbers, 5):
                future = producer.send(topic, b"%d" % number, b"key-%d" % (number % 500))
                futures.append(future)
                future.add_callback(lambda m, n=number: places.update({n: (m.partition, m.offset)}))
            time.sleep(0.01)

    send(lambda: len(places) > 1000)
    cluster.freeze(VICTIM)
    try:
        send(lambda: key_stats(producer).displaced > 50)
    finally:
        cluster.thaw(VICTIM)
    send(lambda: not deliveries.avoiding)
    send(lambda: not key_stats(producer).displaced)
    producer.flush(LIMIT_S)
    assert all(future.is_done for future in futures)
    stats = key_stats(producer)
    assert (stats.waiting, stats.refused) == (0, ())
    moves = proven_moves(cluster, topic, places, 500, LIMIT_S)
    assert min(moves, stats.moved) > 50


def test_keys_of_a_compacted_topic_stay(cluster: KafkaCluster, make: Callable[..., Any]) -> None:
    producer, _ = make(keys="move")
    compacted = f"compacted-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(compacted, 1, config={"cleanup.policy": "compact"})
    producer.send(compacted, b"v", b"k").get(LIMIT_S)
    wait_until(lambda: key_stats(producer).refused == (compacted,), "the refusal")
