"""A producer that is attached: its records, and what the engine of records asks of aiokafka.

All of it is on the application's loop, one step after the other; nothing here waits but coroutines of the
application's. Our threads are the poller's, and one that makes and closes the second way: both have the loop
run what they need (`Calls`), and no coroutine waits for them.
"""

import asyncio
import contextlib
import functools
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, ClassVar, Final

from aiokafka import AIOKafkaProducer, errors
from aiokafka.structs import TopicPartition

from kafka_partition_events.clients.aiokafka.private import (
    THEIRS,
    FullError,
    ProducerSettings,
    accumulator_of,
    append_now,
    has_open_batch,
    take_records,
    while_sending,
)
from kafka_partition_events.clients.aiokafka.second import SecondAccumulator
from kafka_partition_events.clients.flight.detour import Detour
from kafka_partition_events.clients.flight.key_order import FIRST
from kafka_partition_events.clients.flight.record import Attempt, Record
from kafka_partition_events.clients.futures import FutureAdapter, embed, stamped
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner

SERVE_EVERY_S: Final = 0.01
"""How often brokers are judged, and copies and what is held are sent, while records are in flight."""

LATE_S: Final = 0.05
"""When the loop comes so much later it was busy: answers are still to be read, and copies would make
it busier."""

_DRAWS: Final = 8  # partitions that a record without a key is tried in before it waits for room


