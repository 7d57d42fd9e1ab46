"""A poller's events for ``async for``: the registration's worker hands them over, the loop takes them.

Between the two there is room for a few, so that the mailbox stays the queue that collapses to a `Resync`
where the reader is slow.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.loop import CHECK_S, LoopEndedError
from kafka_partition_events.metadata.registration import Registration

AHEAD = 64
"""How many events the worker may hand over before the reader takes one."""


async def event_stream(
    register: Callable[[PartitionChangeListener], Registration], is_closing: Callable[[], bool]
) -> AsyncGenerator[Event]:
    """Yield events as they come, on the loop that iterates; see `MetadataPoller.events`."""
    feed = _Feed(asyncio.get_running_loop(), is_closing)
    registration = register(feed)
    try:
        while (event := await feed.take()) is not None:
            yield event
    finally:
        feed.leave()
        registration.close()


class _Feed(PartitionChangeListener):
    """The stream as its registration sees it, which must not keep the stream itself alive."""

    name = "events"

    def __init__(self, loop: asyncio.AbstractEventLoop, is_closing: Callable[[], bool]) -> None:
        self._loop, self._is_closing = loop, is_closing
        self._handed: asyncio.Queue[Event | None] = asyncio.Queue()
        self._room = threading.Semaphore(AHEAD)
        self._left = False

    def on_event(self, event: Event) -> None:
        """Hand over, in the worker's thread; where the poller closes what is left is handed over at once."""
        while not (self._left or self._is_closing() or self._room.acquire(timeout=CHECK_S)):
            if self._loop.is_closed():
                raise LoopEndedError
        self._hand_over(event)

    def close(self) -> None:
        """End the iteration after what was handed over."""
        with suppress(LoopEndedError):
            self._hand_over(None)

    def _hand_over(self, event: Event | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._handed.put_nowait, event)
        except RuntimeError:
            raise LoopEndedError from None

    async def take(self) -> Event | None:
        """Return the next event, on the loop; None after the last."""
        event = await self._handed.get()
        self._room.release()
        return event

    def leave(self) -> None:
        """Let a worker go on that waits for room."""
        self._left = True
        self._room.release()
