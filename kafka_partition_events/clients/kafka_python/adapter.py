"""A producer that is attached: its methods, and what the engine of records asks of kafka-python.

kafka-python asks the partitioner itself, within ``send``; so a record of the first producer is handed over
first, and its partition read from the future (`Flight.placed`). For the second producer, for copies, and for
keys of which the order is kept, the partitioner is asked here.
"""

import contextlib
import functools
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Final

from kafka import KafkaProducer
from kafka.errors import (
    BrokerResponseError,
    IllegalStateError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    RequestTimedOutError,
)
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.structs import TopicPartition

from kafka_partition_events.clients.choice import Choice
from kafka_partition_events.clients.embedding import embed
from kafka_partition_events.clients.flight.client import HandleClosedError, HeldTooLongError, PurgedError
from kafka_partition_events.clients.flight.copies import Copies
from kafka_partition_events.clients.flight.detour import Detour
from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.key_order import FIRST
from kafka_partition_events.clients.flight.record import Attempt, Record, RescuableRecord, as_list
from kafka_partition_events.clients.kafka_python.private import cluster_of, is_closed, partition_of
from kafka_partition_events.clients.kafka_python.second import Second
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.partitioners.sticky import record_bytes

_FLUSH_STEP_S: Final = 0.02
_RELEASE_STEP_S: Final = 0.005  # between two questions which records that are held may go
_BYTES: Final = frozenset({bytes, bytearray, memoryview, type(None)})


class Adapter:
    """Hands the records of one producer, which it does not keep alive, to its handles. Thread-safe.

    Set ``flight`` before it is used.
    """

    no_room: ClassVar[tuple[type[BaseException], ...]] = ()
    flight: Flight

    def __init__(
        self, producer: KafkaProducer, partitioner: Partitioner, detour: Detour[Second] | None
    ) -> None:
        self._producer = weakref.ref(producer)
        self._kind: Any = type(producer)  # its methods are read each time: a tracer may wrap them later
        self._own: type | None = None
        self._is_open = True
        self._partitioner = partitioner
        self._detour = detour
        self.choose = Choice(partitioner, cluster_of(producer), self._take_turns)
        self._batch_size = producer.config["batch_size"]
        self._turns: dict[str, int] = {}  # bytes by topic, since the last one ended
        self._keys = _passing(producer.config, "key_serializer")
        self._values = _passing(producer.config, "value_serializer")
        self.most_held_s = producer.config["delivery_timeout_ms"] / 1000
        self._releasing = False
        self._release_lock = threading.RLock()  # a signal handler may send in there

    # -- the producer's methods ----------------------------------------------------------------------

    def take_part(self, producer: KafkaProducer, closed: Callable[[], None]) -> None:
        """Make the producer an instance of a subclass of its class, until `end`.

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
            record = Record(topic, value, key, None, timestamp_ms, headers)
            is_ours = self._is_open or (key is not None and self.flight.keyed is not None)
            if is_ours and partition is None and (headers is None or isinstance(headers, list)):
                return self._send(record)
            return self._plain(producer, record, partition)

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

        self._own = embed(producer, send=send, flush=flush, close=close)

    def end(self) -> None:
        """Give the producer its class back, as far as nothing is left to be done for its records.

        A rescue and keys that move go on, and what the second producer has is still waited for.
        """
        self._is_open = False
        keyed = self.flight.keyed
        is_needed = self.flight.copies is not None or (keyed is not None and keyed.order.moves is not None)
        if self._detour is not None:
            is_needed = is_needed or self._detour.open is not None
            self._detour.end()
        producer = self._producer()
        if not is_needed and type(producer) is self._own:
            producer.__class__ = self._kind

    def _send(self, record: Record) -> Any:
        """Send a record whose partition the application has not given; return its future."""
        flight, keyed, has_key = self.flight, self.flight.keyed, record.key is not None
        handle = FIRST if has_key else flight.reports.handle
        detoured = handle != FIRST and self.pick(handle, record.topic) != FIRST
        if has_key or (keyed is not None and self._keys is not None):
            is_ready_first = keyed is not None
        else:
            is_ready_first = detoured or flight.copies is not None
        is_empty = record.value is None and not has_key  # which is refused
        if is_empty or not is_ready_first or (ready := self._serialized(record)) is None:
            return flight.launch(record, UNASSIGNED, self._hand_over_raw)
        is_chosen_here = detoured or (keyed is not None and ready.key is not None)
        future = flight.send(ready, None if is_chosen_here else UNASSIGNED)
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

    def _serialized(self, record: Record) -> Record | None:
        """Return a record with the bytes of its key and value; None if it will be refused.

        The bytes may be sent later, or more than once, although the objects may change, and by the second
        producer, which has no serializers.
        """
        topic, value, key, _, timestamp_ms, headers = record
        headers = as_list(headers)  # to which a serializer may add
        if self._keys is not None:
            key = _serialize(self._keys, topic, headers, key)
        if self._values is not None:
            value = _serialize(self._values, topic, headers, value)
        if type(key) not in _BYTES or type(value) not in _BYTES or (key is None and value is None):
            return None
        value = None if value is None else bytes(value)
        keyed = self.flight.keyed
        may_be_copied = key is None or (keyed is not None and keyed.order.recalls)
        outcome = FutureProduceResult(TopicPartition(topic, None)) if may_be_copied else None
        return Record(topic, value, None if key is None else bytes(key), outcome, timestamp_ms, headers)

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
            elif detour is not None and not self._is_open:
                detour.close(_left(deadline))  # after `end` it is about to be closed anyway
            self._kind.flush(producer, _left(deadline))
            is_done = copies is None or copies.wait_for(mine, _FLUSH_STEP_S)
            if is_done and all(outcome.is_done for outcome in held):
                return
            if _left(deadline) == 0:
                what = "wait for earlier ones of their keys" if is_done else "are still being rescued"
                raise KafkaTimeoutError(f"records {what} after {timeout} s")
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

    def pick(self, handle: int, topic: str) -> int:
        """Return the handle to be used: the first, if the second producer does not know the topic by now."""
        if self._detour is None or (second := self._detour.handle()) is None or not second.knows(topic):
            return FIRST
        return handle

    def is_coming(self, handle: int) -> bool:
        """Return whether the second producer is being made."""
        detour = self._detour
        return handle != FIRST and detour is not None and detour.handle() is None and detour.is_coming

    def hand_over(self, record: Record, attempt: Attempt) -> Any:
        """Send a record that is serialized; return the future for the application."""
        if attempt.handle == FIRST and (self._keys is not None or self._values is not None):
            topic, value, key, *more = record
            record = Record(topic, _ready(self._values, value), _ready(self._keys, key), *more)
        return self._hand_over_raw(record, attempt)

    def _hand_over_raw(self, record: Record, attempt: Attempt) -> Any:
        sent_at = time.monotonic()
        if attempt.handle == FIRST:
            if (producer := self._producer()) is None:
                raise ReferenceError("the producer is gone")
            partition = None if attempt.partition == UNASSIGNED else attempt.partition
            future = self._plain(producer, record, partition)
        elif self._detour is None or (second := self._detour.open) is None:
            raise HandleClosedError
        else:
            future = second.send(record, attempt.partition)
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
        topic, value, key, outcome, timestamp_ms, headers = record
        timestamp_ms = int(1000 * time.time()) if timestamp_ms is None else timestamp_ms
        outcome = outcome or FutureProduceResult(TopicPartition(topic, None))
        size = -1 if value is None else len(value)
        given = FutureRecordMetadata(outcome, 0, timestamp_ms, None, len(key), size, -1)
        return Record(topic, value, key, outcome, timestamp_ms, headers), given

    def reject(self, record: Record, _home: int, error: BaseException) -> None:
        """Fail the future of a record that was held."""
        if isinstance(error, HeldTooLongError):
            error = KafkaTimeoutError(f"for {self.most_held_s} s it waited for an earlier record of its key")
        elif isinstance(error, PurgedError):
            error = IllegalStateError("Producer is closed.")
        record.outcome.failure(error)

    def knows_no_such_partition(self, error: BaseException) -> bool:
        """Return whether a producer has not heard of a partition."""
        return isinstance(error, ValueError)  # and whatever else it is, the first producer says so again

    def is_too_large(self, error: BaseException) -> bool:
        """Return whether a record was refused for its size."""
        return isinstance(error, MessageSizeTooLargeError)

    def may_choose(self, record: Record) -> bool:
        """Return whether kafka-python may choose: always."""
        return True

    def finish(self, record: RescuableRecord, arrived: Any) -> None:
        """Resolve the application's future."""
        _resolve(record.given.outcome, record.error if arrived is None else arrived)

    def _reported(self, attempt: Attempt, sent_at: float, outcome: Any, what: Any) -> None:
        """Bring a future's outcome to the engine: on the I/O thread, before the application's callbacks."""
        error = what if isinstance(what, BaseException) else None
        # A broker has a time-out too, but kafka-python uses the same error for its own.
        answers = isinstance(error, BrokerResponseError) and not isinstance(error, RequestTimedOutError)
        self.flight.reported(
            attempt,
            arrived=what if error is None else None,
            offset=-1 if error is not None else what.offset,
            error=error,
            answered=answers or error is None,
            latency_s=time.monotonic() - sent_at,
            worth_a_copy=bool(getattr(error, "retriable", False)),  # it would have tried again, in time
        )
        self.flight.reports.polled()
        if outcome is not None:
            _resolve(outcome, what)


