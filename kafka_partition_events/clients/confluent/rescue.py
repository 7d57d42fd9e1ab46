"""Sends unkeyed records again that timed out or are stuck on a suspect broker (``rescue=``).

Delivery callbacks must not re-enter ``poll`` or ``flush`` (confluent-kafka aborts the process), so they only
queue what is to be sent again; the producer drains the queue after ``poll`` has returned.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attrs import define, field, frozen
from confluent_kafka import KafkaError, KafkaException, Message

from kafka_partition_events.clients.confluent.reports import OnDelivery, Reports
from kafka_partition_events.clients.rescue import (
    Budget,
    Headers,
    Ids,
    RescueLimits,
    RescueMode,
    copy_headers,
    original_headers,
)
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.events import RecordsRescued

_TIMED_OUT = frozenset(
    (
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - librdkafka's public names
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
    )
)


@frozen(kw_only=True)
class RescueStats:
    """What a rescue has done since the producer was made.

    Attributes:
        copies: Copies sent.
        saved: Records that a copy was delivered of first.
        withheld: Copies not sent, because a limit was reached.
        unheld: Records that were sent without the prospect of a copy, because ``held_bytes`` was reached.
        held_bytes: Bytes kept now.
    """

    copies: int = 0
    saved: int = 0
    withheld: int = 0
    unheld: int = 0
    held_bytes: int = 0


@define(eq=False)
class Held:
    """One record that may be sent again. Guarded by the rescue's lock."""

    topic: str
    value: str | bytes | None
    headers: Headers
    timestamp: int
    theirs: OnDelivery | None
    id: str
    size: int
    home: int | None = None  # where the original went
    attempts: int = 0
    on_the_way: dict[int, int] = field(factory=dict)  # partition -> copies there
    queued: bool = False
    hedged: bool = False  # since it was sent last
    done: bool = False

    def next_headers(self) -> Headers:
        """Return the headers of the next attempt."""
        if self.attempts == 0 or self.home is None:
            return original_headers(self.headers, self.id)
        return copy_headers(self.headers, self.id, self.home, self.attempts + 1)


