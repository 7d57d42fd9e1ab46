"""taskiq: attach to the producer that its broker has started."""

import asyncio
import os

from taskiq_aio_kafka import AioKafkaBroker

from kafka_partition_events import AdaptivePartitioner
from kafka_partition_events.clients.aiokafka import attach


class Broker(AioKafkaBroker):
    async def startup(self) -> None:
        await super().startup()
        attach(self._aiokafka_producer, rescue="hedge", partitioner=AdaptivePartitioner())


broker = Broker(os.environ["KAFKA"], "orders")


@broker.task
async def order(text: str) -> None:
    print(text)


async def main() -> None:
    await broker.startup()
    await order.kiq("three pens")
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
