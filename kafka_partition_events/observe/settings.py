"""The settings of the service, section by section, with their defaults."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from attrs import field, fields, frozen

from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.observe.setting_kinds import (
    Address,
    Bytes,
    Count,
    Headers,
    Name,
    Pattern,
    Properties,
    Seconds,
    Secret,
    SecretUrl,
    Text,
    Url,
)

Client = Literal["kafka-python", "confluent-kafka"]
KAFKA_PYTHON: Final = "kafka-python"
CONFLUENT: Final = "confluent-kafka"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@frozen(kw_only=True)
class Kafka:
    """``[kafka]``: the cluster, how it is reached and what it is called. ``properties`` are librdkafka's own.

    ``name`` is the label ``kafka_cluster`` of metrics and alerts; without it that is the cluster's id.
    ``client`` polls the cluster; Kafka sinks are confluent-kafka's, whatever it is. ``allow_code`` lets
    properties, those of sinks too, load libraries and run commands.
    """

    name: Name | None = None
    client: Client = "kafka-python"
    bootstrap_servers: Text | None = None
    properties: Properties = field(default=_NONE, repr=False)
    allow_code: bool = False


@frozen(kw_only=True)
class Observer:
    """``[observer]``: what is polled, how often, and the observer's name. No name means the host's.

    ``summary_interval`` is the period of `cluster.summary` events.
    """

    name: Text | None = None
    interval: Seconds = 10.0
    topics: Pattern = ".*"
    summary_interval: Seconds = 300.0


@frozen(kw_only=True)
class Outbox:
    """``[outbox]``: where events wait for the sinks, and how many of them."""

    path: Text = "kpe-outbox.db"
    max_bytes: Bytes = 512 * 1024 * 1024
    max_age: Seconds = 604_800.0


@frozen(kw_only=True)
class Alerts:
    """``[alerts]``: how long a state must have stood before it is posted to Alertmanager."""

    hold_down: Seconds = 30.0
    broker_hold_down: Seconds = 30.0


@frozen(kw_only=True)
class Http:
    """``[http]``: metrics and health. With ``client_ca`` metrics take a client certificate."""

    listen: Address = ("127.0.0.1", 9404)
    tls_cert: Text | None = None
    tls_key: Text | None = None
    tls_min_version: Literal["1.2", "1.3"] = "1.2"
    client_ca: Text | None = None


@frozen(kw_only=True)
class Log:
    """``[log]``: what the service writes to standard error; ``--verbose`` wins over ``level``.

    Audit lines are written at any level.
    """

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "warning"


@frozen(kw_only=True)
class Metrics:
    """``[metrics]``: how many topics have series of their own; the others are added up."""

    max_topics: Count = 2_000


@frozen(kw_only=True)
class Control:
    """``[control]``: label events as planned or not, by the control topics."""

    enabled: bool = False
    prefix: Text = PREFIX


@frozen(kw_only=True)
class PolicySettings:
    """``[policy]``: what `kpe tracker` lets be done; see `control.changes.policy.Policy`."""

    may_grow: Pattern = ".*"
    max_partitions: Count | None = None


@frozen(kw_only=True)
class KafkaSinkSettings:
    """``[[sinks]]`` with ``type = "kafka"``: a topic of this cluster, or of the one that is named."""

    name: Name
    type: Literal["kafka"] = "kafka"
    topic: Text = "kpe.events"
    bootstrap_servers: Text | None = None
    properties: Properties = field(default=_NONE, repr=False)
    max_delay: Seconds = 60.0


@frozen(kw_only=True)
class HttpWay:
    """How a sink reaches its URL; see `kafka_partition_events_listeners.webhook.client.Way`."""

    headers: Headers = field(default=_NONE, repr=False)
    timeout: Seconds = 10.0
    proxy: SecretUrl | None = field(default=None, repr=False)
    ca_file: Text | None = None
    client_cert: Text | None = None
    client_key: Text | None = None


@frozen(kw_only=True)
class WebhookSinkSettings(HttpWay):
    """``[[sinks]]`` with ``type = "webhook"``: HTTP POST, signed if there are secrets; see `WebhookSink`."""

    name: Name
    type: Literal["webhook"] = "webhook"
    url: SecretUrl = field(repr=False)
    events: tuple[Text, ...] | None = None
    template: Text | None = None
    secrets: tuple[Secret, ...] = field(default=(), repr=False)
    max_delay: Seconds = 60.0


@frozen(kw_only=True)
class AlertmanagerSinkSettings(HttpWay):
    """``[[sinks]]`` with ``type = "alertmanager"``: its API v2; each of ``urls`` gets every alert.

    ``repeat_interval`` is after what time an alert that lasts is posted again.
    """

    name: Name
    type: Literal["alertmanager"] = "alertmanager"
    urls: tuple[Url, ...]
    repeat_interval: Seconds = 60.0


SinkSettings = KafkaSinkSettings | WebhookSinkSettings | AlertmanagerSinkSettings
SINK_TYPES: Final[Mapping[str, type]] = MappingProxyType(
    {"kafka": KafkaSinkSettings, "webhook": WebhookSinkSettings, "alertmanager": AlertmanagerSinkSettings}
)


@frozen(kw_only=True)
class Settings:
    """All of them."""

    kafka: Kafka = field(factory=Kafka)
    observer: Observer = field(factory=Observer)
    outbox: Outbox = field(factory=Outbox)
    alerts: Alerts = field(factory=Alerts)
    http: Http = field(factory=Http)
    log: Log = field(factory=Log)
    metrics: Metrics = field(factory=Metrics)
    control: Control = field(factory=Control)
    policy: PolicySettings = field(factory=PolicySettings)
    sinks: tuple[SinkSettings, ...] = ()


SECTIONS: Final[Mapping[str, type]] = MappingProxyType(
    {section.name: section.type for section in fields(Settings) if section.name != "sinks" and section.type}
)
ALL: Final = frozenset({*SECTIONS, "sinks"})
