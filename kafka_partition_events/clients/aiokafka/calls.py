"""Runs coroutines on the application's loop for our own threads, which wait for them; never the other way."""

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from typing import Any, TypeVar

from kafka_partition_events.metadata.loop import LoopEndedError

T = TypeVar("T")


class Calls:
    """What our threads have running on one loop, until `end`. Thread-safe."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: set[concurrent.futures.Future[Any]] = set()
        self.ended = False

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float) -> T:
        """Return what a coroutine returns. Not on the loop, which would wait for itself.

        Raises:
            TimeoutError: it took longer than so many seconds, be it that the loop is busy; it is cancelled.
            LoopEndedError: the loop has ended.
            BaseException: whatever the coroutine raises.
        """
        if self.ended:  # the loop may be closed before it begins with a coroutine
            coroutine.close()
            raise LoopEndedError("the producer was stopped")
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as error:
            coroutine.close()
            raise LoopEndedError("the application's event loop is closed") from error
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        # `end` first sets the mark, then cancels what is there: one of us two sees the other.
        if self.ended:
            future.cancel()
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise
        except concurrent.futures.CancelledError:
            raise LoopEndedError("the producer was stopped, or its loop has ended") from None

    def end(self) -> None:
        """Cancel what runs and what is still to come. Waits for nothing; threads that wait for it go on."""
        self.ended = True
        for future in tuple(self._open):
            future.cancel()
