"""A producer that is attached: its methods, and what the engine of records asks of kafka-python.

Values are serialized here, once, by the producer's own method: they may be sent later, or more than once,
although the objects may change. For a record without a key that goes by the first producer kafka-python asks
the partitioner itself, within ``send``; so it is handed over first, and its partition read from the future
(`Flight.placed`). For all others the partitioner is asked here.
"""

# ruff: noqa: SLF001 - see `private`

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

from kafka_partition_events.clients.flight.detour import Detour
from kafka_partition_events.clients.flight.key_order import FIRST
from kafka_partition_events.clients.flight.record import Attempt, Record, as_list
from kafka_partition_events.clients.futures import FutureAdapter, embed, stamped
from kafka_partition_events.clients.kafka_python.second import Second
from kafka_partition_events.log import get_logger
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.partitioners.sticky import record_bytes

_log = get_logger(__name__)
_STEP_S: Final = 0.005  # between two times that copies, and what is held, are sent
_IDLE_S: Final = 0.5  # so late a thread notices that its producer is gone
_BYTES: Final = frozenset({bytes, bytearray, memoryview, type(None)})


class KafkaPythonAdapter(FutureAdapter):
    """Hands the records of one producer, which it does not keep alive, to its handles. Thread-safe."""

    errors: ClassVar[Any] = errors
    closed: ClassVar[type[BaseException]] = errors.IllegalStateError

    def __init__(self, producer: KafkaProducer, partitioner: Partitioner, detour: Detour[Second]) -> None:
        limit_s = producer.config["delivery_timeout_ms"] / 1000
        super().__init__(partitioner, producer._metadata, limit_s, detour)
        self._producer = weakref.ref(producer)
        self._kind: Any = type(producer)  # its methods are read each time: a tracer may wrap them later
        self._batch_size = producer.config["batch_size"]
        self._turns: dict[str, int] = {}  # bytes by topic, since the last one ended
        self._thread: threading.Thread | None = None  # which serves the engine
        self._is_busy = threading.Event()  # there is something to be served

    # -- the producer's methods ----------------------------------------------------------------------

    def take_part(self, producer: KafkaProducer, closed: Callable[[], None]) -> None:
        """Make the producer an instance of a subclass of its class, for as long as it lives.

        ``closed`` is called when it was closed.
        """
        kind, config = self._kind, producer.config

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
            key = kind._serialize(producer, config["key_serializer"], topic, headers, key)
            value = kind._serialize(producer, config["value_serializer"], topic, headers, value)
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
                at_last.callback(self._detour.close, timeout)
                kind.close(producer, timeout, null_logger)
                self.flight.end()  # flushed, unless a thread has just sent more

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
            is_chosen_here = handle != FIRST and flight.further(record.topic) == handle
        if self._may_be_copied(record):
            record = record._replace(outcome=FutureProduceResult(TopicPartition(record.topic, None)))
        future = flight.send(record, None if is_chosen_here else UNASSIGNED)
        is_held = keyed is not None and keyed.order.waiting
        if (is_held or flight.rescue is not None) and not self._is_busy.is_set():
            self._see_to()
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
        copies, keyed = self.flight.copies, self.flight.keyed
        mine = copies.open
        held = [] if keyed is None else [it.record.outcome for it in keyed.order.held()]
        while True:
            self.flight.served()
            if (second := self._detour.open) is not None:
                second.producer.flush(_left(deadline))
            self._kind.flush(producer, _left(deadline))
            is_done = mine.isdisjoint(copies.open)
            if is_done and all(outcome.is_done for outcome in held):
                return
            if _left(deadline) == 0:
                what = "wait for earlier ones of their keys" if is_done else "are still being rescued"
                raise errors.KafkaTimeoutError(f"records {what} after {timeout} s")
            time.sleep(_STEP_S)

    def _see_to(self) -> None:
        """Have a thread send copies, and what is held: ``send`` may block."""
        self._is_busy.set()
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="kpe-flight", daemon=True)
            try:
                thread.start()
                self._thread = thread
            except RuntimeError:  # no more threads: the next record tries again
                self._is_busy.clear()

    def _serve(self) -> None:
        """Serve the engine while there is something to do, until the producer is gone."""
        while (producer := self._producer()) is not None and not producer._closed:
            del producer  # which this thread must not keep alive
            if self._is_busy.wait(_IDLE_S):
                time.sleep(_STEP_S)
                try:
                    self.flight.served()
                except BaseException as error:  # noqa: BLE001 - a future lets a callback raise SystemExit
                    _log.error("flight_not_served", error=repr(error))
                self._is_busy.clear()
                if not self.flight.is_idle:  # or `send` has seen it set a moment ago
                    self._is_busy.set()
        self.flight.end()

    # -- what the engine asks: see `Client` ----------------------------------------------------------

    def _take_turns(self, record: Record, partition: int) -> int:
        """Count the bytes of a turn: kafka-python can't say that a batch is full, as nothing is asked."""
        topic = record.topic
        size = self._turns.get(topic, 0) + record_bytes(None, record.value)
        if size >= self._batch_size:
            self.move_on(topic, partition)
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
        produced = getattr(future, "_produce_future", None)  # None of a record that was not sent
        chosen = None if produced is None else produced.topic_partition[1]
        if attempt.partition == UNASSIGNED and chosen is not None:
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
        return isinstance(error, ValueError) and str(error).startswith("Unrecognized partition")

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


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
