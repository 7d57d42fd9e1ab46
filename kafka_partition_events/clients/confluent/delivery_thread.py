"""The thread of one asyncio producer: it serves librdkafka, and brings reports to the application's loop.

All that blocks is here, and all that must go on while the application blocks its loop: delivery reports, the
failure detector, copies. The loop's side of it is `Reports`. Neither keeps the front alive, so a front that
is dropped ends the thread, which then closes the producer; so does a loop that has ended. In all cases the
thread is the one that closes, so a `close` that is cancelled goes on.
"""

import asyncio
import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message

from kafka_partition_events.clients.confluent.producer import PartitioningProducer
from kafka_partition_events.log import get_logger

POLL_S = 0.1
"""How long the thread serves librdkafka before it checks whether it is to end."""

MOST_AT_ONCE = 500
"""How many outcomes are handed out before others have their turn on the loop."""

T = TypeVar("T")
Callback = Callable[..., Any]
_Report = tuple["asyncio.Future[Message]", Callback | None, KafkaError | None, Message]

_log = get_logger(__name__)


class Reports:
    """What has become of records, as the loop hears it. `put` from any thread, the rest on the loop.

    The loop is woken once for all that comes until it gets to it::

        put:     append; scheduled? no: scheduled = True, have the loop call `_settle`
        _settle: scheduled = False; take all that is there

    A `put` that finds ``scheduled`` set has appended before `_settle` begins. Two that both find it unset
    have the loop call twice, of which one finds nothing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.outstanding = 0  # records without an outcome
        self.settled = 0  # outcomes so far
        self._heard: deque[_Report] = deque()
        self._scheduled = False
        self.news = asyncio.Event()  # set when the next outcomes have come, and then replaced
        self._tasks: set[asyncio.Task[Any]] = set()
        self._finishing: weakref.WeakSet[Any] = weakref.WeakSet()

    def put(
        self,
        future: "asyncio.Future[Message]",
        outcome: Callback | None,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        """Take a delivery report."""
        self._heard.append((future, outcome, error, message))
        if not self._scheduled:
            self._scheduled = True
            self.call(self._settle)

    def call(self, function: Callback, *arguments: Any) -> None:
        """Call a function on the loop, ``async`` or not; does nothing if the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._run, function, *arguments)

    def _run(self, function: Callback, *arguments: Any) -> None:
        if asyncio.iscoroutine(result := function(*arguments)):
            task = self.loop.create_task(result)
            self._tasks.add(task)  # the loop itself keeps a weak reference
            task.add_done_callback(self._tasks.discard)

    def _settle(self) -> None:
        self._scheduled = False
        count = min(len(self._heard), MOST_AT_ONCE)
        self.outstanding -= count
        self.settled += count
        for future, outcome, error, message in [self._heard.popleft() for _ in range(count)]:
            if not future.done():  # else the application waits no more; the record went on
                if error is None:
                    future.set_result(message)
                else:
                    future.set_exception(KafkaException(error))
            if outcome is not None:
                self.loop.call_soon(self._run, outcome, error, message)  # what it raises is its own affair
        if self._heard and not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._settle)
        self.news.set()
        self.news = asyncio.Event()

    async def finish(self) -> None:
        """Wait until all that was reported is settled, and for the application's own ``async`` callbacks."""
        while self._heard:
            await self.news.wait()
        await asyncio.sleep(0)  # what was settled last has its callbacks called then
        self._finishing.add(asyncio.current_task())  # a callback that closes waits for none that does
        if others := self._tasks - {*self._finishing}:
            await asyncio.wait(others)


class DeliveryThread(threading.Thread):
    """Serves one producer until `stop`, then closes it. Thread-safe.

    Attributes:
        flushing: How many wait for all outcomes: while some do, lingering batches are sent at once.
    """

    def __init__(self, producer: PartitioningProducer, reports: Reports) -> None:
        super().__init__(name="kpe-aio", daemon=True)
        self.flushing = 0
        self._closed = asyncio.Event()
        self._producer, self._reports = producer, reports
        self._stopped = False
        self._jobs: set[Future[Any]] = set()
        self._pool = ThreadPoolExecutor(thread_name_prefix="kpe-aio-call")  # has no thread before it is used
        self.start()

    async def call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Make a call that blocks, in a thread; one that is cancelled goes on, and `close` waits for it."""
        job = self._pool.submit(function, *arguments, **named)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return await asyncio.wrap_future(job)

    def stop(self) -> None:
        """End, and close the producer, soon; waits for nothing, and is safe in a finalizer."""
        self._stopped = True

    async def ended(self) -> None:
        """Wait until it has closed the producer, and ended."""
        await self._closed.wait()
        await asyncio.to_thread(self.join)  # a moment that may be long on a busy machine

    def run(self) -> None:
        """Serve, and then close."""
        loop, producer = self._reports.loop, self._producer
        # A transaction's commit needs its reports served, so there is no end before it.
        while not (self._stopped or loop.is_closed()) or self._jobs:
            try:
                (producer.flush if self.flushing else producer.poll)(POLL_S)
            except Exception as error:  # noqa: BLE001 - only the end of the producer may end its thread
                _log.error("delivery_thread_failed", error=repr(error))
                time.sleep(POLL_S)
        if not self._stopped:
            _log.warning("producer_loop_ended", outstanding=len(producer))
        try:
            self._pool.shutdown()
            producer.close()
        except Exception as error:  # noqa: BLE001 - as above
            _log.warning("producer_close_failed", error=repr(error))
        finally:
            self._reports.call(self._closed.set)
