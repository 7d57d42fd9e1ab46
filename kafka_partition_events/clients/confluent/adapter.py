"""What the engine of records asks of librdkafka: bytes to a handle, and the report of what became of them."""

import re
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn

from attrs import define, field
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException, Message
from confluent_kafka.cimpl import Producer

from kafka_partition_events.clients.confluent.choosing import LONGEST_SLICE, Chooser
from kafka_partition_events.clients.confluent.detours import Detours
from kafka_partition_events.clients.confluent.handle_metadata import CLOSED, METADATA_WAIT_S, HandleMetadata
from kafka_partition_events.clients.confluent.tracers import Handle
from kafka_partition_events.clients.flight.client import HandleClosedError, HeldTooLongError, PurgedError
from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.key_order import FIRST
from kafka_partition_events.clients.flight.record import Attempt, Record, RescuableRecord, as_list
from kafka_partition_events.partitioners.base import UNASSIGNED

OnDelivery = Callable[[KafkaError | None, Message], Any]

_produce_batch = Producer.produce_batch
_len = Producer.__len__

_WORTH_A_COPY = {"_MSG_TIMED_OUT", "_TIMED_OUT", "_TRANSPORT", "REQUEST_TIMED_OUT"}
_LOST = {"_TRANSPORT", "_TIMED_OUT", "_RESOLVE"}
_BROKER = re.compile(r"/(\d+): ")
"""librdkafka names a broker as ``host:port/ID``, and says nothing else of which one an error is about."""

_PURGED = KafkaError(KafkaError._PURGE_QUEUE)  # noqa: SLF001 - librdkafka's public names
_QUEUE_FULL = KafkaError(KafkaError._QUEUE_FULL)  # noqa: SLF001
_UNKNOWN_PARTITION = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001

_Message = dict[str, Any]  # of `produce_batch`
_DATA = (str, bytes, type(None))


class Unmade:
    """A part of a producer whose subclass has not called ``__init__``; it raises what a plain one does."""

    waiting, open, ended = 0, (), True  # ``len`` of such a producer is 0, as a plain one's is

    def _refuse(self, *_arguments: object) -> NoReturn:
        raise RuntimeError(CLOSED)

    __getattr__ = __getitem__ = __bool__ = __iter__ = _refuse


