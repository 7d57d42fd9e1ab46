"""A clock that stands still until a test moves it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import Any

from attrs import define

from kafka_partition_events.metadata.clock import Clock

_START = datetime(2024, 1, 1, tzinfo=UTC)


@define(eq=False)
class _Waiter:
    wake: Callable[[], object]
    deadline: float


class ManualClock(Clock):
    """A clock whose time passes by `advance` only. Thread-safe; nothing ever sleeps.

    A wait ends when its condition is notified, or when `advance` passes its deadline. A test that must not
    move the time before some thread waits for it calls `wait_for_waiters` first::

        clock.wait_for_waiters()  # the poller has gone to sleep
        clock.advance(30)         # its next poll is due

    Lock order: a waiter holds its condition and then takes the clock's lock for a moment; `advance` lets go
    of the clock's lock before it takes any condition. So call `advance` without holding a lock.
    """

    def __init__(self, start: float = 0.0, wall: datetime = _START) -> None:
        """Make a clock.

        Args:
            start: The monotonic time now, in seconds.
            wall: The same moment as an aware UTC time.
        """
        self._start = start
        self._wall = wall
        self._time = start
        self._waiters: list[_Waiter] = []
        self._changed = threading.Condition()

    def monotonic(self) -> float:
        """Return the seconds that have been advanced, counted from ``start``."""
        with self._changed:
            return self._time

    def now(self) -> datetime:
        """Return the aware UTC time; it moves in step with `monotonic`, but for `set_back`."""
        return self._wall + timedelta(seconds=self.monotonic() - self._start)

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """Wait on a condition that the caller holds, until notified or ``timeout`` has been advanced."""
        if timeout is None:
            condition.wait()
        elif timeout <= 0:
            condition.wait(0)  # lets others take the lock, as a real clock would
        else:

            def notify() -> None:
                with condition:
                    condition.notify_all()

            # `advance` notifies with the condition held, so it cannot come between here and the wait.
            with self._waiting(notify, timeout):
                condition.wait()

    def get(self, queue: SimpleQueue[Any], timeout: float) -> Any:
        """Return the next item of a queue, or None when ``timeout`` has been advanced.

        `advance` puts a None to that end. One that comes too late, because there was an item in the same
        moment, lets the next call return early; who waits for a moment reads the clock again.
        """
        if timeout <= 0:
            return None if queue.empty() else queue.get()
        with self._waiting(lambda: queue.put(None), timeout):
            return queue.get()

    @contextmanager
    def _waiting(self, wake: Callable[[], object], timeout: float) -> Iterator[None]:
        with self._changed:
            waiter = _Waiter(wake, self._time + timeout)
            self._waiters.append(waiter)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._waiters.remove(waiter)

    def advance(self, seconds: float) -> None:
        """Let time pass in one step, and wake all that waited for a moment that is now past.

        Args:
            seconds: How many, 0 or more.

        Raises:
            ValueError: time cannot go back.
        """
        if seconds < 0:
            raise ValueError(f"time cannot go back: advance({seconds})")
        with self._changed:
            self._time += seconds
            due = [waiter.wake for waiter in self._waiters if waiter.deadline <= self._time]
        for wake in due:
            wake()

    def set_back(self, seconds: float) -> None:
        """Set the aware UTC time back, as NTP or an operator may; `monotonic` is as it was.

        Args:
            seconds: By how much; a negative number sets it ahead.
        """
        self._wall -= timedelta(seconds=seconds)

    def wait_for_waiters(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait, in real time, until so many threads wait for a moment that lies in the future.

        Args:
            count: How many threads.
            timeout: Real seconds after which to give up.

        Raises:
            TimeoutError: fewer threads than that came to wait.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._sleeping() >= count, timeout):
                raise TimeoutError(f"{self._sleeping()} threads wait for this clock, not {count}")

    def _sleeping(self) -> int:
        return sum(waiter.deadline > self._time for waiter in self._waiters)
