"""What the engine of records asks of a client whose records have futures: kafka-python, and aiokafka."""

import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from kafka_partition_events.clients.choice import Choice
from kafka_partition_events.clients.flight.client import HandleClosedError, HeldTooLongError, PurgedError
from kafka_partition_events.clients.flight.detour import Detour
from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.key_order import FIRST
from kafka_partition_events.clients.flight.record import Attempt, Record, RescuableRecord
from kafka_partition_events.partitioners.base import Partitioner


class FutureAdapter(ABC):
    """What adapters have in common: see `Client`. Set ``flight`` before it is used.

    Attributes:
        errors: The client's module of errors; aiokafka's began as a copy of kafka-python's.
        choose: Asks the partitioner.
        most_held_s: For how many seconds a record may wait before it is handed over.
    """

    no_room: ClassVar[tuple[type[BaseException], ...]] = ()
    errors: ClassVar[Any]
    flight: Flight

    def __init__(
        self, partitioner: Partitioner, known: Any, most_held_s: float, detour: Detour[Any] | None
    ) -> None:
        self._partitioner = partitioner
        self.choose = Choice(partitioner, known, self._take_turns)
        self.most_held_s = most_held_s
        self._detour: Detour[Any] | None = detour

    @abstractmethod
    def _take_turns(self, record: Record, partition: int) -> int:
        """See `Choice`."""

    @abstractmethod
    def _resolve(self, outcome: Any, arrived: Any, error: BaseException | None) -> None:
        """Resolve the future that the application was given in place of the client's."""

    @abstractmethod
    def _closed(self) -> BaseException:
        """Return what the client raises of a producer that is closed."""

    def pick(self, handle: int, topic: str) -> int:
        """Return the handle to be used: the first, if the second does not know the topic by now."""
        second = None if self._detour is None else self._detour.handle()
        return FIRST if second is None or not second.knows(topic) else handle

    def is_coming(self, handle: int) -> bool:
        """Return whether the second handle is being made."""
        detour = self._detour
        return handle != FIRST and detour is not None and detour.handle() is None and detour.is_coming

    def _send_by_second(self, record: Record, partition: int) -> Any:
        if self._detour is None or (second := self._detour.open) is None:
            raise HandleClosedError
        return second.send(record, partition)

    def _may_be_copied(self, record: Record) -> bool:
        """Return whether the application needs a future of ours: a record may be sent more than once."""
        if record.key is None:
            return self.flight.copies is not None
        return self.flight.keyed is not None and self.flight.keyed.order.recalls

    def reject(self, record: Record, _home: int, error: BaseException) -> None:
        """Fail the future of a record that was held."""
        if isinstance(error, HeldTooLongError):
            why = f"for {self.most_held_s} s it waited for an earlier record of its key"
            error = self.errors.KafkaTimeoutError(why)
        elif isinstance(error, PurgedError):
            error = self._closed()
        self._resolve(record.outcome, None, error)

    def is_too_large(self, error: BaseException) -> bool:
        """Return whether a record was refused for its size."""
        return isinstance(error, self.errors.MessageSizeTooLargeError)

    def may_choose(self, record: Record) -> bool:
        """Return whether the client may choose: always."""
        return True

    def finish(self, record: RescuableRecord, arrived: Any) -> None:
        """Resolve the application's future."""
        self._resolve(record.given.outcome, arrived, record.error if arrived is None else None)

    def _report(
        self, attempt: Attempt, sent_at: float, outcome: Any, arrived: Any, error: BaseException | None
    ) -> None:
        """Bring a future's outcome to the engine, and to the future that was given in its place."""
        # A broker has a time-out too, but the clients use the same error for their own.
        theirs = self.errors
        is_brokers = isinstance(error, theirs.BrokerResponseError)
        self.flight.reported(
            attempt,
            arrived=arrived,
            offset=-1 if arrived is None else arrived.offset,
            error=error,
            answered=error is None or (is_brokers and not isinstance(error, theirs.RequestTimedOutError)),
            latency_s=time.monotonic() - sent_at,
            worth_a_copy=bool(getattr(error, "retriable", False)),  # it would have tried again, in time
        )
        if outcome is not None:
            self._resolve(outcome, arrived, error)


def stamped(record: Record) -> int:
    """Return the time, in ms, of a record that is to be kept for later: not that of its release."""
    return int(1000 * time.time()) if record.timestamp_ms is None else record.timestamp_ms