def _resolve(outcome: Any, what: Any) -> None:
    """Resolve the future that the application was given in place of kafka-python's."""
    if isinstance(what, BaseException):
        outcome.failure(what)
    else:
        outcome.topic_partition = what.topic_partition
        outcome.success((what.offset, what.timestamp, None))


class Serialized(bytes):
    """A key or a value that is serialized already."""

    __slots__ = ()


_NONE: Final = Serialized()  # what was serialized to nothing


class _Passing:
    """Stands for a producer's serializer, and lets through what is serialized already."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def serialize(self, topic: str, *args: Any) -> Any:
        """Serialize the last argument; kafka-python also knows serializers without headers."""
        data = args[-1]
        if type(data) is not Serialized:
            return self._theirs.serialize(topic, *args)
        return None if data is _NONE else bytes(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)


def _passing(config: Any, name: str) -> _Passing | None:
    """Put a `_Passing` in the place of a producer's serializer, if it has one."""
    theirs = config[name]
    config[name] = theirs if theirs is None or isinstance(theirs, _Passing) else _Passing(theirs)
    return config[name]  # type: ignore[no-any-return]


def _ready(serializer: _Passing | None, data: bytes | None) -> bytes | None:
    """Return what is serialized in the way that a serializer lets through."""
    if serializer is None:
        return data
    return _NONE if data is None else Serialized(data)


def _serialize(serializer: Any, topic: str, headers: Any, data: Any) -> Any:
    """Call a serializer as kafka-python does; those of the old kind have no headers."""
    try:
        return serializer.serialize(topic, headers, data)
    except TypeError:
        return serializer.serialize(topic, data)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