@define(eq=False, slots=False)
class ConfluentAdapter:
    """Hands the records of one producer, which it does not keep alive, to its handles. Thread-safe."""

    no_room: ClassVar[tuple[type[BaseException], ...]] = (BufferError,)
    _producer: Callable[[], Handle | None]  # the application's own handle, as long as there is one
    _chooser: Chooser
    _metadata: HandleMetadata
    detours: Detours
    _default_outcome: OnDelivery | None  # the application's callback for records without one
    _most_waiting: int  # records on all handles together
    most_held_s: float
    flight: Flight = field(init=False)  # to be set before anything is sent

    # -- sending -------------------------------------------------------------------------------------

    def send(self, record: Record, partition: int | None = None) -> None:
        """Send a record that has no short cut; one that librdkafka must not place waits for its topic.

        Raises:
            BaseException: as `Flight.send`; ``_UNKNOWN_TOPIC``: nothing was known of its topic in time.
        """
        topic = record.topic
        try:
            self.flight.send(record, partition)
        except KafkaException as error:
            if not (self._chooser.must_place(topic, record.key) and self.knows_no_such_partition(error)):
                raise
            # Nothing is known of the topic, or the handle lags behind a poller that others share.
            self._metadata.wait_for_topic(topic, METADATA_WAIT_S)
            self.flight.send(record)

    def must_wait(self, topic: str, key: str | bytes | None, value: Any) -> bool:
        """Return whether a record waits for its topic's metadata, the partitioner's or the handle's."""
        if not self._chooser.must_place(topic, key):
            return False
        if not self._chooser.knows(topic):
            return True
        lags = self._metadata.lags(topic)
        return lags and self._metadata.lacks(topic, self.choose(Record(topic, value, key)))

    def send_batch(self, topic: str, messages: list[_Message], outcome: OnDelivery | None) -> int:
        """Send messages of which none need have a partition; return how many were taken.

        Those of a batch without keys go together, and so do those that librdkafka places all. Any others go
        one by one, placed before one is sent: when this raises (``_UNKNOWN_TOPIC`` as `send`, or what a
        partitioner of the application's raises) nothing was sent.
        """
        chooser, keys = self._chooser, _keys_of(messages)
        if keys is not None and self.flight.rescue is None:  # a batch can't take headers
            if chooser.by_turns is not None and (chooser.keyless or keys.count(None) == len(keys)):
                return self._send_in_turns(topic, messages, outcome)
            if chooser.leaves_keys(topic) and all(keys) and not self.flight.places_keys(topic):
                return self._send_together(topic, messages, UNASSIGNED, outcome, keys)
        if _are_acceptable(messages):
            return self._send_one_by_one(topic, messages, outcome)
        return self._refuse(topic, messages, outcome)

    def _refuse(self, topic: str, messages: list[_Message], outcome: OnDelivery | None) -> int:
        return _produce_batch(self._first(), topic, messages, UNASSIGNED, outcome)  # says why, in its words

    def _send_in_turns(self, topic: str, messages: list[_Message], outcome: OnDelivery | None) -> int:
        start = taken = 0
        while start < len(messages):
            most = min(LONGEST_SLICE, len(messages) - start)
            partition, count = self._chooser.choose_for(topic, most)
            if not start and count < len(messages) and not _are_acceptable(messages):
                return self._refuse(topic, messages, outcome)
            taken += self._send_together(topic, messages[start : start + count], partition, outcome)
            start += count
        return taken

    def _send_one_by_one(self, topic: str, messages: list[_Message], outcome: OnDelivery | None) -> int:
        """Send messages that need a header of ours, or a place for each; return how many were taken."""
        must_place = self._chooser.must_place
        if not self._chooser.knows(topic) and any(must_place(topic, m.get("key")) for m in messages):
            self._metadata.wait_for_topic(topic, METADATA_WAIT_S)
        placed = []
        for message in messages:
            record = _record_of(topic, message, outcome)
            is_free = message.get("partition") in {None, UNASSIGNED}
            placed.append((message, record, self.choose(record) if is_free else None))
        return sum(self._send_one(*each) for each in placed)

    def _send_one(self, message: _Message, record: Record, partition: int | None) -> int:
        """Send one message of a batch; return how many were taken."""
        try:
            if partition is not None:
                self.send(record, partition)
            else:  # its own is obeyed
                topic, value, key, report, *_ = record
                self._first().plain(topic, value, key, message["partition"], report)
        except BufferError:
            message["_error"] = _QUEUE_FULL
        except KafkaException as error:
            message["_error"] = error.args[0]
        else:
            return 1  # an error of an earlier try stays noted, as with a plain producer
        return 0

    def _send_together(
        self, topic: str, part: list[_Message], partition: int, outcome: OnDelivery | None,
        keys: Sequence[Any] = (),
    ) -> int:  # fmt: skip
        """Send the messages of a batch that go to one partition, or have keys that librdkafka places.

        One that is to be tracked goes by itself: a probe, or the last one, as librdkafka has said by then
        whether it takes such messages. Return how many were taken.
        """
        last = None
        is_due = len(part) == 1 or time.monotonic() >= self.flight.next_sample
        if is_due and _are_acceptable(part[-1:]):
            record = _record_of(topic, part[-1], outcome)
            last = part[-1], record, self.choose(record) if keys else partition
        together, taken = part if last is None else part[:-1], 0
        try:
            handle = self._handle(self.flight.handle(topic, self.flight.route(topic, partition), partition))
        except BufferError:  # of all handles together; a plain producer marks what it does not take
            for message in part:
                message["_error"] = _QUEUE_FULL
            return 0
        except HandleClosedError:  # it was idle until a moment ago
            handle = self._first()
        if together:
            taken = _produce_batch(handle, topic, together, partition, outcome)
            error: Any = together[0].get("_error")  # it is there if none was taken
            if not taken and partition != UNASSIGNED and error.code() == _UNKNOWN_PARTITION:
                for message in together:
                    message.pop("_error", None)
                self._chooser.fall_back(topic)
                taken = _produce_batch(self._first(), topic, together, UNASSIGNED, outcome)
            if (order := self._chooser.keys) is not None:
                order.log_all(topic, keys[: len(together)])
        return taken if last is None else taken + self._send_one(*last)

    # -- what the engine asks ------------------------------------------------------------------------

    def choose(self, record: Record, tried: Collection[int] = ()) -> int:
        """See `Client.choose`; raises ``_UNKNOWN_PARTITION`` where librdkafka must not choose."""
        partition = self._chooser.choose(record.topic, record.key, record.value)
        if partition == UNASSIGNED and self._chooser.must_place(record.topic, record.key):
            raise KafkaException(KafkaError(_UNKNOWN_PARTITION))
        return partition

    def may_take(self, handle: Handle, topic: str) -> bool:
        """See `Client.may_take`."""
        if _len(self._first()) + sum(map(len, self.detours.open)) >= self._most_waiting:
            raise BufferError(_QUEUE_FULL.str())
        return True

    def hand_over(self, record: Record, attempt: Attempt) -> None:
        """See `Client.hand_over`."""
        topic, value, key, outcome, timestamp, headers = record
        report, partition = self._report(attempt, outcome), attempt.partition
        handle = self._handle(attempt.handle)
        handle.plain(topic, value, key, partition, report, None, timestamp or 0, headers)

    def hold(self, record: Record, waiting: int) -> tuple[Record, None]:
        """See `Client.hold`."""
        if _len(self._first()) + sum(map(len, self.detours.open)) + waiting >= self._most_waiting:
            raise BufferError(_QUEUE_FULL.str())
        timestamp_ms = record.timestamp_ms or int(time.time() * 1000)  # not that of its release
        return record._replace(headers=as_list(record.headers), timestamp_ms=timestamp_ms), None

    def reject(self, record: Record, home: int, error: BaseException) -> None:
        """See `Client.reject`; it is the application's delivery callback that is called."""
        if (outcome := record.outcome or self._default_outcome) is None:
            return
        if isinstance(error, KafkaException):
            reason = error.args[0]
        elif isinstance(error, PurgedError):
            reason = _PURGED
        elif isinstance(error, HeldTooLongError):
            reason = KafkaError(KafkaError._MSG_TIMED_OUT)  # noqa: SLF001
        else:
            reason = KafkaError(KafkaError._INVALID_ARG, str(error))  # noqa: SLF001
        _, value, key, _, timestamp_ms, headers = record
        message = Message(
            topic=record.topic, partition=home, value=value, key=key, headers=headers, error=reason,
            timestamp=(TIMESTAMP_CREATE_TIME, timestamp_ms or 0),
        )  # fmt: skip
        outcome(reason, message)

    def knows_no_such_partition(self, error: BaseException) -> bool:
        """See `Client.knows_no_such_partition`."""
        return isinstance(error, KafkaException) and error.args[0].code() == _UNKNOWN_PARTITION

    def is_too_large(self, error: BaseException) -> bool:
        """See `Client.is_too_large`."""
        return isinstance(error, KafkaException) and error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE

    def may_choose(self, record: Record) -> bool:
        """See `Client.may_choose`."""
        if self._chooser.must_place(record.topic, record.key):
            return False
        self._chooser.fall_back(record.topic)
        return True

    def finish(self, record: RescuableRecord, arrived: Message | None) -> None:
        """See `Client.finish`; it is the application's delivery callback that is called."""
        if (outcome := record.given.outcome or self._default_outcome) is None:
            return
        if arrived is not None:
            outcome(None, arrived)
        elif record.error is not None:
            error, message = record.error.args  # of `_reported`
            outcome(_PURGED if record.purged else error, message)

    def _first(self) -> Handle:
        if (producer := self._producer()) is None:
            raise RuntimeError(CLOSED)
        return producer

    def _handle(self, number: int) -> Handle:
        if number == FIRST:
            return self._first()
        if (detour := self.detours.get(number)) is None or (handle := detour.open) is None:
            raise HandleClosedError
        return handle

    def _report(self, attempt: Attempt, outcome: OnDelivery | None) -> OnDelivery | None:
        """Return the delivery callback for an attempt: the application's own one where that is all."""
        if attempt.rescuable is not None:
            return partial(self._reported, attempt, None)
        if not attempt.tracked and attempt.key is None:
            return outcome
        return partial(self._reported, attempt, outcome or self._default_outcome)

    def _reported(
        self, attempt: Attempt, outcome: OnDelivery | None, error: KafkaError | None, message: Message
    ) -> None:
        """Bring librdkafka's report to the engine, in the thread that polls; then to the application."""
        offset = message.offset()
        try:
            self.flight.reported(
                attempt,
                arrived=message if error is None else None,
                offset=-1 if offset is None else offset,
                error=None if error is None else KafkaException(error, message),
                answered=error is None or error.code() >= 0,  # else librdkafka's own: no broker has answered
                latency_s=message.latency() or 0.0,
                worth_a_copy=error is not None and error.name() in _WORTH_A_COPY,
            )
        finally:
            if outcome is not None:
                outcome(error, message)


