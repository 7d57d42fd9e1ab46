"""kstreams: the engine takes a class of producers."""

import asyncio
import os

import kstreams
from kstreams.backends import Kafka

from kafka_partition_events.clients.aiokafka import PartitioningAIOKafkaProducer


class Producer(PartitioningAIOKafkaProducer, kstreams.Producer):
    """What both are."""


engine = kstreams.create_engine(
    "orders", backend=Kafka(bootstrap_servers=[os.environ["KAFKA"]]), producer_class=Producer
)


async def main() -> None:
    await engine.start()
    await engine.send("orders", value=b"three pens")
    await engine.stop()


if __name__ == "__main__":
    asyncio.run(main())
