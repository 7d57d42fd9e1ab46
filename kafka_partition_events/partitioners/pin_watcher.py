"""The thread that keeps an instance's pins up to date."""

import math
import threading

from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.forking import reset_in_children
from kafka_partition_events.partitioners.pinned_topics import PinnedTopics
from kafka_partition_events.partitioners.pins import READ_LIMIT_S

_log = get_logger(__name__)


class PinWatcher:
    """Calls `PinnedTopics.step` each ``interval`` seconds, and at the moment when a cut-over is due.

    In the last seconds before that it only waits, so that a store that hangs can't make it late. It does not
    know the partitioner, and so does not keep it alive. Thread-safe; the garbage collector may call `close`.
    """

    def __init__(self, topics: PinnedTopics, interval: float, clock: Clock) -> None:
        """Make a watcher; `wake` starts it."""
        self._topics = topics
        self._interval = interval
        self._clock = clock
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._woken = False
        topics.wake = self.wake
        reset_in_children(self)

    def wake(self) -> None:
        """Let the next step come now, and start the thread if it does not run."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="kpe-pins", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # no more threads, or the interpreter is going down
                    _log.error("pin_watcher_not_started", error=repr(error))
                else:
                    self._thread = thread

    def close(self) -> None:
        """End the thread, without waiting for it. Placing a key starts another."""
        with self._condition:
            self._thread = None
            self._condition.notify_all()
        # In this order: a key that is placed in between goes by counts that are in force, or starts a thread.
        self._topics.close()

    def reset_after_fork(self) -> None:
        """Start afresh in a forked child; placing a key wakes the watcher there."""
        self._condition = threading.Condition()
        self._thread = None
        self._topics.reset_after_fork()

    def _run(self) -> None:
        while True:
            with self._condition:
                if self._thread is not threading.current_thread():
                    return
                self._woken = False
            change = self._topics.step()
            self._sleep(math.inf if change is None else change - self._clock.now().timestamp())

    def _sleep(self, until_change: float) -> None:
        waits_for_change = until_change <= self._interval + READ_LIMIT_S
        deadline = self._clock.monotonic() + (until_change if waits_for_change else self._interval)
        with self._condition:
            while self._thread is threading.current_thread() and (waits_for_change or not self._woken):
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return
                self._clock.wait(self._condition, left)
