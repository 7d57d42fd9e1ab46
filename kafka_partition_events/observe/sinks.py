"""The sinks that the configuration asks for, fed from the outbox; and how each is doing."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import asdict

from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.observe.setting_kinds import masked
from kafka_partition_events.observe.settings import (
    AlertmanagerSinkSettings,
    Kafka,
    KafkaSinkSettings,
    SinkSettings,
    WebhookSinkSettings,
)
from kafka_partition_events.outbox import (
    Deliverer,
    DeliveryStats,
    ReaderStats,
    RetryPolicy,
    Sink,
    SqliteOutbox,
)

QueuedSettings = KafkaSinkSettings | WebhookSinkSettings

_QUIET = {"log_level": "2"}  # librdkafka's own lines on stderr; the sink reports failures
_OF_THE_SERVICE = {"type", "max_delay"}
_CLOSE_S = 5.0


def make_sink(settings: QueuedSettings, kafka: Kafka) -> Sink:
    """Return a sink; nothing is sent yet.

    Args:
        settings: Its own settings.
        kafka: How the observed cluster is reached; a Kafka sink writes there if it names no other.

    Raises:
        ConfigurationError: its settings are of no use; the message names the sink.
        ImportError: an extra is missing.
    """
    try:
        if isinstance(settings, KafkaSinkSettings):
            return _kafka_sink(settings, kafka)
        from kafka_partition_events_listeners.webhook.sink import WebhookSink  # noqa: PLC0415 - an extra

        arguments = asdict(settings, filter=lambda field, _: field.name not in _OF_THE_SERVICE)
        return WebhookSink(**arguments)
    except ConfigurationError as error:
        raise ConfigurationError(f"sinks.{settings.name}: {error}") from error


def _kafka_sink(settings: KafkaSinkSettings, kafka: Kafka) -> Sink:
    from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra

    from kafka_partition_events_listeners.kafka_sink import KafkaSink  # noqa: PLC0415

    servers: str | None = settings.bootstrap_servers
    properties: Mapping[str, str] = settings.properties
    if servers is None:
        servers, properties = kafka.bootstrap_servers, {**kafka.properties, **properties}
    if servers is None:
        raise ConfigurationError("no brokers are named; set kafka.bootstrap_servers")
    config = {**_QUIET, **properties, "bootstrap.servers": servers}
    try:
        return KafkaSink(config, settings.topic, name=settings.name)
    except KafkaException as error:
        refusal = redacted(str(error.args[0].str()), properties)
        raise ConfigurationError(f"librdkafka refuses a property: {refusal}") from None


def described_target(settings: SinkSettings) -> str:
    """Return where a sink delivers to, without secrets."""
    match settings:
        case KafkaSinkSettings():
            where = f" at {settings.bootstrap_servers}" if settings.bootstrap_servers else ""
            return f"events to topic {settings.topic}{where}"
        case WebhookSinkSettings():
            return f"events to {masked(settings.url)}"
        case AlertmanagerSinkSettings():
            return f"alerts to Alertmanager at {', '.join(settings.urls)}"


class SinkRunner:
    """A deliverer for each sink that the outbox feeds. Thread-safe."""

    def __init__(
        self,
        outbox: SqliteOutbox,
        sinks: Sequence[QueuedSettings],
        kafka: Kafka,
        *,
        clock: Clock,
        make: Callable[[QueuedSettings, Kafka], Sink] = make_sink,
    ) -> None:
        """Make it; nothing is delivered, and no reader forgotten, before `start`.

        Args:
            outbox: Where entries wait.
            sinks: What to feed.
            kafka: How the observed cluster is reached.
            clock: Gives the time.
            make: Makes a sink of its settings.

        Raises:
            ConfigurationError: a sink's settings are of no use.
            ImportError: a sink needs an extra that is not installed.
        """
        self._outbox = outbox
        self._deliverers: dict[str, Deliverer] = {}
        try:
            for sink in sinks:
                self._deliverers[sink.name] = Deliverer(
                    outbox, make(sink, kafka), retry=_patience(sink), clock=clock
                )
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        """Begin to deliver; the outbox forgets readers that are no sinks any more. Idempotent."""
        for gone in set(self._outbox.readers()) - self._deliverers.keys():
            self._outbox.unsubscribe(gone)
        for deliverer in self._deliverers.values():
            deliverer.start()

    def stop(self) -> None:
        """Deliver what can be delivered within seconds, then stop; all sinks at once. Idempotent."""
        closing = [
            threading.Thread(target=deliverer.close, args=(_CLOSE_S,), name=f"kpe-closing-{name}")
            for name, deliverer in self._deliverers.items()
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def ended(self) -> Iterator[str]:
        """Yield the sinks whose deliverer's thread has ended although it should run."""
        return (name for name, deliverer in self._deliverers.items() if not deliverer.alive)

    def stats(self) -> dict[str, tuple[ReaderStats, DeliveryStats]]:
        """Return for each sink what waits for it, and what it has got here."""
        return {
            name: (self._outbox.stats(name), deliverer.stats) for name, deliverer in self._deliverers.items()
        }


def _patience(sink: QueuedSettings) -> RetryPolicy:
    return RetryPolicy(first_delay=min(RetryPolicy().first_delay, sink.max_delay), max_delay=sink.max_delay)
