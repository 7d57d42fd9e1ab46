"""`AsyncPartitioningProducer`, async hooks and the event stream on a real Kafka, in asyncio's debug mode."""

import asyncio
import threading
import uuid
from contextlib import aclosing
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_partition_events import (
    AdaptivePartitioner,
    DefaultPartitioner,
    ForkedError,
    MetadataPoller,
    PartitionChangeListener,
    PartitionsAdded,
)
from kafka_partition_events.clients.confluent import AsyncPartitioningProducer, ConfluentMetadataSource
from kafka_partition_events.routing.hashing import murmur2_partition
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.fork_kit import FORKS, in_child
from tests.loop_kit import on_a_loop
from tests.mock_cluster import MockCluster

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
VICTIM = 2


def settings(cluster: KafkaCluster, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5, "log_level": 2, **more}


def stored(cluster: KafkaCluster, topic: str, partitions: int, count: int) -> list[Any]:
    """Return so many records; of transactions those that were committed."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": uuid.uuid4().hex})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found = consumer.consume(count, LIMIT_S)
    consumer.close()
    assert len(found) == count
    return found


class TestProducing:
    @on_a_loop
    async def test_records_are_stored_with_all_they_have(
        self, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
    ) -> None:
        topic = kafka_topic(6)
        async with AsyncPartitioningProducer(
            settings(kafka_cluster), DefaultPartitioner(hash_name="murmur2"), rescue="hedge"
        ) as producer:
            await producer.wait_for_topic(topic, LIMIT_S)
            sent = [
                await producer.produce(topic, f"v{n}", headers={"n": str(n)}, timestamp=1_700_000_000_000 + n)
                for n in range(60)
            ]
            keyed = await producer.send(topic, "v", key="42")
            messages = await asyncio.gather(*sent)
        assert {message.partition() for message in messages} <= {*range(6)}
        assert keyed.partition() == murmur2_partition(b"42", 6)
        found = {bytes(m.value()): m for m in stored(kafka_cluster, topic, 6, 61)}
        assert dict(found[b"v7"].headers())["n"] == b"7"
        assert found[b"v7"].timestamp()[1] == 1_700_000_000_007

    @on_a_loop
    async def test_a_refused_record_fails_its_future_only(
        self, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
    ) -> None:
        topic = kafka_topic(2, config={"max.message.bytes": "1000"})
        async with AsyncPartitioningProducer(settings(kafka_cluster)) as producer:
            bad = await producer.produce(topic, b"x" * 100_000)
            with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
                await bad  # records of its batch would fail with it
            await asyncio.gather(*[await producer.produce(topic, str(n)) for n in range(8)])
        stored(kafka_cluster, topic, 2, 8)

    @on_a_loop
    async def test_a_full_queue_makes_the_application_wait(
        self, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
    ) -> None:
        topic = kafka_topic(3)
        async with AsyncPartitioningProducer(
            settings(kafka_cluster, **{"queue.buffering.max.messages": 100})
        ) as producer:
            sent = await asyncio.gather(*(producer.send(topic, str(n)) for n in range(5000)))
        assert len({message.value() for message in sent}) == 5000

    @on_a_loop
    async def test_transactions(self, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic) -> None:
        topic = kafka_topic(2)
        config = settings(kafka_cluster, **{"transactional.id": uuid.uuid4().hex})
        async with AsyncPartitioningProducer(config) as producer:
            await producer.init_transactions(LIMIT_S)
            await producer.begin_transaction()
            await producer.send(topic, "aborted")
            await producer.abort_transaction(LIMIT_S)
            await producer.begin_transaction()
            future = await producer.produce(topic, "committed")
            await producer.commit_transaction(LIMIT_S)
            assert future.done()
        assert [m.value() for m in stored(kafka_cluster, topic, 2, 1)] == [b"committed"]


class TestForks:
    pytestmark = FORKS

    @on_a_loop
    async def test_it_raises_in_a_child(self, mock_cluster: MockCluster) -> None:
        config = {"bootstrap.servers": mock_cluster.bootstrap_servers, "log_level": 2}
        async with AsyncPartitioningProducer(config) as producer:
            await producer.send("t", "before")

            def used() -> None:
                for call in (producer.produce("t", "v"), producer.flush(), producer.close()):
                    with pytest.raises(ForkedError, match="made before a fork"):
                        call.send(None)

            in_child(used)
            await producer.send("t", "after")


class TestABrokerThatHangs:
    @on_a_loop
    async def test_detection_goes_on_while_the_application_blocks_its_loop(
        self, cluster: KafkaCluster, topic: str
    ) -> None:
        async with AsyncPartitioningProducer(settings(cluster), AdaptivePartitioner()) as producer:
            await asyncio.gather(*(producer.send(topic, str(n)) for n in range(1000)))
            cluster.freeze(VICTIM)
            try:
                futures, blocked = [], threading.Event()
                for number in range(400):  # blocks the loop, as an application should not
                    futures.append(await producer.produce(topic, str(number)))
                    blocked.wait(0.002)  # one record in 1 ms is followed, and all brokers shall have some
                for _ in range(int(LIMIT_S * 10)):
                    if VICTIM in producer.partitioner.deliveries.suspects():
                        break
                    blocked.wait(0.1)
                assert VICTIM in producer.partitioner.deliveries.suspects()
            finally:
                cluster.thaw(VICTIM)
            await asyncio.gather(*futures, return_exceptions=True)

    @on_a_loop
    async def test_closing_leaves_the_loop_running(self, cluster: KafkaCluster, topic: str) -> None:
        config = settings(cluster, **{"message.timeout.ms": 2000})
        producer = AsyncPartitioningProducer(config)
        await producer.send(topic, "warm")
        cluster.freeze(VICTIM)
        try:
            futures = [await producer.produce(topic, "v", partition=1) for _ in range(10)]
            closing = asyncio.create_task(producer.close())
            turns = 0
            while not closing.done():
                await asyncio.sleep(0.01)
                turns += 1
        finally:
            cluster.thaw(VICTIM)
        assert turns > 10, "the loop had its turns while the thread waited"
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert len(outcomes) == 10


class TestEvents:
    @on_a_loop
    async def test_growth_comes_to_hooks_and_to_the_stream(
        self, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
    ) -> None:
        topic = kafka_topic(2)
        grown: list[tuple[int, int]] = []

        class Async(PartitionChangeListener):
            async def on_partitions_added(self, event: PartitionsAdded) -> None:
                await asyncio.sleep(0)
                grown.append((threading.get_ident(), len(event.added)))

        source = ConfluentMetadataSource(settings(kafka_cluster))
        poller = MetadataPoller(source, [topic], interval=0.2)
        poller.register(Async())
        poller.start()
        async with aclosing(poller.events()) as stream:
            async for event in stream:
                if event.kind == "topic_added":
                    await asyncio.to_thread(kafka_cluster.grow_topic, topic, 5)
                if isinstance(event, PartitionsAdded):
                    break
        await poller.aclose(LIMIT_S)
        assert grown == [(threading.get_ident(), 3)]
