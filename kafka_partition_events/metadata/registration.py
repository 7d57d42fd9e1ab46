"""A registered listener: one bounded mailbox, and what reads it: a thread, or the application's loop.

A put never blocks and never grows a mailbox without bound: a batch that does not fit behind a backlog
replaces it by one `Resync`. Batches are shared between mailboxes by reference, so a thousand listeners cost
a thousand references. The worker starts with the first batch; a listener that hears nothing costs no thread.

A listener with ``async def`` methods has no thread: a put wakes the loop, and a task there reads until
nothing is left. So nothing of ours waits for a loop that may end; one that has ended refuses to be woken, and
that unregisters the listener.

Who has much to deliver rests now and then. A thread that computes keeps CPython's interpreter for 5 ms
after another one has begun to wait for it, a producer's say, and so again for each listener.
"""

import asyncio
import inspect
import threading
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime
from operator import methodcaller
from time import perf_counter, sleep
from typing import Any, Final

from attrs import define, evolve, frozen

from kafka_partition_events.durations import NO_WORK, Durations
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import changed_partitions
from kafka_partition_events.metadata.events import Event, Resync
from kafka_partition_events.metadata.listener import HOOKS, PartitionChangeListener, name_of, overrides
from kafka_partition_events.metadata.loop import inside, loop_for, refuse_on, running_loop

SLICE_S: Final = 0.001
"""How long a worker delivers before it rests, if no event takes longer."""
REST_S: Final = 0.000_05
"""How long it rests. A rest of 0 would be none: who waits for the interpreter takes a while to wake up."""

