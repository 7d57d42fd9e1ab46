"""Time, injected: the only place that reads a clock or waits."""

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells time and waits. Thread-safe."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def now(self) -> datetime:
        """Return the aware UTC time."""

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """Wait on a condition that the caller holds, for at most ``timeout`` seconds; None: no limit."""


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the aware UTC time."""
        return datetime.now(UTC)

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """Wait on a condition that the caller holds, for at most ``timeout`` seconds; None: no limit."""
        condition.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))
