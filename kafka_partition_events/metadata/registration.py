"""A registered listener: one bounded mailbox and one worker thread for each.

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
from collections.abc import Callable
from datetime import datetime
from operator import methodcaller
from time import perf_counter, sleep
from typing import Final

from attrs import define, evolve, frozen

from kafka_partition_events.durations import NO_WORK, Durations
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import changed_partitions
from kafka_partition_events.metadata.events import Event, Resync
from kafka_partition_events.metadata.listener import PartitionChangeListener, Registrable, name_of, overrides
from kafka_partition_events.metadata.loop import (
    LoopEndedError,
    inside,
    loop_for,
    refuse_on,
    run_hook,
    running_loop,
)

FAILURES_BEFORE_PAUSE = 5
PAUSE_S = 5.0
"""For how long a listener that has failed so often in a row is paused after each failure."""

SLICE_S: Final = 0.001
"""How long a worker delivers before it rests, if no event takes longer."""
REST_S: Final = 0.000_05
"""How long it rests. A rest of 0 would be none: who waits for the interpreter takes a while to wake up."""

_log = get_logger(__name__)


@frozen
class Batch:
    """The events that follow from one accepted change, or one replay.

    Without an event it says that a poll found none, for listeners that override `on_settled`.
    """

    cluster: Cluster
    events: tuple[Event, ...]
    polled_at: datetime | None = None


@define(kw_only=True)
class RegistrationStats:
    """What one registered listener has been through.

    Attributes:
        delivered: Events that a listener method returned from.
        failures: Calls of listener methods that raised.
        dropped: Events lost to a full mailbox.
        lag: Events waiting now, behind the batch in hand.
        last_error: The last exception, as text.
        paused: Whether delivery is paused after repeated failures.
        durations: How long the listener took for all that one change, one replay, or one event from elsewhere
            delivered; without the pauses after failures.
        ended: Whether the thread that delivers has ended, although the listener is registered: a bug.
    """

    delivered: int = 0
    failures: int = 0
    dropped: int = 0
    lag: int = 0
    last_error: str | None = None
    paused: bool = False
    durations: Durations = NO_WORK
    ended: bool = False


class Registration:
    """The handle of one registered listener, with its queue and worker. Thread-safe."""

    def __init__(
        self,
        listener: Registrable,
        *,
        capacity: int,
        clock: Clock,
        on_closed: "Callable[[Registration], None]" = lambda _: None,
    ) -> None:
        self.listener = listener
        """What is registered."""
        self.name = name_of(listener)
        self._wants_changes = overrides(listener, "on_partitions_change")
        self.wants_settled = overrides(listener, "on_settled")
        self.is_deaf = not isinstance(listener, PartitionChangeListener)
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
        # Each counter has one writer: `dropped` the lock's holder, the others the worker.
        self._stats = RegistrationStats()
        self._consecutive = 0  # failures in a row
        self._began = 0.0  # when the batch in hand was begun, later by the pauses since

    # -- the poller's side ---------------------------------------------------------------------------

    def put(self, batch: Batch) -> None:
        """Queue a batch; never blocks for longer than a few microseconds, never raises."""
        with self._condition:
            if self._closing or self.is_deaf:
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
        self._accepted -= len(self._queue)
        self._forget_queue()
        self._stats.dropped += lost
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
        return Batch(batch.cluster, (resync,), batch.polled_at)

    def _ensure_worker(self) -> None:
        if self._worker is not None:
            return
        worker = threading.Thread(target=self._run, name=f"kpe-listener-{self.name}", daemon=True)
        try:
            worker.start()
            self._worker = worker
        except RuntimeError as error:  # no more threads, or the interpreter is going down: at the next put
            _log.error("listener_worker_not_started", listener=self.name, error=repr(error))

    # -- the user's side -----------------------------------------------------------------------------

    @property
    def stats(self) -> RegistrationStats:
        """What the listener has been through so far."""
        with self._condition:
            ended = self._worker is not None and not (self._closing or self._worker.is_alive())
            return evolve(self._stats, lag=self._waiting, ended=ended)

    def wait_synced(self, timeout: float) -> bool:
        """Wait until everything that was queued at the time of this call has been handled.

        Inside a callback of the same listener that cannot come true before the timeout.

        Args:
            timeout: Seconds to wait at most. Returns False when they passed first.

        Raises:
            RuntimeError: called on the loop where the listener's ``async def`` methods run.
        """
        refuse_on([self.loop], "wait_synced", "await asyncio.to_thread(registration.wait_synced, timeout)")
        with self._condition:
            target = self._accepted
            return self._condition.wait_for(lambda: self._handled >= min(target, self._accepted), timeout)

    def close(self, *, wait: float = 0.0, drain: bool = False) -> None:
        """Unregister: no event is handed over any more, and `PartitionChangeListener.close` is called.

        Idempotent, and allowed inside the listener's own callbacks.

        Args:
            wait: Seconds to wait for a callback that is running now; ignored inside a callback, and on
                the loop where ``async def`` ones run.
            drain: Whether what is queued is still delivered first.
        """
        with self._condition:
            if not self._closing:
                self._closing, self._drain = True, drain
                if not drain:
                    self._forget_queue()
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
            took = self._clock.monotonic() - self._began
            self._stats.durations = self._stats.durations.plus(took)
            with self._condition:
                self._handled += 1
                self._condition.notify_all()
            del batch  # while it waits for the next one, a worker must not keep all of a replay
        with self._condition:
            self._closing = True
            self._forget_queue()
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
        if self._wants_changes and not self._cut_short and (changed := changed_partitions(batch.events)):
            self._attempt(methodcaller("on_partitions_change", batch.cluster, changed))
        rest_at = perf_counter() + SLICE_S
        for event in batch.events:
            if self._cut_short:
                return
            if self._attempt(event.deliver):
                self._stats.delivered += 1
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
            self._stats.failures += 1
            self._stats.last_error, text = repr(error), traceback.format_exc()
            _log.warning("listener_failed", listener=self.name, error=repr(error), exception=text)
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
            self._forget_queue()

    def _forget_queue(self) -> None:
        self._queue.clear()
        self._waiting = 0

    def _pause(self) -> None:
        began = self._clock.monotonic()
        with self._condition:
            self._stats.paused = True
            while not self._closing and (left := began + PAUSE_S - self._clock.monotonic()) > 0:
                self._clock.wait(self._condition, left)
            self._stats.paused = False
        self._began += self._clock.monotonic() - began
