"""The sinks that the configuration asks for."""

from typing import TYPE_CHECKING

from attrs import asdict, fields

from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe.setting_kinds import masked
from kafka_partition_events.observe.settings import Kafka
from kafka_partition_events.observe.sink_settings import (
    AlertmanagerSinkSettings,
    EgressSettings,
    KafkaSinkSettings,
    PagerDutySinkSettings,
    SinkSettings,
    SmtpSinkSettings,
    WebhookSinkSettings,
)
from kafka_partition_events.outbox import Sink, Stream

_EGRESS = tuple(field.name for field in fields(EgressSettings) if field.name != "redact")
_OF_THE_SERVICE = {"type", "stream", "max_delay", "max_age", *_EGRESS}
"""Settings of a sink that are not its own arguments."""

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
        if isinstance(settings, WebhookSinkSettings):
            return _webhook_sink(settings)
        return _on_call_sink(settings)
    except ConfigurationError as error:
        raise ConfigurationError(f"sinks.{settings.name}: {error}") from error


def _kafka_sink(settings: KafkaSinkSettings, kafka: Kafka) -> Sink:
    from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra

    from kafka_partition_events_listeners.kafka_sink import KafkaSink  # noqa: PLC0415

    servers, properties = settings.bootstrap_servers, settings.properties
    if servers is None:
        servers, properties = kafka.bootstrap_servers, {**kafka.properties, **properties}
    if servers is None:
        raise ConfigurationError("no brokers are named; set kafka.bootstrap_servers")
    config = {**_QUIET, **properties, "bootstrap.servers": servers}
    try:
        return KafkaSink(
            config,
            settings.topic,
            name=settings.name,
            stream=Stream(settings.stream),
            redact=settings.redact,
        )
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

    return Egress(**{field: getattr(settings, field) for field in _EGRESS})


def _on_call_sink(settings: AlertmanagerSinkSettings | PagerDutySinkSettings | SmtpSinkSettings) -> Sink:
    arguments = asdict(settings, filter=lambda field, _: field.name not in _OF_THE_SERVICE)
    if isinstance(settings, SmtpSinkSettings):
        from kafka_partition_events_listeners.mail.sink import SmtpSink  # noqa: PLC0415

        return SmtpSink(**arguments)
    arguments["egress"] = _egress(settings)
    if isinstance(settings, AlertmanagerSinkSettings):
        from kafka_partition_events_listeners.webhook.alertmanager import AlertmanagerSink  # noqa: PLC0415

        return AlertmanagerSink(**arguments)
    from kafka_partition_events_listeners.webhook.pagerduty import pagerduty_sink  # noqa: PLC0415

    return pagerduty_sink(**arguments)


def described_target(settings: SinkSettings) -> str:
    """Return where a sink delivers to, without secrets."""
    match settings:
        case KafkaSinkSettings():
            where = f" at {settings.bootstrap_servers}" if settings.bootstrap_servers else ""
            return f"topic {settings.topic}{where}"
        case WebhookSinkSettings():
            return f"{masked(settings.url)} ({settings.format})"
        case AlertmanagerSinkSettings():
            return f"Alertmanager at {', '.join(settings.urls)}"
        case PagerDutySinkSettings():
            return f"PagerDuty at {settings.url}"
        case SmtpSinkSettings():
            return f"{', '.join(settings.to)} by {settings.host}"
