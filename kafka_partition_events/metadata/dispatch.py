"""One bounded mailbox and one worker thread for each registered listener.

A put never blocks and never grows a mailbox without bound: a batch that does not fit behind a backlog
replaces it by one `Resync`. Batches are shared between mailboxes by reference, so a thousand listeners cost
a thousand references. The worker starts with the first batch; a listener that hears nothing costs no thread.

A worker with much to deliver rests now and then. A thread that computes keeps CPython's interpreter for 5 ms
after another one has begun to wait for it: for each listener that works off a broker loss a producer's thread
would wait 5 ms, run for 5 ms, and wait again.
"""

import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from operator import methodcaller
from time import perf_counter, sleep
from typing import Final, Self

from attrs import frozen

from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicPartition
from kafka_partition_events.metadata.durations import NO_WORK
from kafka_partition_events.metadata.events import Event, Resync
from kafka_partition_events.metadata.listener import (
    Registrable,
    RegistrationStats,
    hears_events,
    name_of,
    overrides,
)

FAILURES_BEFORE_PAUSE = 5
PAUSE_S = 1.0
MAX_PAUSE_S = 60.0

SLICE_S: Final = 0.001
"""How long a worker delivers before it rests, if no event takes longer."""
REST_S: Final = 0.000_05
"""How long it rests. A rest of 0 would be none: who waits for the interpreter takes a while to wake up."""

_log = get_logger(__name__)


@frozen
class Batch:
    """What one accepted change, or one replay, tells: the events, and KIP-34's map for who overrides it.

    Without an event it is the news that a look found none, for who overrides `on_settled`.
    """

    cluster: Cluster
    events: tuple[Event, ...]
    changed: Mapping[TopicPartition, PartitionInfo] | None = None
    looked_at: datetime | None = None


