"""Tells in regular periods what a producer has counted, beside the producer and never in its way."""

import math
import os
import socket
import threading
import weakref
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from types import MethodType

from attrs import asdict

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.events import ProducerCounters, TopicCounts
from kafka_partition_events.metadata.poller import MetadataPoller

CountTopics = Callable[[], Iterable[TopicCounts]]
"""Returns what was counted so far, such as `PartitioningProducer.topic_counts`."""

_log = get_logger(__name__)


class CountersReporter:
    """Emits a `ProducerCounters` through a poller each period on the clock, on a thread of its own.

    Whoever listens to the poller publishes it, as any event. Beside a confluent-kafka producer::

        producer.poller.register(KafkaEventListener({"bootstrap.servers": "..."}))
        reporter = CountersReporter(producer.poller, producer.topic_counts, client="checkout-7")

    Beside one of kafka-python, where only a rescue counts by topic: ``CountersReporter(poller,
    functools.partial(topic_counts, producer))``.

    It reads what the producer counts anyway, so a send costs nothing more. A period in which nothing was
    counted is not told. Close it before the producer, or what was counted last is not told; it ends by itself
    when the producer is dropped whose method it was given. For the process that made it.
    """

    def __init__(
        self,
        poller: MetadataPoller,
        counts: CountTopics,
        *,
        client: str | None = None,
        interval: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        """Begin to report.

        Args:
            poller: Who tells it to listeners: the producer's.
            counts: Returns what was counted so far. Called on the reporter's thread.
            client: The producer's name: one that tells it from others. By default the host's name and the
                process id.
            interval: Seconds of a period; periods of a minute begin with the minute.
            clock: For tests.

        Raises:
            ConfigurationError: ``interval`` is not above 0, or ``client`` is empty.
        """
        if not 0 < interval < math.inf:
            raise ConfigurationError(f"interval must be more than 0 seconds, not {interval}")
        if client is not None and not client:
            raise ConfigurationError("client must name the producer, but is empty")
        self.client = client or f"{socket.gethostname()}-{os.getpid()}"
        self._poller = poller
        self._counts = _without_keeping_alive(counts)
        self._interval = timedelta(seconds=interval)
        self._clock: Clock = clock or SystemClock()
        self._told: dict[str, dict[str, int]] = {}
        self._begin = self._clock.now()
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="kpe-counters", daemon=True)
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Tell what was counted last, and end. Idempotent.

        Args:
            timeout: Seconds to wait for that.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    # -- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        due = self._start_of_period(self._begin) + self._interval
        closing = False
        while not closing:
            closing = self._wait(due)
            now = self._clock.now()
            end = max(now, self._begin) if closing else max(due, self._start_of_period(now))
            if not self._report(end):
                return
            due = end + self._interval

    def _wait(self, due: datetime) -> bool:
        """Wait for a moment; return whether it is time to end."""
        with self._changed:
            while not self._closing and (left := (due - self._clock.now()).total_seconds()) > 0:
                self._clock.wait(self._changed, left)
            return self._closing

    def _start_of_period(self, moment: datetime) -> datetime:
        return moment - (moment - _EPOCH) % self._interval

    def _report(self, end: datetime) -> bool:
        """Tell what was added since the last time; return whether there still is who counts."""
        try:
            counted = self._counts()
            if counted is None:
                return False
            topics = self._added(counted)
        except Exception as error:  # noqa: BLE001 - the application's own function, perhaps
            _log.warning("counters_not_read", client=self.client, error=repr(error))
            return True  # the next report is about this period, too
        if topics:
            self._poller.emit(ProducerCounters(client=self.client, begin=self._begin, end=end, topics=topics))
        self._begin = end
        return True

    def _added(self, counted: Iterable[TopicCounts]) -> tuple[TopicCounts, ...]:
        """Return what is beyond what was told; a number that was read while it changed may be too low.

        A topic that is missing was given up (`MAX_IDLE_S`): if it is written again, it counts from 0.
        """
        added: list[TopicCounts] = []
        before, self._told = self._told, {}
        for counts in counted:
            numbers: dict[str, int] = asdict(counts, filter=_is_count)
            told = self._told[counts.topic] = before.get(counts.topic, {})
            news = {name: max(0, number - told.get(name, 0)) for name, number in numbers.items()}
            told.update({name: told.get(name, 0) + number for name, number in news.items()})
            if any(news.values()):
                added.append(TopicCounts(topic=counts.topic, **news))
        return tuple(added)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _is_count(_field: object, value: object) -> bool:
    return isinstance(value, int)


def _without_keeping_alive(counts: CountTopics) -> Callable[[], Iterable[TopicCounts] | None]:
    """Return a function that calls a method as long as its object is there, and then returns None."""
    if not isinstance(counts, MethodType):
        return counts
    reference = weakref.WeakMethod(counts)

    def count() -> Iterable[TopicCounts] | None:
        method = reference()
        return None if method is None else method()

    return count
