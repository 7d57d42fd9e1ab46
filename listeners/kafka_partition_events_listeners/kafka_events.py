"""A listener that writes every event to a Kafka topic as a CloudEvent."""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events.clients.librdkafka import up_to_date
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.cloudevents import TYPE_PREFIX, to_record
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.forking import keep_for_ever, reset_in_children
from kafka_partition_events_listeners.cloudevents_listener import CloudEventsListener

if TYPE_CHECKING:
    from confluent_kafka import Producer

_log = get_logger(__name__)


@frozen(kw_only=True)
class PublishStats:
    """What became of the events so far.

    Attributes:
        published: Events that Kafka acknowledged.
        failed: Events that are lost: not encoded, not queued, or not delivered in time.
        pending: Events queued and not reported on yet.
    """

    published: int = 0
    failed: int = 0
    pending: int = 0


class KafkaEventListener(CloudEventsListener):
    """Writes every event to a Kafka topic as a CloudEvent in structured JSON mode.

    The record key keeps the events of one topic, and those of the cluster as a whole, in order. Producing
    is idempotent, so a retry makes no double. It is not durable: what librdkafka could not deliver within
    its ``delivery.timeout.ms``, or has not delivered when the listener is closed, is lost, counted in
    `stats` and logged.

    Make the topic yourself: no listener creates topics. Give it a replication factor that survives the
    outages it is to report.

    Registered with one poller at a time. `stats` and `flush` may be called from any thread. No librdkafka
    producer survives a fork, so it hears nothing in a forked child: make another one there.
    """

    survives_fork = False

    def __init__(
        self,
        producer: "Producer | Mapping[str, Any]",
        topic: str = "kpe.events",
        *,
        observer: str | None = None,
        type_prefix: str = TYPE_PREFIX,
        flush_timeout: float = 10.0,
    ) -> None:
        """Make a listener.

        Args:
            producer: A confluent-kafka `Producer`, which stays yours to look after, or the configuration of
                one for the listener alone (idempotent unless it says otherwise).
            topic: Where to write.
            observer: The name of this observer, for ``data.observer``; useful when there are several.
            type_prefix: What comes before the name in the CloudEvents ``type``.
            flush_timeout: Seconds that `close` waits for deliveries.

        Raises:
            ConfigurationError: ``flush_timeout`` is negative or ``topic`` empty.
            ImportError: a configuration was given and confluent-kafka is not installed.
        """
        if flush_timeout < 0:
            raise ConfigurationError(f"flush_timeout must not be negative, but is {flush_timeout} s")
        if not topic:
            raise ConfigurationError("topic must name the topic to write events to, but is empty")
        super().__init__(observer=observer, type_prefix=type_prefix)
        self.topic = topic
        self._producer = make_producer(producer) if isinstance(producer, Mapping) else producer
        self._flush_timeout = flush_timeout
        self._counting = threading.Lock()
        self._queued = self._published = self._failed = 0
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Let a forked child end without destroying the producer, which would hang there."""
        self._counting = threading.Lock()
        keep_for_ever(self._producer)

    @property
    def stats(self) -> PublishStats:
        """What became of the events so far, as far as delivery reports have been served (see `flush`)."""
        with self._counting:
            return PublishStats(
                published=self._published,
                failed=self._failed,
                pending=self._queued - self._published - self._failed,
            )

    def on_event(self, event: Event) -> None:
        """Queue the event. Never raises and never waits."""
        with self._counting:
            self._queued += 1
        try:
            super().on_event(event)
        except Exception as error:  # noqa: BLE001 - a full queue, a fatal producer, an event of the user's
            self._lost(event.kind, error)

    def on_cloudevent(self, event: Event, cloudevent: CloudEvent) -> None:
        """Queue the CloudEvent made of an event."""
        record = to_record(cloudevent)

        def report(error: Any, _message: Any) -> None:
            if error is None:
                with self._counting:
                    self._published += 1
            else:
                self._lost(event.kind, error)

        self._producer.produce(
            self.topic,
            key=record.key,
            value=record.value,
            headers={**record.headers},
            on_delivery=report,
        )
        self._producer.poll(0)

    def flush(self, timeout: float) -> int:
        """Wait for deliveries, at most ``timeout`` seconds, and return how many events are still pending."""
        self._producer.flush(timeout)
        return self.stats.pending

    def close(self) -> None:
        """Wait for deliveries, for ``flush_timeout`` seconds at most."""
        if pending := self.flush(self._flush_timeout):
            _log.error("event_publish_abandoned", topic=self.topic, events=pending)

    def _lost(self, kind: str, error: Any) -> None:
        with self._counting:
            self._failed += 1
        _log.error("event_publish_failed", topic=self.topic, kind=kind, error=str(error))


def make_producer(config: Mapping[str, Any]) -> "Producer":
    """Return a producer; it is idempotent and gathers records for 5 ms unless the configuration differs.

    Raises:
        ImportError: confluent-kafka is not installed.
    """
    from confluent_kafka import Producer  # noqa: PLC0415 - an extra, needed for a configuration only

    return Producer({"enable.idempotence": True, "linger.ms": 5, **up_to_date(config)})
