"""Records of an aiokafka producer leave a broker that is frozen, long before metadata says anything."""

import asyncio
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaClient, AIOKafkaProducer
from attrs import define

from kafka_partition_events import AdaptivePartitioner, BrokerSuspected, MetadataPoller, StickyPartitioner
from kafka_partition_events.clients.aiokafka import (
    AiokafkaMetadataSource,
    PartitioningAIOKafkaProducer,
    attach,
)
from kafka_partition_events.testing import KafkaCluster, RecordingListener
from tests.integration.test_readme import blocks, run
from tests.loop_kit import on_a_loop
from tests.waiting_kit import waiting

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
wait_until = waiting(LIMIT_S)


@define
class Attached:
    producer: Any
    poller: MetadataPoller
    heard: RecordingListener

    async def synced(self) -> None:
        assert await asyncio.to_thread(self.poller.refresh, LIMIT_S)


@asynccontextmanager
async def attached(cluster: KafkaCluster, topic: str) -> AsyncIterator[Attached]:
    """A producer that is attached and warm: the usual time to answer is known."""
    config: Any = {"acks": "all", "linger_ms": 5, "request_timeout_ms": 5000, "enable_idempotence": False}
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **config)
    await producer.start()
    poller = attach(producer, partitioner=AdaptivePartitioner())
    one = Attached(producer, poller, RecordingListener())
    poller.register(one.heard)
    try:
        await producer.partitions_for(topic)
        await asyncio.gather(*[producer.send_and_wait(topic, b"warm") for _ in range(30)])
        await one.synced()
        for _ in range(100):
            await producer.send_and_wait(topic, b"warm")
        yield one
    finally:
        await producer.stop()


@on_a_loop
async def test_a_source_knows_what_aiokafka_does_not_and_creates_no_topic(
    cluster: KafkaCluster, topic: str
) -> None:
    client = AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers)
    await client.bootstrap()
    source, missing = AiokafkaMetadataSource(client), f"missing-{uuid.uuid4().hex[:8]}"
    for _ in range(2):
        seen = await asyncio.to_thread(source.fetch, frozenset({topic, missing}), timeout=LIMIT_S)
        assert seen.errors == {missing: "UNKNOWN_TOPIC_OR_PARTITION"}
    assert seen.cluster_id == cluster.cluster_id
    assert seen.answered_by in cluster.brokers
    assert {node.id for node in seen.nodes} == set(cluster.brokers)
    (info,) = seen.topics.values()
    assert info.topic_id
    assert [p.leader for p in info.partitions] == [1, 2, 3, 1, 2, 3]
    assert all(p.leader_epoch is not None and p.replicas == p.isr == (p.leader,) for p in info.partitions)
    every = await asyncio.to_thread(source.fetch, None, timeout=LIMIT_S)
    assert topic in every.topics
    assert missing not in every.topics
    await client.close()


@on_a_loop
async def test_new_partitions_are_written_as_soon_as_the_poller_knows_them(cluster: KafkaCluster) -> None:
    topic = f"grows-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, 3)
    async with attached(cluster, topic) as one:
        await asyncio.to_thread(cluster.grow_topic, topic, 6)
        await one.synced()
        seen: Counter[int] = Counter()

        async def write() -> None:
            seen.update([(await one.producer.send_and_wait(topic, b"v")).partition])

        deadline = time.monotonic() + LIMIT_S
        while len(seen) < 6 and time.monotonic() < deadline:
            await asyncio.gather(*[write() for _ in range(20)])
            await one.synced()
        assert set(seen) == set(range(6))


@on_a_loop
async def test_an_application_that_blocks_its_loop_suspects_no_one(cluster: KafkaCluster, topic: str) -> None:
    async with attached(cluster, topic) as one:
        end = time.monotonic() + 4
        while time.monotonic() < end:
            tasks = [asyncio.ensure_future(one.producer.send_and_wait(topic, b"v")) for _ in range(10)]
            await asyncio.sleep(0.002)
            time.sleep(0.3)  # noqa: ASYNC251 - that is what it is about
            await asyncio.gather(*tasks)
        assert one.heard.of(BrokerSuspected) == []


@on_a_loop
async def test_two_producers_share_a_poller_and_a_class_attaches_itself(
    cluster: KafkaCluster, topic: str
) -> None:
    client = AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers)
    await client.bootstrap()
    partitioner = StickyPartitioner()
    with MetadataPoller(AiokafkaMetadataSource(client), ()) as poller:
        for _ in range(2):
            producer = PartitioningAIOKafkaProducer(
                partitioner=partitioner, poller=poller, bootstrap_servers=cluster.bootstrap_servers
            )
            async with producer:
                await producer.send_and_wait(topic, b"v")
                await asyncio.to_thread(wait_until, lambda: partitioner.route(topic) is not None, "the route")
        assert not poller.subscriptions.closed
        await asyncio.to_thread(poller.close)
    await client.close()


def test_the_example_of_the_page_runs(orders: str, tmp_path: Path) -> None:
    (example,) = [block for block in blocks("docs/producers.md", "python") if "AIOKafkaProducer" in block]
    program = tmp_path / "example.py"
    program.write_text(example.replace("localhost:9092", orders), encoding="utf-8")
    assert run([sys.executable, "-X", "dev", "-W", "error", str(program)], tmp_path) == ""
