"""A poller's events for ``async for``: the reader takes them from the mailbox itself, on its loop."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.registration import Batch, Registration
from kafka_partition_events.metadata.subscriptions import Subscriptions


class Stream(Registration):
    """A registration that an ``async for`` reads. It does not keep that alive, whose end unregisters it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.loop, self.is_deaf = asyncio.get_running_loop(), False
        self._arrived = asyncio.Event()

    def _begin(self) -> None:
        self._woken = False
        self._arrived.set()

    def close(self, *, wait: float = 0.0, drain: bool = False) -> None:
        """Unregister; with ``drain`` the iteration ends after what is queued. Waits for nothing."""
        super().close(drain=drain)
        with self._condition:
            self._wake()

    async def next_batch(self) -> Batch | None:
        """Return what came first, on the loop; None after the last."""
        while (batch := self._take()) is None and not self._at_end:
            self._arrived.clear()
            await self._arrived.wait()
        self._stats.delivered += 0 if batch is None else len(batch.events)
        return batch


async def event_stream(subscriptions: Subscriptions, **options: Any) -> AsyncGenerator[Event]:
    """Yield events as they come, on the loop that iterates; see `MetadataPoller.events`."""
    listener = PartitionChangeListener()
    listener.name = "events"
    with subscriptions.locked():
        stream = cast("Stream", subscriptions.register(listener, kind=Stream, **options))
    try:
        while (batch := await stream.next_batch()) is not None:
            for event in batch.events:
                yield event
    finally:
        stream.close()
