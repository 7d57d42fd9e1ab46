"""Who waits until a poll is finished that began after they asked for it. Thread-safe, without a lock."""

import threading
from collections.abc import Callable
from contextlib import ExitStack


class _Request(threading.Event):
    """Set when such a poll is finished, or the poller is closed."""

    served = False  # by a poll

    def serve(self) -> None:
        self.served = True
        self.set()


class Requests:
    """Those of one poller."""

    def __init__(self, is_closed: Callable[[], bool]) -> None:
        self._is_closed = is_closed  # whether the poller is; if so, it stays so
        self._awaited: set[_Request] = set()

    def wait(self, timeout: float, ask: Callable[[], object]) -> bool:
        """Ask for a poll and wait for it; return whether it came within so many seconds."""
        request = _Request()
        self._awaited.add(request)
        ask()
        # `close` first marks the poller, then ends what is awaited: one of us two sees the other.
        if not self._is_closed():
            request.wait(min(timeout, threading.TIMEOUT_MAX))
        self._awaited.discard(request)
        return request.served

    def begin(self, finished: ExitStack) -> None:
        """Note what a poll that begins now will have served when it is finished."""
        for request in tuple(self._awaited):
            finished.callback(request.serve)

    def end(self) -> None:
        """Let all go on: the poller is closed."""
        for request in tuple(self._awaited):
            request.set()
