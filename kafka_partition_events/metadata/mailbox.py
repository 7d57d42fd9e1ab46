"""One bounded mailbox and one worker thread for each registered listener.

A put never blocks and never grows a mailbox without bound: a batch that does not fit behind a backlog
replaces it by one `Resync`. Batches are shared between mailboxes by reference, so a thousand listeners cost
a thousand references. The worker starts with the first batch; a listener that hears nothing costs no thread.

A worker with much to deliver rests now and then. A thread that computes keeps CPython's interpreter for 5 ms
after another one has begun to wait for it, a producer's say, and so again for each listener.
"""

import inspect
import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from operator import methodcaller
from time import perf_counter, sleep
from typing import Final

from attrs import frozen

from kafka_partition_events.durations import NO_WORK
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicPartition
from kafka_partition_events.metadata.events import Event, Resync
from kafka_partition_events.metadata.listener import (
    Registrable,
    Registration,
    RegistrationStats,
    hears_events,
    name_of,
    overrides,
)
from kafka_partition_events.metadata.loop import (
    LoopEndedError,
    inside,
    loop_for,
    refuse_on,
    run_hook,
    running_loop,
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
    """What follows from one accepted change, or one replay: the events, and KIP-34's map if it is overridden.

    Without an event it says that a poll found none, for listeners that override `on_settled`.
    """

    cluster: Cluster
    events: tuple[Event, ...]
    changed: Mapping[TopicPartition, PartitionInfo] | None = None
    polled_at: datetime | None = None


class Mailbox(Registration):
    """A listener's queue and worker. Thread-safe."""

    def __init__(
        self,
        listener: Registrable,
        *,
        capacity: int,
        clock: Clock,
        on_closed: "Callable[[Mailbox], None]" = lambda _: None,
    ) -> None:
        self.listener = listener
        self.name = name_of(listener)
        self.wants_changes = overrides(listener, "on_partitions_change")
        self.wants_settled = overrides(listener, "on_settled")
        self._deaf = not hears_events(listener)
        self.loop = loop_for(listener)
        self._here = running_loop()
        self._capacity = capacity  # events that a backlog may hold
        self._clock = clock
        self._on_closed = on_closed  # idempotent; called without any lock held
        self._condition = threading.Condition()
        self._queue: deque[Batch] = deque()
        self._waiting = 0  # events in the queue
        self._accepted = 0  # batches ever put, less those dropped
        self._handled = 0  # batches ever finished
        self._worker: threading.Thread | None = None
        self._closing = False
        self._drain = False
        self._closed = threading.Event()
        # Each counter has one writer: `_dropped` the lock's holder, the others the worker.
        self._dropped = 0
        self._delivered = 0
        self._failures = 0
        self._consecutive = 0
        self._last_error: str | None = None
        self._paused = False
        self._began = 0.0  # when the batch in hand was begun, later by the pauses since
        self._durations = NO_WORK

    # -- the poller's side ---------------------------------------------------------------------------

    def put(self, batch: Batch) -> None:
        """Queue a batch; never blocks for longer than a few microseconds, never raises."""
        with self._condition:
            if self._closing or self._deaf:
                return
            if not batch.events and self._queue and not self._queue[-1].events:
                self._queue[-1] = batch  # the later poll says all that the earlier one did
                return
            # A batch of any size fits an empty mailbox: one broker loss may move thousands of leaders.
            if batch.events and self._waiting and self._waiting + len(batch.events) > self._capacity:
                batch = self._collapse(batch)
            self._queue.append(batch)
            self._waiting += len(batch.events)
            self._accepted += 1
            self._ensure_worker()
            self._condition.notify_all()

    def _collapse(self, batch: Batch) -> Batch:
        queued = [event for missed in self._queue for event in missed.events]
        resyncs = [event for event in queued if isinstance(event, Resync)]
        lost = len(queued) - len(resyncs) + len(batch.events)
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
            dropped=lost + sum(earlier.dropped for earlier in resyncs),
        )
        return Batch(batch.cluster, (resync,), changed, batch.polled_at)

    def _ensure_worker(self) -> None:
        if self._worker is not None:
            return
        worker = threading.Thread(target=self._run, name=f"kpe-listener-{self.name}", daemon=True)
        try:
            worker.start()
            self._worker = worker
        except RuntimeError as error:  # no more threads, or the interpreter is going down: at the next put
            _log.error("listener_worker_not_started", listener=self.name, error=repr(error))

    # -- the user's side (Registration) --------------------------------------------------------------

    @property
    def stats(self) -> RegistrationStats:
        """See `Registration`."""
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
        """See `Registration`."""
        refuse_on([self.loop], "wait_synced", "await asyncio.to_thread(registration.wait_synced, timeout)")
        with self._condition:
            target = self._accepted
            return self._condition.wait_for(lambda: self._handled >= min(target, self._accepted), timeout)

    def close(self, *, wait: float = 0.0, drain: bool = False) -> None:
        """See `Registration`.

        Args:
            wait: Seconds to wait for a callback that is running now; ignored inside a callback, and on
                the loop where ``async def`` ones run.
            drain: Whether what is queued is still delivered first.
        """
        with self._condition:
            if not self._closing:
                self._closing, self._drain = True, drain
                if not drain:
                    self._queue.clear()
                    self._waiting = 0
                if self._worker is None and not self._queue and not overrides(self.listener, "close"):
                    self._closed.set()
                else:
                    self._ensure_worker()
                self._condition.notify_all()
        self._on_closed(self)
        is_inside = threading.current_thread() is self._worker or inside.get() is self
        if wait > 0 and not is_inside and (self.loop is None or running_loop() is not self.loop):
            self._closed.wait(wait)

    # -- the worker ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            self._began = self._clock.monotonic()
            self._deliver(batch)
            self._durations = self._durations.plus(self._clock.monotonic() - self._began)
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
            self._finish(self.listener.close())  # type: ignore[func-returns-value] # it may be async
        except LoopEndedError:
            pass  # it can't be called
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
        if self.wants_changes and batch.changed and not self._cut_short:
            self._attempt(methodcaller("on_partitions_change", batch.cluster, batch.changed))
        rest_at = perf_counter() + SLICE_S
        for event in batch.events:
            if self._cut_short:
                return
            if self._attempt(event.deliver):
                self._delivered += 1
            if perf_counter() >= rest_at:
                sleep(REST_S)
                rest_at = perf_counter() + SLICE_S
        if self.wants_settled and not self._cut_short:
            self._attempt(methodcaller("on_settled", batch.cluster, batch.polled_at))

    @property
    def _cut_short(self) -> bool:
        return self._closing and not self._drain

    def _attempt(self, call: Callable[[Registrable], object]) -> bool:
        try:
            self._finish(call(self.listener))
        except LoopEndedError:
            _log.warning("listener_loop_ended", listener=self.name)
            self._give_up()
            return False
        except BaseException as error:  # noqa: BLE001 - whatever a listener raises, SystemExit too, is its own affair
            self._failures += 1
            self._last_error, text = repr(error), traceback.format_exc()
            _log.warning("listener_failed", listener=self.name, error=self._last_error, exception=text)
            self._consecutive += 1
            if self._consecutive >= FAILURES_BEFORE_PAUSE:
                self._pause()
            return False
        self._consecutive = 0
        return True

    def _finish(self, hook: object) -> None:
        if inspect.iscoroutine(hook):
            run_hook(self._here, hook, self, lambda: self._closing)

    def _give_up(self) -> None:
        """Take no batch any more, and leave the rest of this one: `_run` unregisters the listener."""
        with self._condition:
            self._closing, self._drain = True, False
            self._queue.clear()
            self._waiting = 0

    def _pause(self) -> None:
        began = self._clock.monotonic()
        doublings = min(self._consecutive - FAILURES_BEFORE_PAUSE, 32)  # more than 1,023 are no float
        until = began + min(MAX_PAUSE_S, PAUSE_S * 2**doublings)
        with self._condition:
            self._paused = True
            while not self._closing and (left := until - self._clock.monotonic()) > 0:
                self._clock.wait(self._condition, left)
            self._paused = False
        self._began += self._clock.monotonic() - began
