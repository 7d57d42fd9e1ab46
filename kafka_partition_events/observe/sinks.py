"""The sinks that the configuration asks for."""

from typing import TYPE_CHECKING

from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe.settings import (
    EgressSettings,
    Kafka,
    KafkaSinkSettings,
    SinkSettings,
    WebhookSinkSettings,
)
from kafka_partition_events.outbox import Sink, Stream

if TYPE_CHECKING:
    from kafka_partition_events_listeners.webhook.egress import Egress

_QUIET = {"log_level": "2"}  # librdkafka's own lines on stderr; failures are told by the sink


def make_sink(settings: SinkSettings, kafka: Kafka) -> Sink:
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
        return _webhook_sink(settings)
    except ConfigurationError as error:
        raise ConfigurationError(f"sinks.{settings.name}: {error}") from error


def _kafka_sink(settings: KafkaSinkSettings, kafka: Kafka) -> Sink:
    from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra

    from kafka_partition_events_listeners.kafka_sink import KafkaSink  # noqa: PLC0415

    servers, properties = settings.bootstrap_servers, settings.properties
    if servers is None:
        servers, properties = kafka.bootstrap_servers, {**kafka.properties, **properties}
    if servers is None:
        raise ConfigurationError("nobody says where the brokers are; set kafka.bootstrap_servers")
    config = {**_QUIET, **properties, "bootstrap.servers": servers}
    try:
        return KafkaSink(config, settings.topic, name=settings.name, stream=Stream(settings.stream))
    except KafkaException as error:
        refusal = redacted(str(error.args[0].str()), properties)
        raise ConfigurationError(f"librdkafka refuses a property: {refusal}") from None


def _webhook_sink(settings: WebhookSinkSettings) -> Sink:
    from kafka_partition_events_listeners.webhook.sink import WebhookSink  # noqa: PLC0415 - an extra

    return WebhookSink(
        settings.url,
        name=settings.name,
        stream=Stream(settings.stream),
        format=settings.format,
        template=settings.template,
        runbook_url=settings.runbook_url,
        secrets=settings.secrets,
        headers=settings.headers,
        timeout=settings.timeout,
        batch=settings.batch,
        egress=_egress(settings),
        redact=settings.redact,
    )


def _egress(settings: EgressSettings) -> "Egress":
    from kafka_partition_events_listeners.webhook.egress import Egress  # noqa: PLC0415 - an extra

    return Egress(
        allow_private=settings.allow_private,
        allow_networks=settings.allow_networks,
        proxy=settings.proxy,
        ca_file=settings.ca_file,
        client_cert=settings.client_cert,
        client_key=settings.client_key,
    )
