"""What the engine of records asks of a client whose records have futures: kafka-python, and aiokafka."""

import functools
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, ClassVar, Final

from kafka_partition_events.clients.flight.client import HandleClosedError, HeldTooLongError, PurgedError
from kafka_partition_events.clients.flight.detour import Detour
from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.record import Attempt, Record, RescuableRecord
from kafka_partition_events.health.in_flight import STANDBY
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.partitioners.sticky import StickyPartitioner

_DRAWS: Final = 8  # to find a partition where a record has not been; with few partitions there may be none


class FutureAdapter(ABC):
    """What adapters have in common: see `Client`. Set ``flight`` before it is used.

    Attributes:
        errors: The client's module of errors; aiokafka's began as a copy of kafka-python's.
        closed: What the client raises of a producer that is closed.
        detours: The second handle, by its number.
        most_held_s: For how many seconds a record may wait before it is handed over.
    """

    no_room: ClassVar[tuple[type[BaseException], ...]] = ()
    errors: ClassVar[Any]
    closed: ClassVar[type[BaseException]]
    flight: Flight

    def __init__(self, partitioner: Partitioner, known: Any, most_held_s: float, detour: Detour[Any]) -> None:
        self._partitioner = partitioner
        self._known = known  # the client's metadata, which decides where there is no snapshot
        # A partitioner that has to be informed when a batch ends (KIP-480):
        is_sticky = type(partitioner).on_new_batch is StickyPartitioner.on_new_batch
        self._sticky = partitioner if is_sticky and isinstance(partitioner, StickyPartitioner) else None
        self.most_held_s = most_held_s
        self._detour, self.detours = detour, {STANDBY: detour}

    @abstractmethod
    def _take_turns(self, record: Record, partition: int) -> int:
        """Return where a record without a key goes, which sticks to a partition: a batch may end there."""

    @abstractmethod
    def _resolve(self, outcome: Any, arrived: Any, error: BaseException | None) -> None:
        """Resolve the future that the application was given in place of the client's."""

    def knows(self, topic: str) -> Any:
        """Return the client's metadata if it has a topic; else None."""
        return None if self._known.partitions_for_topic(topic) is None else self._known

    def move_on(self, topic: str, partition: int) -> bool:
        """Have records without a key stick to another partition; return whether they stuck to this one."""
        return self._sticky is not None and self._sticky.move_on(topic, partition, self.knows(topic))

    def choose(self, record: Record, tried: Collection[int] = ()) -> int:
        """Return the partition of a record; see `Client.choose`."""
        topic, value, key = record.topic, record.value, record.key
        choose = self._partitioner.partition
        if key is not None and (home := choose(topic, key, key, None, value, None)) != UNASSIGNED:
            return home
        known = self.knows(topic)
        partition = choose(topic, key, key, None, value, known)
        if key is not None:  # the poller has ended
            return partition
        if partition in tried and (route := self._partitioner.route(topic, known)) is not None:
            drawn = random.choices(route.usable, k=_DRAWS)
            return next((other for other in drawn if other not in tried), drawn[-1])
        return partition if self._sticky is None else self._take_turns(record, partition)

    def may_take(self, handle: Any, topic: str) -> bool:
        """Return whether the second handle knows the topic by now."""
        return bool(handle.knows(topic))

    def _send_by_second(self, record: Record, partition: int) -> Any:
        if (second := self._detour.open) is None:
            raise HandleClosedError
        return second.send(record, partition)

    def _may_be_copied(self, record: Record) -> bool:
        """Return whether the application needs a future of ours: a record may be sent more than once."""
        if record.key is None:
            return self.flight.rescue is not None
        return self.flight.keyed is not None and self.flight.keyed.order.recalls

    def reject(self, record: Record, _home: int, error: BaseException) -> None:
        """Fail the future of a record that was held."""
        if isinstance(error, HeldTooLongError):
            why = f"for {self.most_held_s} s it waited for an earlier record of its key"
            error = self.errors.KafkaTimeoutError(why)
        elif isinstance(error, PurgedError):
            error = self.closed("the producer is closed")
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
        try:
            self.flight.reported(
                attempt,
                arrived=arrived,
                offset=-1 if arrived is None else arrived.offset,
                error=error,
                answered=error is None or (is_brokers and not isinstance(error, theirs.RequestTimedOutError)),
                latency_s=time.monotonic() - sent_at,
                worth_a_copy=bool(getattr(error, "retriable", False)),  # it would have tried again, in time
            )
        finally:  # whatever a signal's handler raises: the client reports once
            if outcome is not None:
                self._resolve(outcome, arrived, error)


def stamped(record: Record) -> int:
    """Return the time, in ms, of a record that is to be kept for later: not that of its release."""
    return int(1000 * time.time()) if record.timestamp_ms is None else record.timestamp_ms


def embed(one: Any, **methods: Callable[..., Any]) -> None:
    """Make an object of a client's, which has no interceptors, an instance of a subclass with these methods.

    Functions in the instance would either keep it alive, or be without it when the garbage collector closes
    it. What wraps the methods of its own class, such as a tracer, goes on doing so.
    """
    kind = type(one)
    wrapped = {name: functools.wraps(getattr(kind, name))(method) for name, method in methods.items()}
    names = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    one.__class__ = type(kind.__name__, (kind,), {**names, **wrapped})