class Rescue:
    """The records of one producer that may be sent again. Thread-safe; holds no reference to the producer."""

    def __init__(self, mode: RescueMode, limits: RescueLimits, reports: Reports) -> None:
        self._mode = mode
        self._limits = limits
        self._reports = reports
        self._budget = Budget(limits)
        self._ids = Ids()
        self._lock = threading.RLock()
        self._queue: deque[Held] = deque()
        self._placed: dict[tuple[str, int], dict[str, Held]] = {}
        self._bytes = 0
        self._copies = 0
        self._saved = 0
        self._withheld = 0
        self._unheld = 0
        self._news: dict[int | None, tuple[int, int]] = {}  # broker -> copies, withheld

    @property
    def waiting(self) -> int:
        """How many records are to be sent again."""
        return len(self._queue)

    @property
    def stats(self) -> RescueStats:
        """What has been done so far."""
        with self._lock:
            return RescueStats(
                copies=self._copies,
                saved=self._saved,
                withheld=self._withheld,
                unheld=self._unheld,
                held_bytes=self._bytes,
            )

    # -- sending -------------------------------------------------------------------------------------

    def hold(
        self, topic: str, value: str | bytes | None, headers: Any, timestamp: int, theirs: OnDelivery | None
    ) -> Held | None:
        """Keep a record that is about to be sent for the first time; None when too much is kept already."""
        listed = _as_list(headers)
        size = len(value or "") + sum(len(name) + len(data or "") for name, data in listed)
        with self._lock:
            if self._bytes + size > self._limits.held_bytes:
                self._unheld += 1
                return None
            self._bytes += size
        self._budget.earn()
        # The copy is to have the time of the original, which librdkafka would not tell of a failed record.
        timestamp = timestamp or int(time.time() * 1000)
        return Held(topic, value, listed, timestamp, theirs, self._ids.next(), size)

    def forget(self, held: Held) -> None:
        """Let go of a record that the client refused."""
        with self._lock:
            self._finish(held)

    def placing(self, held: Held, partition: int) -> OnDelivery:
        """Note that a record is being sent to a partition; return the callback for it."""
        with self._lock:
            held.attempts += 1
            held.hedged = False
            if held.home is None and partition >= 0:
                held.home = partition
            held.on_the_way[partition] = held.on_the_way.get(partition, 0) + 1
            self._placed.setdefault((held.topic, partition), {})[held.id] = held
        return partial(self._reported, held, partition)

    def refused(self, held: Held, partition: int) -> None:
        """Take `placing` back: the client did not take the record."""
        with self._lock:
            held.attempts -= 1
            self._left(held, partition)

    def drain(self, send: Callable[[Held], None]) -> None:
        """Send what is queued; what finds the producer's queue full stays for the next time."""
        while self._queue:
            try:
                held = self._queue.popleft()
            except IndexError:  # another thread was faster
                break
            with self._lock:
                held.queued = False
                if held.done:
                    continue
            try:
                send(held)
            except BufferError:
                with self._lock:
                    held.queued = True
                    self._queue.appendleft(held)
                break
            except KafkaException as error:
                self._give_up(held, error.args[0])
        self._tell()

    # -- hearing -------------------------------------------------------------------------------------

    def hedge(self, stuck: Mapping[tuple[str, int], int]) -> None:
        """Queue a copy of each record that waits in one of these topics and partitions, on that broker."""
        if self._mode != "hedge":
            return
        with self._lock:
            for tp, broker in stuck.items():
                for held in tuple(self._placed.get(tp, {}).values()):
                    if not (held.done or held.queued or held.hedged):
                        held.hedged = True
                        self._queue_copy(held, broker)

    def _reported(self, held: Held, partition: int, error: KafkaError | None, message: Message) -> None:
        try:
            if partition >= 0:  # else librdkafka chose, and no account was kept
                self._reports.delivered(error, message)
        finally:
            if self._is_the_outcome(held, partition, error, message) and held.theirs is not None:
                held.theirs(error, message)

    def _is_the_outcome(self, held: Held, partition: int, error: KafkaError | None, message: Message) -> bool:
        with self._lock:
            self._left(held, partition)
            if held.done:
                return False
            if error is not None:
                if held.home is None:
                    held.home = message.partition()
                if held.queued or held.on_the_way:
                    return False
                if error.code() in _TIMED_OUT and self._queue_copy(held, None):
                    return False
            elif held.attempts > 1 and partition != held.home:
                self._saved += 1
            self._finish(held)
            return True

    def _queue_copy(self, held: Held, broker: int | None) -> bool:
        allowed = held.attempts < self._limits.attempts and self._budget.spend()
        copies, withheld = self._news.get(broker, (0, 0))
        self._news[broker] = (copies + allowed, withheld + (not allowed))
        if not allowed:
            self._withheld += 1
            return False
        self._copies += 1
        held.queued = True
        self._queue.append(held)
        return True

    def _give_up(self, held: Held, error: KafkaError) -> None:
        """End a record whose copy the client refused, if nothing else of it is on its way."""
        with self._lock:
            if held.on_the_way or held.done:
                return
            self._finish(held)
        if held.theirs is not None:
            held.theirs(error, None)  # type: ignore[arg-type]  # there is no message that was sent

    def _left(self, held: Held, partition: int) -> None:
        left = held.on_the_way.get(partition, 0) - 1
        if left > 0:
            held.on_the_way[partition] = left
            return
        held.on_the_way.pop(partition, None)
        placed = self._placed.get((held.topic, partition))
        if placed is not None:
            placed.pop(held.id, None)
            if not placed:
                del self._placed[held.topic, partition]

    def _finish(self, held: Held) -> None:
        held.done = True
        self._bytes -= held.size

    def _tell(self) -> None:
        with self._lock:
            news, self._news = self._news, {}
        self._reports.emit(
            RecordsRescued(broker=broker, copies=copies, withheld=withheld)
            for broker, (copies, withheld) in news.items()
        )


def refuse_with(config: Mapping[str, Any]) -> None:
    """Raise where a rescue would break what a setting promises.

    Raises:
        ConfigurationError: the producer is transactional, or keeps good delivery reports to itself.
    """
    if config.get("transactional.id") is not None:
        raise ConfigurationError(
            "rescue can't be used with transactional.id: a copy may arrive beside its original, and a "
            "transaction promises exactly one. Leave rescue out; abort and retry a transaction that fails"
        )
    if str(config.get("delivery.report.only.error", False)).lower() == "true":
        raise ConfigurationError(
            "rescue can't be used with delivery.report.only.error: it must hear of every delivery to know "
            "which records are stuck. Remove the setting"
        )


def _as_list(headers: Any) -> Headers:
    if not headers:
        return []
    return list(headers.items()) if isinstance(headers, Mapping) else list(headers)
