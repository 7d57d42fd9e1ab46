"""A producer that is attached: its methods, and what the engine of records asks of kafka-python.

Values are serialized here, once, by the producer's own method: they may be sent later, or more than once,
although the objects may change. For a record without a key that goes by the first producer kafka-python asks
the partitioner itself, within ``send``; so it is handed over first, and its partition read from the future
(`Flight.placed`). For all others the partitioner is asked here.
"""

import contextlib
import functools
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Final

from kafka import KafkaProducer, errors
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.structs import TopicPartition

from kafka_partition_events.clients.embedding import embed
from kafka_partition_events.clients.flight.copies import Copies
from kafka_partition_events.clients.flight.detour import Detour
from kafka_partition_events.clients.flight.key_order import FIRST
from kafka_partition_events.clients.flight.record import Attempt, Record, as_list
from kafka_partition_events.clients.futures import FutureAdapter, stamped
from kafka_partition_events.clients.kafka_python.private import cluster_of, is_closed, partition_of, serialize
from kafka_partition_events.clients.kafka_python.second import Second
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.partitioners.sticky import record_bytes

_FLUSH_STEP_S: Final = 0.02
_RELEASE_STEP_S: Final = 0.005  # between two questions which records that are held may go
_BYTES: Final = frozenset({bytes, bytearray, memoryview, type(None)})


