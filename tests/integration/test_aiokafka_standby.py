"""A producer of aiokafka goes on by a second way while a broker hangs that its writes wait for."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count, islice
from typing import Any

import pytest

from kafka_partition_events import AdaptivePartitioner
from kafka_partition_events.clients.aiokafka import PartitioningAIOKafkaProducer, key_stats, rescue_stats
from kafka_partition_events.testing import KafkaCluster
from tests.integration.test_aiokafka_feedback import LIMIT_S, on_a_loop, until
from tests.integration.test_kafka_python_standby import REPLICAS, SAFE, VICTIM
from tests.key_order_kit import proven_moves

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    return own_kafka_cluster(brokers=4, session_timeout_ms=9000)


@asynccontextmanager
async def a_producer(cluster: KafkaCluster, **options: Any) -> AsyncIterator[tuple[Any, str]]:
    """Make a producer that attaches itself and is warm, and its topic."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, assignment=dict(enumerate(REPLICAS)))
    producer = PartitioningAIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, partitioner=AdaptivePartitioner(), acks="all",
        linger_ms=5, request_timeout_ms=20_000, **options,
    )  # fmt: skip
    async with producer:
        await producer.partitions_for(topic)
        await write(producer, topic, 300)
        await producer.flush()
        yield producer, topic


async def write(producer: Any, topic: str, records: int) -> Counter[int]:
    """Send so many records; return by partition how many have been delivered, which goes on."""
    delivered: Counter[int] = Counter()
    for number in range(records):
        future = await producer.send(topic, f"{number}".encode())
        future.add_done_callback(lambda done: delivered.update([done.result().partition]))
        await asyncio.sleep(0.003)
    return delivered


TRIES = 4
"""A busy machine takes its time to find out, and may take others for suspects, too."""


@pytest.mark.parametrize("idempotent", [False, True])
@on_a_loop
async def test_what_needs_no_frozen_broker_is_delivered_meanwhile(
    cluster: KafkaCluster, idempotent: bool
) -> None:
    async with a_producer(cluster, rescue="hedge", enable_idempotence=idempotent) as (producer, topic):
        shares: list[int] = []
        cluster.freeze(VICTIM)
        try:
            for _ in range(TRIES):
                delivered = await write(producer, topic, 600)
                await until(lambda found=delivered: found.total() == 600, "all records")  # type: ignore[misc]
                shares.append(sum(delivered[partition] for partition in SAFE))
                if shares[-1] > 400:  # without the failure detector it would be three of seven
                    break
            else:
                pytest.fail(f"of 600 {shares}")
        finally:
            cluster.thaw(VICTIM)
        await producer.flush()
        assert rescue_stats(producer).held_bytes == 0


@pytest.mark.parametrize("rescue", [None, "hedge"])
@on_a_loop
async def test_keys_that_may_move_leave_and_come_home_in_an_order_that_can_be_proven(
    cluster: KafkaCluster, rescue: Any
) -> None:
    async with a_producer(cluster, keys="move", enable_idempotence=True, rescue=rescue) as (producer, topic):
        deliveries, numbers = producer.partitioner.deliveries, count()
        places: dict[int, tuple[int, int]] = {}  # partition and offset of what was acknowledged
        futures: list[Any] = []

        def note(number: int, done: Any) -> None:
            places[number] = (done.result().partition, done.result().offset)

        async def send(condition: Callable[[], object]) -> None:
            deadline = time.monotonic() + LIMIT_S
            while not condition():
                assert time.monotonic() < deadline, "it does not come"
                for number in islice(numbers, 5):
                    future = await producer.send(topic, b"%d" % number, b"key-%d" % (number % 500))
                    futures.append(future)
                    future.add_done_callback(lambda done, n=number: note(n, done))
                await asyncio.sleep(0.01)

        await send(lambda: len(places) > 1000)
        cluster.freeze(VICTIM)
        try:
            await send(lambda: key_stats(producer).displaced > 50)
        finally:
            cluster.thaw(VICTIM)
        await send(lambda: not deliveries.avoiding)
        await send(lambda: not key_stats(producer).displaced)
        await producer.flush()
        await until(lambda: all(future.done() for future in futures), "outcomes")
        stats = key_stats(producer)
        assert (stats.waiting, stats.refused) == (0, ())
        moves = await asyncio.to_thread(proven_moves, cluster, topic, places, 500, LIMIT_S)
        assert min(moves, stats.moved) > 50


@on_a_loop
async def test_keys_of_a_compacted_topic_stay(cluster: KafkaCluster) -> None:
    async with a_producer(cluster, keys="move", poller_options={"interval": 0.3}) as (producer, _):
        compacted = f"compacted-{uuid.uuid4().hex[:8]}"
        cluster.create_topic(compacted, 1, config={"cleanup.policy": "compact"})
        await producer.send_and_wait(compacted, b"v", b"k")
        await until(lambda: key_stats(producer).refused == (compacted,), "the refusal")
