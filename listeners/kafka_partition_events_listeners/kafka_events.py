"""A listener that writes every event to a Kafka topic as a CloudEvent."""

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog
from attrs import frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.events import Event, MetadataRecovered
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events_listeners.cloudevents import TYPE_PREFIX, to_cloudevent, to_record

if TYPE_CHECKING:
    from confluent_kafka import Producer

_log = structlog.get_logger(__name__)


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


class KafkaEventListener(PartitionChangeListener):
    """Writes every event to a Kafka topic as a CloudEvent in structured JSON mode.

    The record key keeps the events of one topic, and those of the cluster as a whole, in order. Producing
    is idempotent, so a retry makes no double. It is not durable: what librdkafka could not deliver within
    its ``delivery.timeout.ms``, or has not delivered when the listener is closed, is lost, counted in
    `stats` and logged.

    Make the topic yourself: no listener creates topics. Give it a replication factor that survives the
    outages it is to report.

    Registered with one poller at a time. `stats` and `flush` may be called from any thread.
    """

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
        self.topic = topic
        self._producer = _make_producer(producer) if isinstance(producer, Mapping) else producer
        self._observer = observer
        self._type_prefix = type_prefix
        self._flush_timeout = flush_timeout
        self._blind_from: datetime | None = None
        self._counting = threading.Lock()
        self._queued = self._published = self._failed = 0

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
        self._learn(event)
        with self._counting:
            self._queued += 1
        try:
            self._publish(event)
        except Exception as error:  # noqa: BLE001 - a full queue, a fatal producer, an event of the user's
            self._lost(event.kind, error)

    def flush(self, timeout: float) -> int:
        """Wait for deliveries, at most ``timeout`` seconds, and return how many events are still pending."""
        self._producer.flush(timeout)
        return self.stats.pending

    def close(self) -> None:
        """Wait for deliveries, for ``flush_timeout`` seconds at most."""
        if pending := self.flush(self._flush_timeout):
            _log.error("event_publish_abandoned", topic=self.topic, events=pending)

    def _learn(self, event: Event) -> None:
        if isinstance(event, MetadataRecovered):
            # Told first of what one look found; whatever else it found has the same beginning.
            self._blind_from = event.previous_at

    def _publish(self, event: Event) -> None:
        record = to_record(
            to_cloudevent(
                event,
                observer=self._observer,
                recorded_at=datetime.now(UTC),
                blind=event.previous_at is not None and event.previous_at == self._blind_from,
                type_prefix=self._type_prefix,
            )
        )

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

    def _lost(self, kind: str, error: Any) -> None:
        with self._counting:
            self._failed += 1
        _log.error("event_publish_failed", topic=self.topic, kind=kind, error=str(error))


def _make_producer(config: Mapping[str, Any]) -> "Producer":
    from confluent_kafka import Producer  # noqa: PLC0415 - an extra, needed for a configuration only

    return Producer({"enable.idempotence": True, "linger.ms": 5, **config})