class Mailbox:
    """A listener's queue and worker; it is the `Registration` that users hold. Thread-safe."""

    def __init__(
        self,
        listener: Registrable,
        *,
        capacity: int,
        clock: Clock,
        on_closed: "Callable[[Mailbox], None]" = lambda _: None,
    ) -> None:
        """Make the mailbox; nothing runs yet.

        Args:
            listener: Whose mailbox it is.
            capacity: How many undelivered events a backlog may hold.
            clock: Times the pauses of a failing listener.
            on_closed: Called once when the mailbox closes, without any lock held.
        """
        self.listener = listener
        self.name = name_of(listener)
        self.wants_changes = overrides(listener, "on_partitions_change")
        self.wants_settled = overrides(listener, "on_settled")
        self._deaf = not hears_events(listener)
        self._has_close = overrides(listener, "close")
        self._capacity = capacity
        self._clock = clock
        self._on_closed = on_closed
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._condition = threading.Condition()
        self._queue: deque[Batch] = deque()
        self._waiting = 0  # events in the queue
        self._accepted = 0  # batches ever put, less those dropped
        self._handled = 0  # batches ever finished
        self._worker: threading.Thread | None = None
        self._closing = False
        self._drain = False
        self._closed = threading.Event()
        # Each counter has one writer: `_dropped` whoever holds the lock, the others the worker.
        self._dropped = 0
        self._delivered = 0
        self._failures = 0
        self._consecutive = 0
        self._last_error: str | None = None
        self._paused = False
        self._rested = 0.0  # seconds of all pauses
        self._durations = NO_WORK

    def reset_after_fork(self) -> bool:
        """Start afresh in a forked child: the worker and whoever held the lock exist in the parent only.

        Returns:
            Whether the mailbox is still in use.
        """
        in_use = self.listener.survives_fork and not self._closing
        self._start_afresh()
        if not in_use:
            self._closing = True
            self._closed.set()
        return in_use

    # -- the poller's side ---------------------------------------------------------------------------

    def put(self, batch: Batch) -> None:
        """Queue a batch; never blocks for longer than a few microseconds, never raises."""
        with self._condition:
            if self._closing or self._deaf:
                return
            if not batch.events and self._queue and not self._queue[-1].events:
                self._queue[-1] = batch  # the later look says all that the earlier one did
                return
            # A batch of any size fits an empty mailbox: one broker loss may move thousands of leaders,
            # and a listener that keeps up must not be told to start over for that.
            if batch.events and self._waiting and self._waiting + len(batch.events) > self._capacity:
                batch = self._collapse(batch)
            self._queue.append(batch)
            self._waiting += len(batch.events)
            self._accepted += 1
            self._ensure_worker()
            self._condition.notify_all()

    def _collapse(self, batch: Batch) -> Batch:
        earlier = sum(e.dropped for b in self._queue for e in b.events if isinstance(e, Resync))
        resyncs = sum(isinstance(e, Resync) for b in self._queue for e in b.events)
        lost = self._waiting - resyncs + len(batch.events)
        changed = {
            tp: now
            for missed in (*self._queue, batch)
            for tp in missed.changed or ()
            if (now := batch.cluster.partition(tp)) is not None
        }
        self._accepted -= len(self._queue)
        self._queue.clear()
        self._waiting = 0
        self._dropped += lost
        last = batch.events[-1]
        resync = Resync(
            cluster_id=last.cluster_id,
            sequence=last.sequence,
            generation=last.generation,
            observed_at=last.observed_at,
            wall_time=last.wall_time,
            cluster=batch.cluster,
            dropped=earlier + lost,
        )
        return Batch(batch.cluster, (resync,), changed, batch.looked_at)

    def _ensure_worker(self) -> None:
        if self._worker is not None:
            return
        worker = threading.Thread(target=self._run, name=f"kpe-listener-{self.name}", daemon=True)
        try:
            worker.start()
        except RuntimeError as error:
            # No more threads, or the interpreter is going down: try again at the next put.
            _log.error("listener_worker_not_started", listener=self.name, error=repr(error))
        else:
            self._worker = worker

    # -- the user's side (Registration) --------------------------------------------------------------

    @property
    def stats(self) -> RegistrationStats:
        """What the listener has been through so far."""
        with self._condition:
            return RegistrationStats(
                delivered=self._delivered,
                failures=self._failures,
                dropped=self._dropped,
                lag=self._waiting,
                last_error=self._last_error,
                paused=self._paused,
                durations=self._durations,
                ended=self._worker is not None and not (self._closing or self._worker.is_alive()),
            )

    def wait_synced(self, timeout: float) -> bool:
        """Wait until everything that was queued at the time of this call has been handled.

        Args:
            timeout: Seconds to wait at most. Returns False when they passed first.
        """
        with self._condition:
            target = self._accepted
            return self._condition.wait_for(lambda: self._handled >= min(target, self._accepted), timeout)

    def close(self, *, wait: float = 0.0, drain: bool = False) -> None:
        """Unregister: no event is handed over any more, and `PartitionChangeListener.close` is called.

        Idempotent, and allowed inside the listener's own callbacks.

        Args:
            wait: Seconds to wait for a callback that is running now; ignored inside a callback.
            drain: Whether what is queued is still delivered first.
        """
        with self._condition:
            if not self._closing:
                self._closing, self._drain = True, drain
                if not drain:
                    self._queue.clear()
                    self._waiting = 0
                if self._worker is None and not self._queue and not self._has_close:
                    self._closed.set()
                else:
                    self._ensure_worker()
                self._condition.notify_all()
        self._on_closed(self)
        if wait > 0 and threading.current_thread() is not self._worker:
            self._closed.wait(wait)

    def __enter__(self) -> Self:
        """Return the handle."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Unregister."""
        self.close()

    # -- the worker ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            began = self._working_time()
            self._deliver(batch)
            self._durations = self._durations.plus(self._working_time() - began)
            with self._condition:
                self._handled += 1
                self._condition.notify_all()
            del batch  # while it waits for the next one, a worker must not keep all of a replay
        with self._condition:
            self._closing = True
            self._queue.clear()
            self._waiting = 0
            self._handled = self._accepted
            self._condition.notify_all()
        self._on_closed(self)
        try:
            self.listener.close()
        except BaseException as error:  # noqa: BLE001 - close() is the listener's code
            _log.warning("listener_close_failed", listener=self.name, error=repr(error))
        finally:
            self._closed.set()

    def _next(self) -> Batch | None:
        with self._condition:
            while not self._queue and not self._closing:
                self._clock.wait(self._condition, None)
            if not self._queue:
                return None
            batch = self._queue.popleft()
            self._waiting -= len(batch.events)
            return batch

    def _deliver(self, batch: Batch) -> None:
        listener = self.listener
        if self.wants_changes and batch.changed and not self._cut_short:
            self._attempt(methodcaller("on_partitions_change", batch.cluster, batch.changed), listener)
        rest_at = perf_counter() + SLICE_S
        for event in batch.events:
            if self._cut_short:
                return
            if self._attempt(event.deliver, listener):
                self._delivered += 1
            if perf_counter() >= rest_at:
                sleep(REST_S)
                rest_at = perf_counter() + SLICE_S
        if self.wants_settled and not self._cut_short:
            self._attempt(methodcaller("on_settled", batch.cluster, batch.looked_at), listener)

    @property
    def _cut_short(self) -> bool:
        return self._closing and not self._drain

    def _attempt(self, call: Callable[..., None], *args: object) -> bool:
        try:
            call(*args)
        except BaseException as error:  # noqa: BLE001 - whatever a listener raises, SystemExit too, is its own affair
            _log.warning(
                "listener_failed", listener=self.name, error=repr(error), exception=traceback.format_exc()
            )
            self._failures += 1
            self._last_error = repr(error)
            self._consecutive += 1
            if self._consecutive >= FAILURES_BEFORE_PAUSE:
                self._pause()
            return False
        self._consecutive = 0
        return True

    def _pause(self) -> None:
        over = self._consecutive - FAILURES_BEFORE_PAUSE
        began = self._clock.monotonic()
        until = began + min(MAX_PAUSE_S, PAUSE_S * 2**over)
        with self._condition:
            self._paused = True
            while not self._closing and (left := until - self._clock.monotonic()) > 0:
                self._clock.wait(self._condition, left)
            self._paused = False
        self._rested += self._clock.monotonic() - began

    def _working_time(self) -> float:
        """Return the seconds of a clock that stands still in pauses."""
        return self._clock.monotonic() - self._rested