class AiokafkaAdapter(FutureAdapter):
    """Hands the records of one producer to its accumulators. On the loop.

    Attributes:
        topics: Which the producer has written.
        made: The second ways that are not closed yet.
    """

    no_room: ClassVar[tuple[type[BaseException], ...]] = (FullError,)
    errors: ClassVar[Any] = errors
    closed: ClassVar[type[BaseException]] = errors.ProducerClosed

    def __init__(
        self,
        producer: AIOKafkaProducer,
        partitioner: Partitioner,
        settings: ProducerSettings,
        detour: Detour[SecondAccumulator],
        made: set[SecondAccumulator],
    ) -> None:
        super().__init__(partitioner, producer.client.cluster, settings.limit_s, detour)
        self.topics, self.made = set[str](), made
        self._accumulator, self._first_sender = accumulator_of(producer), settings.sender
        self._queues: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by topic, for room
        self._loop = asyncio.get_running_loop()
        self._pausing = 0  # how many records are a turn of the loop behind
        self._reports_due = 0  # of records that were handed over
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # when the timer is to fire; the loop's time
        self._was_late = False

    # -- the producer's methods ----------------------------------------------------------------------

    def take_part(
        self, producer: AIOKafkaProducer, began: Callable[[str], None], stopped: Callable[[], None]
    ) -> None:
        """Make the producer an instance of a subclass of its class, for as long as it lives.

        ``began`` is called with each topic that is written, once; ``stopped`` when the producer is about to
        stop, and has stopped.
        """
        kind: Any = type(producer)  # its methods are read each time: a tracer may wrap them later

        async def flush(producer: AIOKafkaProducer) -> None:  # also the second way, copies, and what is held
            keyed = self.flight.keyed
            outcomes = [record.given.outcome for record in self.flight.copies.open]
            outcomes += [] if keyed is None else [it.record.outcome for it in keyed.order.held()]
            await kind.flush(producer)
            for second in tuple(self.made):
                await second.flush()
            if outcomes:
                await asyncio.wait(outcomes)

        async def stop(producer: AIOKafkaProducer) -> None:
            try:
                await while_sending(producer.flush(), self._first_sender)
                self._detour.end()
                stopped()  # the poller is to ask nothing of a client that closes
                await asyncio.sleep(0)  # a second way that is being made is there by now, or never will be
                for second in tuple(self.made):
                    await second.close()
                await kind.stop(producer)
                self.flight.end()  # flushed, unless a task has just sent more
            finally:  # also where who waits for it gives up
                stopped()

        def began_once(topic: str) -> None:
            if topic not in self.topics:
                self.topics.add(topic)
                began(topic)

        take_records(producer, began_once, self._add)
        embed(producer, flush=flush, stop=stop)

    async def _add(self, record: Record, limit_s: float) -> Any:
        """Send a record, and wait for room for so long; return its future for the application.

        Records of a topic that may go anywhere wait one behind the other: if all did, room for one of them
        would wake thousands.
        """
        if self._may_be_copied(record):
            record = record._replace(outcome=self._loop.create_future())
        if record.key is not None and (self.flight.waiting or self._pausing):
            # No full batch suspends who sends to a key that waits, and what it waits for needs the loop.
            self._pausing += 1
            try:
                await asyncio.sleep(0)
            finally:
                self._pausing -= 1
        full = self._send(record)
        if not isinstance(full, list):
            return full
        queue: Any = self._queues[record.topic] if record.key is None else contextlib.nullcontext()
        try:
            async with asyncio.timeout(limit_s), queue:
                while isinstance(full := self._send(record), list):
                    await asyncio.wait(full, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise errors.KafkaTimeoutError from None
        return full

    def _send(self, record: Record) -> Any:
        """Send a record; return its future for the application, or a list of what to wait for room for."""
        drained: dict[int, asyncio.Future[None]] = {}
        for _ in range(_DRAWS if record.key is None else 1):
            partition = self.choose(record, drained) if record.key is None else None
            try:
                return self.flight.send(record, partition)
            except FullError as error:
                drained[error.partition] = error.drained
                self.move_on(record.topic, error.partition)
        return list(drained.values())

    # -- judging, copies and what is held ------------------------------------------------------------

    def _see_to(self) -> None:
        """Serve in a moment."""
        if self._timer is None:
            self._due = self._loop.time() + SERVE_EVERY_S
            self._timer = self._loop.call_at(self._due, self._serve)

    def _serve(self) -> None:
        """Judge the brokers, and send copies and what was held, unless the loop was busy just now.

        An application that blocks its loop reads no answers meanwhile: when it lets go, this timer comes
        before them, as each takes several turns of the loop from the socket to its record. So it waits for
        one more time. A loop that is late each time has every other one; it sends no copies of what seems
        stuck then.
        """
        self._timer = None
        is_late = self._loop.time() - self._due > LATE_S
        self._was_late = is_late and not self._was_late
        try:
            if not self._was_late:
                self.flight.served(hedges=not is_late)
        finally:  # the loop logs what a callback raises, and goes on
            if self._reports_due or self.flight.waiting:
                self._see_to()

    # -- what the engine asks: see `Client` ----------------------------------------------------------

    def _take_turns(self, record: Record, partition: int) -> int:
        """Move on where the record would begin a batch (KIP-480); aiokafka informs no one of that."""
        if has_open_batch(self._accumulator, record.topic, partition):
            return partition
        if not self.move_on(record.topic, partition):  # a probe
            return partition
        known = self.knows(record.topic)
        return self._partitioner.partition(record.topic, None, None, None, record.value, known)

    def hand_over(self, record: Record, attempt: Attempt) -> Any:
        """Append a record, which is serialized; return the future for the application."""
        sent_at = time.monotonic()
        if attempt.handle == FIRST:
            future = self._append_first(record, attempt)
        else:
            future = self._send_by_second(record, attempt.partition)
        rescuable = attempt.rescuable
        if rescuable is None and not attempt.tracked and attempt.key is None:
            return future
        outcome = None if attempt.key is None else record.outcome  # of one that was held, or might have been
        future.add_done_callback(functools.partial(self._reported, attempt, sent_at, outcome))
        self._reports_due += 1
        self._see_to()
        if rescuable is not None:
            return rescuable.given.outcome
        # The application may cancel what it gets (`asyncio.wait_for`); the record goes on, and its report
        # counts.
        return asyncio.shield(future) if outcome is None else outcome

    def _append_first(self, record: Record, attempt: Attempt) -> "asyncio.Future[Any]":
        topic, partition, known = record.topic, attempt.partition, self._known
        if partition == UNASSIGNED:
            all_partitions = sorted(known.partitions_for_topic(topic))
            partition = THEIRS(record.key, all_partitions, list(known.available_partitions_for_topic(topic)))
            future = append_now(self._accumulator, record, partition)
            self.flight.placed(attempt, partition)
            return future
        if known.leader_for_partition(TopicPartition(topic, partition)) is None:
            raise errors.UnknownTopicOrPartitionError
        return append_now(self._accumulator, record, partition)

    def hold(self, record: Record, waiting: int) -> tuple[Record, Any]:
        """Return a record that is to be kept for later, and the application's future."""
        outcome = record.outcome or self._loop.create_future()
        self._see_to()
        return record._replace(timestamp_ms=stamped(record), outcome=outcome), outcome

    def knows_no_such_partition(self, error: BaseException) -> bool:
        """Return whether the client has not heard of a partition."""
        return isinstance(error, errors.UnknownTopicOrPartitionError)

    def _reported(
        self, attempt: Attempt, sent_at: float, outcome: Any, future: "asyncio.Future[Any]"
    ) -> None:
        """Bring a future's outcome to the engine."""
        self._reports_due -= 1
        error: BaseException | None = asyncio.CancelledError() if future.cancelled() else future.exception()
        self._report(attempt, sent_at, outcome, None if error is not None else future.result(), error)

    def _resolve(self, outcome: Any, arrived: Any, error: BaseException | None) -> None:
        with contextlib.suppress(asyncio.InvalidStateError):  # the application may have given up
            if error is None:
                outcome.set_result(arrived)
            else:
                outcome.set_exception(error)
