"""Time, injected where something waits or has a date; what only counts seconds takes a callable."""

import threading
import time
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any


class Clock:
    """Reads time and waits, by the machine's clocks; tests override it. Thread-safe."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the aware UTC time."""
        return datetime.now(UTC)

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """Wait on a condition that the caller holds, for at most ``timeout`` seconds; None: no limit."""
        condition.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    def get(self, queue: SimpleQueue[Any], timeout: float) -> Any:
        """Return the next item of a queue, or None after ``timeout`` seconds at most."""
        try:
            return queue.get(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX)))
        except Empty:
            return None
