"""The application's asyncio loop: who needs it, and what would stop it."""

import asyncio
import inspect
from collections.abc import Collection
from contextlib import suppress
from contextvars import ContextVar

from kafka_partition_events.errors import ConfigurationError

inside: ContextVar[object] = ContextVar("kpe_inside", default=None)
"""The registration whose callback runs here, or has begun what runs here: its close does not wait for it."""


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
