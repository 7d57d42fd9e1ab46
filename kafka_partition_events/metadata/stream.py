"""A poller's events for ``async for``: the registration's worker hands them over, the loop takes them.

Between the two is a deque with room for a few, so that the mailbox stays the queue that collapses to a
`Resync` where the reader is slow. The worker wakes the loop once for all that comes until the loop does it:
if it finds `woken` set, `_wake` has not begun, and sets `arrived` after what was just appended. Reader and
`_wake` run on one thread, so `_wake` can't come between the reader's check and its wait.
"""

import asyncio
import threading
from collections import deque
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
    feed = _Feed(loop := asyncio.get_running_loop(), is_closing)
    registration = register(feed)
    registration.loop = loop  # where calls that wait for the reader are refused
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
        self._handed: deque[Event | None] = deque()
        self._arrived, self._woken = asyncio.Event(), False
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
        self._handed.append(event)
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                raise LoopEndedError from None

    def _wake(self) -> None:
        self._woken = False
        self._arrived.set()

    async def take(self) -> Event | None:
        """Return the next event, on the loop; None after the last."""
        while not self._handed:
            self._arrived.clear()
            await self._arrived.wait()
        self._room.release()
        return self._handed.popleft()

    def leave(self) -> None:
        """Let a worker go on that waits for room."""
        self._left = True
        self._room.release()
