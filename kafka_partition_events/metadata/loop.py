"""The application's asyncio loop, as a worker uses it for ``async def`` hooks.

The worker hands a hook's coroutine to the loop and waits for it. So the mailbox stays the only queue, and
what it promises (order, one at a time, isolation, `Resync`) holds for such hooks, too. A wait ends when

    the hook has returned, or raised, or was cancelled: its future knows;
    the loop is closed: its future never knows, as a loop drops what it was handed. So we check;
    the loop does not run (between two ``run_until_complete``) and the listener is being closed: the hook is
    cancelled, and if the loop runs again it finds that.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from kafka_partition_events.errors import ConfigurationError

CHECK_S = 0.1
"""How often a thread that waits for a loop checks whether that is still there."""

inside: ContextVar[object] = ContextVar("kpe_inside", default=None)
"""The mailbox whose hook runs here, on the loop; its close waits for no callback there."""


class LoopEndedError(Exception):
    """The application's loop has ended: what needs it can't be called any more."""


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs in this thread; None if none does."""
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def loop_for(listener: object) -> asyncio.AbstractEventLoop | None:
    """Return the loop that a listener needs: the running one if it has ``async def`` methods, else None.

    Raises:
        ConfigurationError: it has, and no loop runs in this thread.
    """
    names = [name for name in dir(listener) if name.startswith("on_") or name == "close"]
    found = next((name for name in names if inspect.iscoroutinefunction(getattr(listener, name))), None)
    if found is None:
        return None
    if (loop := running_loop()) is None:
        raise ConfigurationError(
            f"{type(listener).__name__}.{found} is async: register it in a coroutine, on whose loop it is to "
            "run; no loop runs in this thread"
        )
    return loop


def refuse_on(loops: Collection[object], call: str, instead: str) -> None:
    """Raise `RuntimeError` where a call would block one of these loops, which it waits for itself."""
    if (loop := running_loop()) is not None and loop in loops:
        raise RuntimeError(f"{call} would block the loop that its listeners or its source need: {instead}")


def run_hook(
    loop: asyncio.AbstractEventLoop | None,
    hook: Coroutine[Any, Any, Any],
    mailbox: object,
    is_closing: Callable[[], bool],
) -> None:
    """Run a hook's coroutine on the loop, and wait for it; in the worker's thread.

    Raises:
        LoopEndedError: it did not run to its end, as the loop has ended.
        BaseException: what the hook raised.
    """
    if loop is None:
        hook.close()
        raise TypeError("a hook returned a coroutine, and no loop ran where its listener was registered")
    run = _Run(loop, hook, mailbox)
    with suppress(RuntimeError):  # it is closed
        loop.call_soon_threadsafe(run.begin)
    while True:
        if loop.is_closed() or (is_closing() and not loop.is_running()):
            run.give_up()
            raise LoopEndedError
        with suppress(TimeoutError):
            error = run.done.exception(CHECK_S)
            break
    if isinstance(error, asyncio.CancelledError):
        # A loop that ends cancels its tasks, then closes. What it gets in between it would begin, and leave.
        time.sleep(CHECK_S)
    if error is not None:
        raise error


class _Run:
    """One hook on its loop; the worker waits until it is ``done``."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, hook: Coroutine[Any, Any, Any], mailbox: object
    ) -> None:
        self.done: Future[None] = Future()
        self._loop, self._hook, self._mailbox = loop, hook, mailbox
        self._task: asyncio.Task[None] | None = None  # kept here: a loop has weak references to its tasks

    def begin(self) -> None:
        """Begin it, on the loop, unless the worker has given up: of the two calls one comes first."""
        if self.done.set_running_or_notify_cancel():
            self._task = self._loop.create_task(self._guarded())

    async def _guarded(self) -> None:
        inside.set(self._mailbox)  # for this task, and those that it begins
        try:
            await self._hook
        except BaseException as error:
            self.done.set_exception(error)
            if not isinstance(error, (Exception, SystemExit)):  # that one would end the application's loop
                raise
        else:
            self.done.set_result(None)

    def give_up(self) -> None:
        """Leave it, in the worker's thread: its loop does not run. What has not begun is closed."""
        if not self.done.cancel() and self._task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)
        if inspect.getcoroutinestate(self._hook) == inspect.CORO_CREATED:  # else Python warns of it
            self._hook.close()
