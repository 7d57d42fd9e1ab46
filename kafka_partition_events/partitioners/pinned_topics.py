"""What one instance knows of its fleet's pins: read from the store, written where it lacks some.

The thread that keeps it up to date is here, too.
"""

import math
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kafka_partition_events.errors import ConfigurationError, PinStoreError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.forking import reset_in_children
from kafka_partition_events.partitioners.pins import (
    READ_LIMIT_S,
    History,
    Pin,
    PinStore,
    agreed,
    counts_in_force,
    first_pin,
    next_change,
    with_cut_over,
)

_ATTEMPTS = 3

_log = get_logger(__name__)


class PinnedTopics:
    """The pins of all topics, as this instance knows them. Thread-safe; only `step` and `cut_over` do I/O.

    Attributes:
        in_force: By topic, the counts that have come into effect, the one in force last. Whoever places a
            key reads it; what is missing there is asked of `pin`.
        wake: Called, without a lock, when `step` has something to do.
        last_error: Why the store could not be used the last time; None when it could.
    """

    def __init__(self, store: PinStore, clock: Clock) -> None:
        """Read the store.

        Raises:
            PinStoreError: it can't be read.
        """
        self.in_force: dict[str, tuple[int, ...]] = {}
        self.wake: Callable[[], None] = lambda: None
        self.last_error: str | None = None
        self._store = store
        self._clock = clock
        self._known: dict[str, History] = dict(store.read())
        self._reached: dict[str, tuple[int, ...]] = {}  # what was in force last: it outlives `in_force`
        self._unreadable = store.unreadable
        self._open = True
        self._make_locks()
        self._put_in_force()

    def _make_locks(self) -> None:
        self._lock = threading.RLock()  # the garbage collector may run in here and close another instance
        self._using_store = threading.Lock()

    @property
    def pins(self) -> Mapping[str, History]:
        """The history of every topic."""
        return MappingProxyType(self._known)

    def pin(self, topic: str, present: int) -> tuple[int, ...]:
        """Return the counts in force of a topic. One without a pin is pinned to its present number.

        Raises:
            PinStoreError: the store has something of it that can't be read: its keys might move.
        """
        if (cause := self._unreadable.get(topic)) is not None:
            raise PinStoreError(cause)
        with self._lock:
            self._open = True
            now, known = self._now(), self._known
            if topic not in known:
                self._known = {**known, topic: first_pin(present, now)}
            counts = self.in_force[topic] = self._counts(topic, now)
        if topic not in known:
            # A store without any pin is a new one, or one that was lost: then keys may have moved.
            log = _log.info if known else _log.warning
            log("topic_pinned", topic=topic, partitions=present, new_store=not known)
        self.wake()
        return counts

    def learn(self, stored: Mapping[str, History]) -> None:
        """Hear what was in the store, as if it had been read when this instance began. No I/O."""
        self._unreadable = self._store.unreadable
        with self._lock:
            self._agree(stored)
        self._put_in_force()

    def step(self) -> float | None:
        """Put in force what is due, read the store, and write what it lacks.

        Returns:
            When the next change comes into effect, in Unix seconds; None when none is pending.
        """
        self._put_in_force()  # a store that hangs must not hold up a cut-over
        with self._using_store:
            try:
                if not self._exchange():
                    self._exchange()  # read at once what somebody else was first to write
            except Exception as error:  # noqa: BLE001 - a store may be foreign code
                self._failed(error)
            else:
                self.last_error = None
        self._put_in_force()
        with self._lock:
            now = self._now()
            changes = [next_change(history, now) for history in self._known.values()]
        return min((change for change in changes if change is not None), default=None)

    def cut_over(self, topic: str, count: int, delay: float) -> Pin:
        """Add a pin to the store's history of a topic, to come into effect ``delay`` seconds from now.

        Raises:
            ConfigurationError: a cut-over is pending, the count does not grow, or the topic has no pin yet.
            PinStoreError: the store can't be read or written.
        """
        with self._using_store:
            for _ in range(_ATTEMPTS):
                stored = self._store.read().get(topic)
                if (cause := self._store.unreadable.get(topic)) is not None:
                    raise PinStoreError(cause)
                known = self._known.get(topic, stored)
                if known is None:
                    raise ConfigurationError(
                        f"topic {topic} has no pin yet; its first keyed record pins it to all its partitions"
                    )
                now = self._now()
                history = with_cut_over(agreed(known, stored), count, at=now + delay, now=now)
                if self._store.replace(topic, stored, history):
                    with self._lock:
                        self._known = {**self._known, topic: history}
                    break
            else:
                raise PinStoreError(f"others changed the pin of topic {topic} meanwhile; try again")
        self._put_in_force()  # what was in the store may differ from a first sight of this instance's own
        self.wake()
        return history[-1]

    def close(self) -> None:
        """Let `pin` be asked first if a key is placed once more, because nobody calls `step` now."""
        with self._lock:
            self._open = False
            self.in_force = {}

    def reset_after_fork(self) -> None:
        """Start afresh in a forked child, where whoever held a lock does not exist."""
        self._make_locks()
        self.in_force = {}

    # -- the store -----------------------------------------------------------------------------------

    def _exchange(self) -> bool:
        """Read the store and write what it lacks; return whether nobody else was first."""
        stored = self._store.read()
        self._unreadable = self._store.unreadable
        with self._lock:
            known = self._agree(stored)
        written = [
            self._store.replace(topic, stored.get(topic), history)
            for topic, history in known.items()
            if history != stored.get(topic) and topic not in self._unreadable
        ]
        return all(written)

    def _agree(self, stored: Mapping[str, History]) -> Mapping[str, History]:
        """Take over what is stored, and return what holds of the topics that were known before."""
        known = {topic: agreed(history, stored.get(topic)) for topic, history in self._known.items()}
        self._known = {**stored, **known}
        return known

    def _failed(self, error: Exception) -> None:
        known_trouble, self.last_error = self.last_error is not None, str(error) or repr(error)
        if not known_trouble:
            _log.warning("pin_store_failed", error=self.last_error)

    # -- what is in force ----------------------------------------------------------------------------

    def _put_in_force(self) -> None:
        with self._lock:
            if not self._open:
                return
            now, before = self._now(), self.in_force
            self.in_force = after = {topic: self._counts(topic, now) for topic in self._known}
            moved = [topic for topic, counts in before.items() if after[topic] != counts]
        for topic in moved:
            _log.info("keys_cut_over", topic=topic, before=before[topic][-1], after=after[topic][-1])

    def _counts(self, topic: str, now: float) -> tuple[int, ...]:
        """Return the counts in force: after `close` and in a forked child, too, they never go back."""
        counts = counts_in_force(self._known[topic], now, self._reached.get(topic, ()))
        self._reached[topic] = counts
        return counts

    def _now(self) -> float:
        return self._clock.now().timestamp()


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
