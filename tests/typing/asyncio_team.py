"""A service on an event loop; ``mypy --strict`` and pyright must accept all of it."""

import asyncio

from kafka_partition_events import MetadataPoller, PartitionChangeListener, PartitionOffline
from kafka_partition_events.clients.confluent import AsyncPartitioningProducer


class Pager(PartitionChangeListener):
    """Awaits in one method, and not in the other."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    async def on_partition_offline(self, event: PartitionOffline) -> None:
        """Page."""
        await asyncio.sleep(0)
        self.topics.append(event.topic)

    def on_partition_online(self, event: object) -> None:
        """Note."""


async def serve(servers: str, poller: MetadataPoller) -> int | None:
    """Send an order, and read one event."""
    poller.register(Pager())
    async with AsyncPartitioningProducer({"bootstrap.servers": servers}, rescue="hedge") as producer:
        future = await producer.produce("orders", value=b"order", key="42")
        message = await future
        async for event in poller.events():
            return event.sequence
    await poller.aclose()
    return message.offset()
