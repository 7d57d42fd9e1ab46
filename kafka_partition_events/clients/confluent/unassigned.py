"""Keyed records that wait until their topic is known, as librdkafka keeps those of its unassigned partition.

Where keys must not go by librdkafka's hash (`Partitioner.falls_back` is false) nobody can tell a record's
partition before the topic's first metadata; and librdkafka refuses one that it does not know yet, where a
poller is ahead of it. Waiting for that in ``produce`` would stop an event loop. So the record is taken, and
placed by a later ``produce``, ``poll`` or ``flush``, or after the poller's next look; it fails when its time
is up.
"""

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message

from kafka_partition_events.clients.confluent.reports import OnDelivery
from kafka_partition_events.partitioners.base import UNASSIGNED

_PURGED = KafkaError(KafkaError._PURGE_QUEUE)  # noqa: SLF001 - librdkafka's public names
_TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)  # noqa: SLF001
_UNKNOWN_TOPIC = KafkaError(KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001
_UNPLACED = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001


QUEUE_FULL = "Local: Queue full"
"""What librdkafka says when it holds as much as it may."""


class NotPlacedError(Exception):
    """A keyed record that librdkafka must not place has no partition that its handle knows.

    Its topic was forgotten meanwhile, or has grown and the handle does not know of that yet.
    """


class Record(NamedTuple):
    """The arguments of one ``produce`` whose partition was not given; both callbacks are one."""

    topic: str
    value: str | bytes | None
    key: str | bytes | None
    callback: OnDelivery | None
    timestamp: int
    headers: Any


class _Waiting(NamedTuple):
    record: Record
    until: float  # when it has failed, by `time.monotonic`

    @property
    def bytes(self) -> int:
        return len(self.record.value or b"") + len(self.record.key or b"")


class Unassigned:
    """The records of one producer that have no partition yet. Thread-safe."""

    def __init__(
        self,
        known: Callable[[str], bool],
        send: Callable[[Record], None],
        seconds: float,
        most_bytes: float = math.inf,
    ) -> None:
        """Make a place for them.

        Args:
            known: Tells whether a topic's partitions are known.
            send: Produces a record of a topic that is; raises `NotPlacedError` if it is not so any more, or
                its handle does not know the partition yet.
            seconds: How long a record may wait: librdkafka's ``message.timeout.ms``.
            most_bytes: How much may wait, beside what waits in librdkafka:
                ``queue.buffering.max.kbytes``.
        """
        self._known = known
        self._send = send
        self.hopeless: Callable[[], bool] = lambda: False
        """Tells whether nothing will be known any more."""
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._bytes = 0
        # By topic, and never dropped: a signal handler that adds to a queue must not find it given up.
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._failed: deque[tuple[Record, KafkaError]] = deque()
        self._lock = threading.RLock()
        self._placing = False

    def __len__(self) -> int:
        """Return how many records wait, or have failed and nobody was told yet."""
        return sum(map(len, tuple(self._waiting.values()))) + len(self._failed)

    def topics(self) -> list[str]:
        """Return the topics that are waited for."""
        return [topic for topic, records in tuple(self._waiting.items()) if records]

    def takes(self, topic: str) -> bool:
        """Tell whether a keyed record of a topic has to wait, be it only behind those that do."""
        return bool(self._waiting.get(topic)) or not self._known(topic)

    def add(self, record: Record) -> None:
        """Keep a record, behind those of its topic; place what can be placed by now.

        Raises:
            BufferError: too much waits already.
        """
        headers = None if record.headers is None else record.headers.copy()  # he may use his for the next one
        kept = record._replace(timestamp=record.timestamp or int(time.time() * 1000), headers=headers)
        waiting = _Waiting(kept, time.monotonic() + self._seconds)
        with self._lock:
            if self._bytes + waiting.bytes > self._most_bytes:
                raise BufferError(QUEUE_FULL)
            self._bytes += waiting.bytes
            self._waiting.setdefault(record.topic, deque()).append(waiting)
            self._place()

    def listened(self) -> None:
        """Place what can be placed by now, and tell of what has failed; for ``poll`` and ``flush``."""
        self.place()
        with contextlib.suppress(IndexError):  # another thread may tell of the last one
            while self._failed:
                _tell(*self._failed.popleft())

    def place(self) -> None:
        """Place what can be placed by now. Any thread may call this."""
        with self._lock:
            self._place()

    def _place(self) -> None:
        """Send in order; what finds librdkafka's queue full stays for the next time.

        A signal handler may produce in here: its record then stands behind those that are being sent.
        """
        if self._placing:
            return
        self._placing = True
        try:
            for topic, records in tuple(self._waiting.items()):
                self._place_each(topic, records)
        finally:
            self._placing = False

    def _place_each(self, topic: str, records: deque[_Waiting]) -> None:
        while records:
            try:
                if known := self._known(topic):
                    self._send(records[0].record)
            except BufferError:
                return
            except NotPlacedError:
                known = False
            except Exception as error:  # noqa: BLE001 - it must not keep those behind it, nor be told to them
                self._fail(records, _as_kafka_error(error))
                continue
            if known:
                self._take(records)  # not before: what comes meanwhile must find that somebody waits
            elif self.hopeless():
                self._fail(records, _UNKNOWN_TOPIC)
            elif records[0].until <= time.monotonic():
                self._fail(records, _TIMED_OUT)
            else:
                return

    def purge(self) -> None:
        """Fail all that waits."""
        with self._lock:
            for records in self._waiting.values():
                while records:
                    self._fail(records, _PURGED)

    def _fail(self, records: deque[_Waiting], error: KafkaError) -> None:
        self._failed.append((self._take(records), error))

    def _take(self, records: deque[_Waiting]) -> Record:
        first = records.popleft()
        self._bytes -= first.bytes
        return first.record


def _as_kafka_error(error: Exception) -> KafkaError:
    reason = error.args[0] if error.args else error
    return reason if isinstance(reason, KafkaError) else KafkaError(_UNPLACED, str(reason))


def _tell(record: Record, error: KafkaError) -> None:
    if record.callback is not None:
        message = Message(
            topic=record.topic,
            partition=UNASSIGNED,
            value=_encoded(record.value),
            key=_encoded(record.key),
            headers=record.headers,
            timestamp=(1, record.timestamp),
            error=error,
        )
        record.callback(error, message)


def _encoded(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
