"""The settings of sinks: topics, webhooks, and those for who is on call."""

from collections.abc import Mapping

from attrs import frozen

from kafka_partition_events.observe.setting_kinds import (
    BOOLEAN,
    DURATION,
    HEADERS,
    NAME,
    NETWORKS,
    PROPERTIES,
    TEXT,
    TEXTS,
    URL,
    URLS,
    one_of,
    setting,
    some_of,
    whole_number,
)
from kafka_partition_events.outbox import Stream

_STREAMS = one_of(*(stream.value for stream in Stream))
_INCIDENTS = one_of("incidents")
_REDACTIONS = some_of("hosts", "errors", "observers")


@frozen(kw_only=True)
class KafkaSinkSettings:
    """``[[sinks]]`` with ``type = "kafka"``: a topic of this cluster, or of the one that is named."""

    name: str = setting(NAME, required=True)
    type: str = setting(one_of("kafka"), "kafka")
    stream: str = setting(_STREAMS, "events")
    topic: str = setting(TEXT, "kpe.events")
    bootstrap_servers: str | None = setting(TEXT)
    properties: Mapping[str, str] = setting(PROPERTIES, {})
    redact: tuple[str, ...] = setting(_REDACTIONS, [])
    max_delay: float = setting(DURATION, "1m")
    max_age: float = setting(DURATION, "7d")


@frozen(kw_only=True)
class EgressSettings:
    """Of each sink that posts: where it may post to, and how; the fields of `Egress`. And what it leaves out.

    ``client_cert`` and the like are paths: files that are renewed are taken over.
    """

    allow_private: bool = setting(BOOLEAN, False)
    allow_networks: tuple[str, ...] = setting(NETWORKS, [])
    proxy: str | None = setting(URL, secret=True)
    ca_file: str | None = setting(TEXT)
    client_cert: str | None = setting(TEXT)
    client_key: str | None = setting(TEXT)
    redact: tuple[str, ...] = setting(_REDACTIONS, [])


@frozen(kw_only=True)
class WebhookSinkSettings(EgressSettings):
    """``[[sinks]]`` with ``type = "webhook"``: HTTP POST, signed if there are secrets."""

    name: str = setting(NAME, required=True)
    type: str = setting(one_of("webhook"), "webhook")
    stream: str = setting(_STREAMS, "incidents")
    url: str = setting(URL, required=True, secret=True)
    format: str = setting(one_of("cloudevents", "alertmanager", "slack", "teams", "template"), "cloudevents")
    template: str | None = setting(TEXT, in_file=True)
    runbook_url: str | None = setting(URL)
    secrets: tuple[str, ...] = setting(TEXTS, [], secret=True)
    headers: Mapping[str, str] = setting(HEADERS, {}, secret=True)
    timeout: float = setting(DURATION, "10s")
    batch: int = setting(whole_number(1), 1)
    max_delay: float = setting(DURATION, "1m")
    max_age: float = setting(DURATION, "7d")


@frozen(kw_only=True)
class AlertmanagerSinkSettings(EgressSettings):
    """``[[sinks]]`` with ``type = "alertmanager"``: its API v2; each of ``urls`` gets every alert.

    ``repeat_interval`` is after what time an alert that lasts is posted again. Alertmanagers have private
    addresses as a rule, so these are allowed.
    """

    name: str = setting(NAME, required=True)
    type: str = setting(one_of("alertmanager"), "alertmanager")
    stream: str = setting(_INCIDENTS, "incidents")
    urls: tuple[str, ...] = setting(URLS, required=True)
    repeat_interval: float = setting(DURATION, "1m")
    runbook_url: str | None = setting(URL)
    headers: Mapping[str, str] = setting(HEADERS, {}, secret=True)
    allow_private: bool = setting(BOOLEAN, True)
    timeout: float = setting(DURATION, "10s")
    max_delay: float = setting(DURATION, "1m")
    max_age: float = setting(DURATION, "7d")


@frozen(kw_only=True)
class PagerDutySinkSettings(EgressSettings):
    """``[[sinks]]`` with ``type = "pagerduty"``: its Events API v2."""

    name: str = setting(NAME, required=True)
    type: str = setting(one_of("pagerduty"), "pagerduty")
    stream: str = setting(_INCIDENTS, "incidents")
    routing_key: str = setting(TEXT, required=True, secret=True)
    url: str = setting(URL, "https://events.pagerduty.com/v2/enqueue")
    runbook_url: str | None = setting(URL)
    timeout: float = setting(DURATION, "10s")
    max_delay: float = setting(DURATION, "1m")
    max_age: float = setting(DURATION, "7d")


@frozen(kw_only=True)
class SmtpSinkSettings:
    """``[[sinks]]`` with ``type = "smtp"``: e-mail, all that belongs to an incident in one thread.

    ``port`` is by default what ``security`` has as its own: 587, 465 or 25. ``ca_file`` has the authorities
    that may have signed the server's certificate, in place of the system's.
    """

    name: str = setting(NAME, required=True)
    type: str = setting(one_of("smtp"), "smtp")
    stream: str = setting(_INCIDENTS, "incidents")
    host: str = setting(TEXT, required=True)
    port: int | None = setting(whole_number(1))
    security: str = setting(one_of("starttls", "tls", "none"), "starttls")
    ca_file: str | None = setting(TEXT)
    username: str | None = setting(TEXT)
    password: str | None = setting(TEXT, secret=True)
    sender: str = setting(TEXT, required=True)
    to: tuple[str, ...] = setting(TEXTS, required=True)
    redact: tuple[str, ...] = setting(_REDACTIONS, [])
    runbook_url: str | None = setting(URL)
    timeout: float = setting(DURATION, "10s")
    max_delay: float = setting(DURATION, "1m")
    max_age: float = setting(DURATION, "7d")


SinkSettings = (
    KafkaSinkSettings
    | WebhookSinkSettings
    | AlertmanagerSinkSettings
    | PagerDutySinkSettings
    | SmtpSinkSettings
)
SINK_TYPES: Mapping[str, type] = {
    "kafka": KafkaSinkSettings,
    "webhook": WebhookSinkSettings,
    "alertmanager": AlertmanagerSinkSettings,
    "pagerduty": PagerDutySinkSettings,
    "smtp": SmtpSinkSettings,
}
