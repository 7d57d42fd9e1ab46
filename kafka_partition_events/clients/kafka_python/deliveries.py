"""Brings what becomes of a running producer's records to its partitioner.

kafka-python has no interceptor, so `watch` makes the producer an instance of a subclass of its own class, of
which only ``send`` and ``close`` differ: ``send`` registers two callbacks with the record's future before the
application can. Beside public names this relies on ``FutureRecordMetadata._produce_future.topic_partition``,
because a future that fails does not tell where its record was sent.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Iterable
from typing import Any

from kafka import KafkaProducer
from kafka.errors import BrokerResponseError, RequestTimedOutError

from kafka_partition_events.clients.kafka_python.overriding import override
from kafka_partition_events.clients.kafka_python.standby import Standby
from kafka_partition_events.errors import PollerClosedError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.events import BrokerSuspected, Event
from kafka_partition_events.metadata.listener import name_of
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.routing.lanes import MAIN

SAMPLE_S = 0.00025
"""At higher rates than one record in this time, only one is tracked: it stands for its neighbours."""

_log = get_logger(__name__)


class Reports:
    """Tracks the records of one producer. Thread-safe; holds no reference to the producer.

    ``sent`` runs in the thread that sends, the rest in the producer's I/O thread, before the application's
    own callbacks.
    """

    def __init__(
        self,
        partitioner: Partitioner,
        poller: MetadataPoller,
        clock: Callable[[], float] = time.monotonic,
        standby: Standby | None = None,
    ) -> None:
        self.open = True
        self.standby = standby
        self._partitioner = partitioner
        self._deliveries = partitioner.deliveries
        self._poller = poller
        self._name = name_of(partitioner)
        self._clock = clock
        self._next_sample = 0.0

    def latest_way(self) -> int:
        """Return which way the record took that this thread has sent last."""
        return MAIN if self.standby is None else self.standby.latest_way()

    def sent(self, future: Any) -> None:
        """Track a record that was just sent, unless another one was a moment ago. Never raises."""
        now = self._clock()
        if now < self._next_sample and not self._deliveries.avoiding:
            return
        try:
            topic, partition = future._produce_future.topic_partition  # noqa: SLF001 - see above
            self._track(future, topic, partition, now, self.latest_way())
        except Exception as error:  # noqa: BLE001 - whatever it is, the record has been sent
            self.open = False
            _log.warning("kafka_python_delivery_feedback_lost", error=repr(error))

    def _track(self, future: Any, topic: str, partition: int | None, now: float, way: int) -> None:
        route = self._partitioner.route(topic)
        if route is None or partition is None or not 0 <= partition < route.count:
            return
        if now < self._next_sample and not route.avoids(partition):  # a probe is always tracked
            return
        self._next_sample = now + SAMPLE_S
        self._deliveries.sent(topic, partition, *route.needs(partition), way)
        future.add_callback(functools.partial(self._delivered, topic, partition, way, now))
        future.add_errback(functools.partial(self._failed, topic, partition, way, now))
        self.heard()

    def _delivered(self, topic: str, partition: int, way: int, sent_at: float, _metadata: object) -> None:
        latency = self._clock() - sent_at
        self.emit(self._deliveries.answered(topic, partition, latency, self._name, way))
        self.heard()

    def _failed(self, topic: str, partition: int, way: int, sent_at: float, error: BaseException) -> None:
        # A broker has a time-out too, but kafka-python uses the same error for its own.
        if isinstance(error, BrokerResponseError) and not isinstance(error, RequestTimedOutError):
            self._delivered(topic, partition, way, sent_at, error)
        else:  # kafka-python's own: the broker has not answered
            self.emit(self._deliveries.failed(topic, partition, self._name, way))
            self.heard()

    def lost_connection(self, broker: int) -> None:
        """Note that the producer lost a connection, or could not make one."""
        if self.open:
            self.emit(self._deliveries.unreachable(broker, self._name))

    def heard(self) -> None:
        """Look at all brokers; cheap to call often."""
        self.emit(self._deliveries.heard(self._name))

    def emit(self, events: Iterable[Event]) -> None:
        """Tell events to the poller's listeners, and look at the cluster anew where a broker is suspect."""
        for event in events:
            self._poller.emit(event)
            if isinstance(event, BrokerSuspected):
                with contextlib.suppress(PollerClosedError):
                    self._poller.refresh(f"broker {event.broker} is suspect")


def watch(
    producer: KafkaProducer, reports: Reports, closed: Callable[[], None]
) -> Callable[[KafkaProducer], None]:
    """Report every record that the producer sends from now on, and when it was closed.

    Returns:
        What ends this, given the producer.
    """
    base = type(producer)  # asked anew each time: a tracer may wrap its method later

    def send(self: KafkaProducer, *args: Any, **kwargs: Any) -> Any:
        future = base.send(self, *args, **kwargs)
        if reports.open:
            reports.sent(future)
        return future

    def close(self: KafkaProducer, *args: Any, **kwargs: Any) -> None:
        try:
            base.close(self, *args, **kwargs)
        finally:
            closed()

    return override(producer, send=send, close=close)