_ENDS_A_LOOP = KeyboardInterrupt, GeneratorExit  # a task that swallowed one would go on

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
        durations: How long the listener took for all that one change, one replay, or one event from elsewhere
            delivered.
        ended: Whether the thread that delivers has ended, although the listener is registered: a bug.
    """

    delivered: int = 0
    failures: int = 0
    dropped: int = 0
    lag: int = 0
    last_error: str | None = None
    durations: Durations = NO_WORK
    ended: bool = False


class Registration:
    """The handle of one registered listener, with its queue and what reads it. Thread-safe."""

    def __init__(
        self,
        listener: PartitionChangeListener,
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
        self.is_deaf = not any(overrides(listener, name) for name in HOOKS)
        self.loop = loop_for(listener)
        """Where it is read; None: on a thread."""
        self._context = copy_context()  # of who registers it: what an emitter traces ends with its call
        self.ends_unused = False  # it was made for producers, and ends with the last of them
        self._capacity = capacity  # events that a backlog may hold
        self._clock = clock
        self._on_closed = on_closed  # idempotent; called without any lock held
        self._condition = threading.Condition()
        self._queue: deque[Batch] = deque()
        self._waiting = 0  # events in the queue
        self._is_busy = False  # a batch is in hand
        self._worker: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None  # the worker on a loop, which has weak references to it
        self._woken = False  # the loop was asked to begin, and will see all that came by then
        self._closing = False
        self._at_end = False  # and the worker has found nothing more
        self._cut_short = False  # and what is queued is not delivered
        self._closed = threading.Event()
        # Each counter has one writer: `dropped` the lock's holder, the others the worker.
        self._stats = RegistrationStats()

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
            self._wake()
        if self._closing:  # for its loop has ended
            self._on_closed(self)

    def _collapse(self, batch: Batch) -> Batch:
        missed = [event for each in (*self._queue, batch) for event in each.events]
        resyncs = [event for event in missed if isinstance(event, Resync)]
        lost = len(missed) - len(resyncs)
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

    def _wake(self) -> None:
        """Have the worker see what was put, or that it is closed; under the lock."""
        self._condition.notify_all()
        if self.loop is not None and (not self._woken or self.loop.is_closed()):
            self._woken = True
            try:
                self.loop.call_soon_threadsafe(self._begin, context=self._context)
            except RuntimeError:
                self._loop_ended()
        elif self.loop is None and self._worker is None:
            worker = threading.Thread(target=self._run, name=f"kpe-listener-{self.name}", daemon=True)
            try:
                worker.start()
                self._worker = worker
            except RuntimeError as error:  # no more threads, or the interpreter goes down: at the next put
                _log.error("listener_worker_not_started", listener=self.name, error=repr(error))

    def _loop_ended(self) -> None:
        """Take no batch any more: nothing would read it. The listener's `close` can't be called either."""
        with self._condition:
            if not self._closing:
                _log.warning("listener_loop_ended", listener=self.name)
            self._closing, self._cut_short, self._is_busy = True, True, False
            self._forget_queue()
            self._condition.notify_all()
            self._closed.set()

    # -- the user's side -----------------------------------------------------------------------------

    @property
    def stats(self) -> RegistrationStats:
        """What the listener has been through so far."""
        with self._condition:
            ended = self._worker is not None and not (self._closing or self._worker.is_alive())
            return evolve(self._stats, lag=self._waiting, ended=ended)

    def wait_synced(self, timeout: float) -> bool:
        """Wait until everything that was queued has been handled.

        Inside a callback of the same listener that cannot come true before the timeout.

        Args:
            timeout: Seconds to wait at most. Returns False when they passed first.

        Raises:
            RuntimeError: called on the loop where the listener's ``async def`` methods run.
        """
        refuse_on([self.loop], "wait_synced", "await asyncio.to_thread(registration.wait_synced, timeout)")
        with self._condition:
            return self._condition.wait_for(lambda: not self._queue and not self._is_busy, timeout)

    def close(self, *, wait: float = 0.0, drain: bool = False) -> None:
        """Unregister: no event is handed over any more, and `PartitionChangeListener.close` is called.

        Idempotent, and allowed inside the listener's own callbacks.

        Args:
            wait: Seconds to wait for a callback that is running now; ignored inside a callback, and where
                that would stop the loop on which ``async def`` ones run, or it does not run.
            drain: Whether what is queued is still delivered first.
        """
        with self._condition:
            if not self._closing:
                self._closing, self._cut_short = True, not drain
                if not drain:
                    self._forget_queue()
                was_read = self._worker is not None or self._task is not None
                if was_read or self._queue or overrides(self.listener, "close"):
                    self._wake()
                else:
                    self._closed.set()
        self._on_closed(self)
        goes_on = self.loop is None or (self.loop.is_running() and self.loop is not running_loop())
        if wait > 0 and goes_on and inside.get() is not self:
            self._closed.wait(wait)

    # -- the worker: a thread, or a task on the loop ---------------------------------------------------

    def _run(self) -> None:
        while not self._closed.is_set():
            with self._condition:
                self._condition.wait_for(lambda: self._queue or self._closing)
            with suppress(StopIteration):  # on a thread it has nothing to wait for
                self._read().send(None)

    def _begin(self) -> None:
        """Read on the loop, if no task does so already."""
        self._woken = False
        if self.loop is not None and (self._task is None or self._task.done()):
            self._task = self.loop.create_task(self._read_on_loop())

    async def _read_on_loop(self) -> None:
        try:
            await self._read()
        except (Exception, asyncio.CancelledError, KeyboardInterrupt):  # the loop ends, and cancels its tasks
            self._loop_ended()
            self._on_closed(self)
            raise

    async def _read(self) -> None:
        """Deliver all that is queued, and close the listener if no more will come."""
        inside.set(self)
        while (batch := self._take()) is not None:
            began = self._clock.monotonic()
            await self._deliver(batch)
            self._stats.durations = self._stats.durations.plus(self._clock.monotonic() - began)
            del batch  # while it waits for the next one, a worker must not keep all of a replay
        if self._at_end and not self._closed.is_set():
            await self._end()

    def _take(self) -> Batch | None:
        """Return the next batch; None when there is none left, and none in hand any more.

        Whether that is the end is decided here: a moment later another thread may have put a batch and then
        closed.
        """
        with self._condition:
            self._is_busy = bool(self._queue)
            if not self._queue:
                self._at_end = self._closing
                self._condition.notify_all()
                return None
            batch = self._queue.popleft()
            self._waiting -= len(batch.events)
            return batch

    async def _end(self) -> None:
        self._on_closed(self)
        try:
            hook: object = self.listener.close()  # type: ignore[func-returns-value] # it may be async
            if inspect.iscoroutine(hook):
                await self._finish(hook)
        except BaseException as error:  # noqa: BLE001 - close() is the listener's code
            _log.warning("listener_close_failed", listener=self.name, error=repr(error))
        finally:
            self._closed.set()

    async def _deliver(self, batch: Batch) -> None:
        if self._wants_changes and not self._cut_short and (changed := changed_partitions(batch.events)):
            await self._attempt(methodcaller("on_partitions_change", batch.cluster, changed))
        rest_at = perf_counter() + SLICE_S
        for event in batch.events:
            if self._cut_short:
                return
            if await self._attempt(event.deliver):
                self._stats.delivered += 1
            if perf_counter() >= rest_at:
                if self.loop is not None:
                    await asyncio.sleep(0)
                else:
                    sleep(REST_S)  # noqa: ASYNC251 - on a thread
                rest_at = perf_counter() + SLICE_S
        if self.wants_settled and not self._cut_short:
            await self._attempt(methodcaller("on_settled", batch.cluster, batch.polled_at))

    async def _attempt(self, call: Callable[[PartitionChangeListener], object]) -> bool:
        try:
            hook = call(self.listener)
            if inspect.iscoroutine(hook):
                await self._finish(hook)
        except BaseException as error:  # whatever a listener raises, SystemExit too, is its own affair
            if self._task is not None and (self._task.cancelling() or isinstance(error, _ENDS_A_LOOP)):
                raise
            self._stats.failures += 1
            self._stats.last_error, text = repr(error), traceback.format_exc()
            _log.warning("listener_failed", listener=self.name, error=repr(error), exception=text)
            return False
        return True

    async def _finish(self, hook: Coroutine[Any, Any, object]) -> None:
        if self.loop is None:
            hook.close()
            raise TypeError("a method returned a coroutine: only what async def defines is awaited")
        await hook

    def _forget_queue(self) -> None:
        self._queue.clear()
        self._waiting = 0
