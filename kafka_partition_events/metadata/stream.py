"""A poller's events for ``async for``: the mailbox's worker hands them over, the loop takes them.

Between the two is a deque with room for a few, so that the mailbox stays the queue that collapses to
a `Resync` where the reader is slow. The worker wakes the loop once for all that comes until the loop does it:

    worker:  append; woken? no: woken = True, have the loop call `wake`
    loop:    `wake`: woken = False; arrived.set()
    reader:  empty? arrived.clear(); wait for arrived

If the worker finds `woken` set, `wake` has not begun, and sets `arrived` after what was just appended. Reader
and `wake` run on one thread, so `wake` can't come between the reader's check and its wait.
"""

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Self

from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener, Registration
from kafka_partition_events.metadata.loop import CHECK_S, LoopEndedError

AHEAD = 64
"""How many events the worker may hand over before the reader takes one."""


class EventStream(AsyncIterator[Event]):
    """Events as they come: ``async for event in poller.events()``. For one loop; not thread-safe.

    It is registered like a listener, with the same contract: order, at most once, a `Resync` in place of what
    a slow reader missed. It ends when the poller is closed, after what was queued. It is unregistered when
    its reader leaves: by `aclose` (``async with``), by a cancelled wait, or when the last reference is gone.

    Attributes:
        registration: Its handle, with ``stats``.
    """

    def __init__(
        self,
        register: Callable[[PartitionChangeListener, bool, int], Registration],
        is_closing: Callable[[], bool],
        *,
        replay: bool,
        capacity: int,
    ) -> None:
        self._feed = feed = _Feed(asyncio.get_running_loop(), is_closing)
        self.registration = register(feed, replay, capacity)
        # Only what may be done anywhere, as the garbage collector may do it.
        self._leave = weakref.finalize(self, _leave, feed, self.registration)
        self._leave.atexit = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self._feed.take()
        except asyncio.CancelledError:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Unregister, and end the iteration; waits for nothing. Idempotent."""
        self._leave()
        self._feed.wake()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()


class _Feed(PartitionChangeListener):
    """The stream as its mailbox sees it; the mailbox must not keep the stream itself alive."""

    name = EventStream.__name__

    def __init__(self, loop: asyncio.AbstractEventLoop, is_closing: Callable[[], bool]) -> None:
        self._loop, self._is_closing = loop, is_closing
        self._handed: deque[Event] = deque()
        self._room = threading.Semaphore(AHEAD)
        self._arrived = asyncio.Event()
        self._woken = self.left = self._ended = False

    def on_event(self, event: Event) -> None:
        """Hand over, in the worker's thread; where the poller closes what is left is handed over at once."""
        while not (self.left or self._is_closing() or self._room.acquire(timeout=CHECK_S)):
            if self._loop.is_closed():
                raise LoopEndedError
        self._handed.append(event)
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self.wake)
            except RuntimeError:
                raise LoopEndedError from None

    def leave(self) -> None:
        """Let a worker go on that waits for room."""
        self.left = True
        self._room.release()

    async def close(self) -> None:  # type: ignore[override]
        """End the iteration after what was handed over; on the loop, after the last event."""
        self._ended = True
        self.wake()

    def wake(self) -> None:
        """Let the reader see what has changed; on the loop."""
        self._woken = False
        self._arrived.set()

    async def take(self) -> Event:
        """Return the next event, on the loop."""
        while not (self._handed or self._ended or self.left):
            self._arrived.clear()
            await self._arrived.wait()
        if self.left or not self._handed:
            raise StopAsyncIteration
        self._room.release()
        return self._handed.popleft()


def _leave(feed: _Feed, registration: Registration) -> None:
    registration.close()
    feed.leave()
