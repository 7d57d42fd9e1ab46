"""How readers wait for entries: what both kinds of outbox have in common."""

import threading
from collections.abc import Callable

from kafka_partition_events.metadata.clock import Clock


class Arrivals:
    """The lock of an outbox, and the place where its readers wait for entries. Thread-safe.

    Attributes:
        condition: Guards the outbox. Notify it, with the lock held, when entries have been appended. A reader
            looks for entries with the lock held and lets go of it by waiting only, so it misses none.
        closed: Whether `close` was called; read it with the lock held.
    """

    def __init__(self, clock: Clock) -> None:
        self.condition = threading.Condition()
        self.closed = False
        self._clock = clock
        self._woken: set[str] = set()

    def wait(self, reader: str, timeout: float, has_next: Callable[[], bool]) -> bool:
        """Wait until ``has_next``, which is called with the lock held; at most ``timeout`` seconds."""
        deadline = self._clock.monotonic() + timeout
        with self.condition:
            while not self.closed:
                if has_next():
                    return True
                left = deadline - self._clock.monotonic()
                if reader in self._woken or left <= 0:
                    break
                self._clock.wait(self.condition, left)
            self._woken.discard(reader)
            return False

    def wake(self, reader: str) -> None:
        """Let the reader's `wait` return; remembered if it does not wait now."""
        with self.condition:
            self._woken.add(reader)
            self.condition.notify_all()

    def close(self) -> None:
        """Let every `wait` return False from now on."""
        with self.condition:
            self.closed = True
            self.condition.notify_all()