class Adapter(FutureAdapter):
    """Hands the records of one producer, which it does not keep alive, to its handles. Thread-safe."""

    errors: ClassVar[Any] = errors

    def __init__(
        self, producer: KafkaProducer, partitioner: Partitioner, detour: Detour[Second] | None
    ) -> None:
        limit_s = producer.config["delivery_timeout_ms"] / 1000
        super().__init__(partitioner, cluster_of(producer), limit_s, detour)
        self._producer = weakref.ref(producer)
        self._kind: Any = type(producer)  # its methods are read each time: a tracer may wrap them later
        self._batch_size = producer.config["batch_size"]
        self._turns: dict[str, int] = {}  # bytes by topic, since the last one ended
        self._releasing = False
        self._release_lock = threading.RLock()  # a signal handler may send in there

    # -- the producer's methods ----------------------------------------------------------------------

    def take_part(self, producer: KafkaProducer, closed: Callable[[], None]) -> None:
        """Make the producer an instance of a subclass of its class, for as long as it lives.

        ``closed`` is called when it was closed.
        """
        kind = self._kind

        def send(
            producer: KafkaProducer,
            topic: str,
            value: Any = None,
            key: Any = None,
            headers: Any = None,
            partition: int | None = None,
            timestamp_ms: int | None = None,
        ) -> Any:
            if (value is None and key is None) or not (headers is None or isinstance(headers, list)):
                return self._plain(
                    producer, Record(topic, value, key, None, timestamp_ms, headers), partition
                )
            headers = as_list(headers)  # to which a serializer may add
            key = serialize(kind, producer, "key_serializer", topic, headers, key)
            value = serialize(kind, producer, "value_serializer", topic, headers, value)
            record = Record(topic, value, key, None, timestamp_ms, headers)
            if partition is not None or not {type(key), type(value)} <= _BYTES:
                return self._plain(producer, record, partition)
            value = None if value is None else bytes(value)
            return self._send(record._replace(value=value, key=None if key is None else bytes(key)))

        def flush(producer: KafkaProducer, timeout: float | None = None) -> None:
            self._flush(producer, timeout)

        def close(producer: KafkaProducer, timeout: float | None = None, null_logger: bool = False) -> None:
            with contextlib.ExitStack() as at_last:
                at_last.callback(closed)
                if self._detour is not None:
                    at_last.callback(self._detour.close, timeout)
                kind.close(producer, timeout, null_logger)
                if (keyed := self.flight.keyed) is not None:  # flushed, unless a thread has just sent more
                    keyed.purge()
                    keyed.served()

        def already(_producer: KafkaProducer, _serializer: Any, _topic: str, _headers: Any, data: Any) -> Any:
            return data  # by `send`

        embed(producer, send=send, flush=flush, close=close, _serialize=already)

    def _send(self, record: Record) -> Any:
        """Send a record whose partition the application has not given; return its future."""
        flight, keyed = self.flight, self.flight.keyed
        if record.key is not None:
            is_chosen_here = keyed is not None
        else:
            handle = flight.reports.deliveries.handle
            is_chosen_here = handle != FIRST and self.pick(handle, record.topic) != FIRST
        if self._may_be_copied(record):
            record = record._replace(outcome=FutureProduceResult(TopicPartition(record.topic, None)))
        future = flight.send(record, None if is_chosen_here else UNASSIGNED)
        if keyed is not None and keyed.order.waiting:
            self._see_to_release()
        return future

    def _plain(self, producer: Any, record: Record, partition: int | None) -> Any:
        """Send a record as the producer's own class does."""
        return self._kind.send(  # tracers that wrap it add headers by name
            producer,
            record.topic,
            value=record.value,
            key=record.key,
            headers=record.headers,
            partition=partition,
            timestamp_ms=record.timestamp_ms,
        )

    def _flush(self, producer: KafkaProducer, timeout: float | None) -> None:
        """Wait as ``KafkaProducer.flush`` does, also for the second producer, copies, and what is held."""
        deadline = None if timeout is None else time.monotonic() + timeout
        copies, keyed, detour = self.flight.copies, self.flight.keyed, self._detour
        mine = frozenset() if copies is None else copies.open
        held = [] if keyed is None else [it.record.outcome for it in keyed.order.held()]
        while True:
            self.flight.served()
            if detour is not None and (second := detour.open) is not None:
                second.producer.flush(_left(deadline))
            self._kind.flush(producer, _left(deadline))
            is_done = copies is None or copies.wait_for(mine, _FLUSH_STEP_S)
            if is_done and all(outcome.is_done for outcome in held):
                return
            if _left(deadline) == 0:
                what = "wait for earlier ones of their keys" if is_done else "are still being rescued"
                raise errors.KafkaTimeoutError(f"records {what} after {timeout} s")
            if is_done:
                time.sleep(_RELEASE_STEP_S)

    def serve(self, copies: Copies, *, hedges: bool) -> None:
        """Send copies on a thread of ours until the producer is gone: ``send`` may block."""

        def run() -> None:
            while (producer := self._producer()) is not None and not is_closed(producer):
                del producer  # which this thread must not keep alive
                copies.wait_for_work(hedges=hedges)
                self.flight.served()
            copies.close()
            self.flight.drain()

        threading.Thread(target=run, name="kpe-rescue", daemon=True).start()

    def _see_to_release(self) -> None:
        """Have a thread send what is held, as long as there is something: ``send`` may block."""
        with self._release_lock:
            if not self._releasing:
                with contextlib.suppress(RuntimeError):  # no more threads: the next record tries again
                    threading.Thread(target=self._release, name="kpe-keys", daemon=True).start()
                    self._releasing = True

    def _release(self) -> None:
        is_needed = True
        while is_needed:
            time.sleep(_RELEASE_STEP_S)
            if (producer := self._producer()) is None or is_closed(producer):
                self.flight.purge()
            del producer  # which this thread must not keep alive
            self.flight.served()
            with self._release_lock:
                is_needed = self._releasing = bool(self.flight.waiting)

    # -- what the engine asks: see `Client` ----------------------------------------------------------

    def _take_turns(self, record: Record, partition: int) -> int:
        """Count the bytes of a turn: kafka-python can't say that a batch is full, as nothing is asked."""
        topic = record.topic
        size = self._turns.get(topic, 0) + record_bytes(None, record.value)
        if size >= self._batch_size:
            self.choose.move_on(topic, partition)
            size = 0
        self._turns[topic] = size
        return partition

    def hand_over(self, record: Record, attempt: Attempt) -> Any:
        """Send a record; return the future for the application."""
        sent_at = time.monotonic()
        if attempt.handle != FIRST:
            future = self._send_by_second(record, attempt.partition)
        elif (producer := self._producer()) is None:
            raise ReferenceError("the producer is gone")
        else:
            partition = None if attempt.partition == UNASSIGNED else attempt.partition
            future = self._plain(producer, record, partition)
        if attempt.partition == UNASSIGNED and (chosen := partition_of(future)) is not None:
            self.flight.placed(attempt, chosen)
        rescuable, given = attempt.rescuable, future
        if rescuable is not None and len(rescuable.tried) == 1:
            rescuable.given.outcome.topic_partition = TopicPartition(record.topic, attempt.partition)
            given = FutureRecordMetadata(rescuable.given.outcome, 0, *future.args[1:])
        if attempt.tracked:
            self.flight.reports.polled()  # so that those that send notice a silence
            if self.flight.keyed is not None:
                self.flight.keyed.publish()
        if rescuable is not None or attempt.tracked or attempt.key is not None:
            outcome = None if attempt.key is None else record.outcome  # of one that was held
            future.add_both(functools.partial(self._reported, attempt, sent_at, outcome))
        return given

    def hold(self, record: Record, waiting: int) -> tuple[Record, Any]:
        """Return a record that is to be kept for later, and the application's future."""
        topic, value, key, outcome, _, headers = record
        timestamp_ms = stamped(record)
        outcome = outcome or FutureProduceResult(TopicPartition(topic, None))
        size = -1 if value is None else len(value)
        given = FutureRecordMetadata(outcome, 0, timestamp_ms, None, len(key), size, -1)
        return Record(topic, value, key, outcome, timestamp_ms, headers), given

    def knows_no_such_partition(self, error: BaseException) -> bool:
        """Return whether a producer has not heard of a partition."""
        return isinstance(error, ValueError)  # and whatever else it is, the first producer says so again

    def _reported(self, attempt: Attempt, sent_at: float, outcome: Any, what: Any) -> None:
        """Bring a future's outcome to the engine: on the I/O thread, before the application's callbacks."""
        error = what if isinstance(what, BaseException) else None
        self._report(attempt, sent_at, outcome, what if error is None else None, error)
        self.flight.reports.polled()

    def _resolve(self, outcome: Any, arrived: Any, error: BaseException | None) -> None:
        if error is not None:
            outcome.failure(error)
        else:
            outcome.topic_partition = arrived.topic_partition
            outcome.success((arrived.offset, arrived.timestamp, None))

    def _closed(self) -> BaseException:
        return errors.IllegalStateError("Producer is closed.")  # type: ignore[no-any-return]


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
