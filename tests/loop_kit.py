"""Runs a test on an event loop, in asyncio's debug mode."""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any

LIMIT_S = 60.0  # on a busy machine


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a loop of its own; no task and no thread of ours may be left."""

    async def limited(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(LIMIT_S):
            await test(*args, **kwargs)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        before = set(threading.enumerate())
        asyncio.run(limited(*args, **kwargs), debug=True)
        ours = [one for one in threading.enumerate() if one not in before and one.name.startswith("kpe-")]
        for thread in ours:
            thread.join(LIMIT_S)
            assert not thread.is_alive(), f"left running: {thread.name}"

    return run