def lost_broker(error: KafkaError) -> int | None:
    """Return the broker that an error of ``error_cb`` says is not reached; None if it says no such thing."""
    named = _BROKER.search(error.str()) if error.name() in _LOST else None
    return None if named is None else int(named[1])


def _keys_of(messages: Any) -> list[Any] | None:
    """Return each message's key; None if one names a partition, or these are no dictionaries in a list.

    What is wrong with them is confluent-kafka's to say: it checks all messages before it takes one.
    """
    try:  # a list takes half of a generator's time
        is_placed = any(["partition" in m for m in messages])  # noqa: C419
        return None if is_placed or not messages else [m.get("key") for m in messages]
    except (AttributeError, TypeError):
        return None


def _are_acceptable(messages: Any) -> bool:
    """Return whether confluent-kafka takes all of these messages, as far as their types go."""
    return type(messages) is list and all(
        isinstance(m, dict)
        and isinstance(m.get("value"), _DATA)
        and isinstance(m.get("key"), _DATA)
        and isinstance(m.get("partition"), int | None)
        and m.get("timestamp") is None
        and isinstance(m.get("headers"), dict | list | None)
        for m in messages
    )


def _record_of(topic: str, message: _Message, outcome: Any) -> Record:
    """Return a message as a record by itself."""
    return Record(topic, message.get("value"), message.get("key"), message.get("callback") or outcome)
