"""Time, injected: the only place that reads a clock or waits."""

import threading
import time
from datetime import UTC, datetime
from typing import Protocol
from zoneinfo import ZoneInfo


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


def is_zone(name: str) -> bool:
    """Tell whether there is a time zone of that name, such as ``Europe/Berlin``."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # a path that leads elsewhere; a directory; none there
        return False
    return True
