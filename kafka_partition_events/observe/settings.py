"""The settings of the service, section by section, with their defaults."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import evolve, field, frozen

from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe.passwords import PasswordHash
from kafka_partition_events.observe.setting_kinds import (
    ADDRESS,
    BOOLEAN,
    DURATION,
    DURATIONS,
    NAME,
    PASSWORDS,
    PATTERN,
    PROPERTIES,
    SIZE,
    TEXT,
    TEXTS,
    WEEKLY,
    number,
    one_of,
    setting,
    whole_number,
)
from kafka_partition_events.observe.sink_settings import SinkSettings

KAFKA_PYTHON: Final = "kafka-python"
CONFLUENT: Final = "confluent-kafka"

OF_CONFIGURATION: Final = "window."
"""What the ids of silences begin with that are windows of the configuration."""


@frozen(kw_only=True)
class Kafka:
    """``[kafka]``: how the cluster is reached. ``properties`` are librdkafka's own, for TLS and logins.

    ``client`` looks at the cluster; the election and sinks are confluent-kafka's, whatever it is.
    ``allow_code`` lets properties, those of sinks and of ``[control]`` too, load libraries and run commands.
    """

    client: str = setting(one_of(KAFKA_PYTHON, CONFLUENT), KAFKA_PYTHON)
    bootstrap_servers: str | None = setting(TEXT)
    properties: Mapping[str, str] = setting(PROPERTIES, {})
    allow_code: bool = setting(BOOLEAN, False)


@frozen(kw_only=True)
class Observer:
    """``[observer]``: what is looked at, how often, and by whom. No name means the host's.

    ``summary_interval`` is the period of `cluster.summary` events.
    """

    name: str | None = setting(TEXT)
    interval: float = setting(DURATION, "10s")
    topics: str = setting(PATTERN, ".*")
    summary_interval: float = setting(DURATION, "5m")


@frozen(kw_only=True)
class Outbox:
    """``[outbox]``: where events wait for the sinks, and how many of them.

    ``on_corrupt`` is what a start does with a damaged file: end with an error, or rename it and begin anew.
    """

    path: str = setting(TEXT, "kpe-outbox.db")
    max_bytes: int = setting(SIZE, "512MiB")
    max_age: float = setting(DURATION, "7d")
    on_corrupt: str = setting(one_of("refuse", "set_aside"), "refuse")


@frozen(kw_only=True)
class Http:
    """``[http]``: where metrics and health are to be had, and by whom.

    ``client_ca`` asks for certificates of clients, ``client_names`` for one of these names in them, ``users``
    for passwords, by their hashes.
    """

    listen: tuple[str, int] = setting(ADDRESS, "127.0.0.1:9404")
    hosts: tuple[str, ...] = setting(TEXTS, [])
    tls_cert: str | None = setting(TEXT)
    tls_key: str | None = setting(TEXT)
    tls_min_version: str = setting(one_of("1.2", "1.3"), "1.2")
    client_ca: str | None = setting(TEXT)
    client_names: tuple[str, ...] = setting(TEXTS, [])
    users: Mapping[str, PasswordHash] = setting(PASSWORDS, {}, secret=True)


@frozen(kw_only=True)
class Log:
    """``[log]``: what the service writes to standard error; ``--verbose`` wins over ``level``.

    Audit lines are written at any level.
    """

    format: str = setting(one_of("text", "json"), "text")
    level: str = setting(one_of("debug", "info", "warning", "error"), "warning")


@frozen(kw_only=True)
class Metrics:
    """``[metrics]``: how much detail they have, and whether kafka_exporter's names are served, too."""

    granularity: str = setting(one_of("cluster", "topic", "partition"), "topic")
    max_topics: int = setting(whole_number(1), 2_000)
    compat: str = setting(one_of("none", "kafka_exporter"), "none")


@frozen(kw_only=True)
class Incidents:
    """``[incidents]``: when an event becomes worth somebody's attention; the fields of `incidents.Rules`."""

    hold_down: float = setting(DURATION, "30s")
    broker_hold_down: float = setting(DURATION, "30s")
    topic_hold_downs: Mapping[str, float] = setting(DURATIONS, {})
    planned_hold_down: float = setting(DURATION, "30m")
    update_interval: float = setting(DURATION, "5m")
    reminder_interval: float = setting(DURATION, "4h")
    max_topics: int = setting(whole_number(1), 50)
    flap_transitions: int = setting(whole_number(2), 4)
    flap_window: float = setting(DURATION, "10m")


@frozen(kw_only=True)
class Election:
    """``[election]``: let one of several observers of a cluster feed the sinks.

    ``shared_topic`` holds what all of them must know: silences, decisions, and what is told as open.
    """

    enabled: bool = setting(BOOLEAN, False)
    topic: str = setting(TEXT, "kpe.election")
    group: str = setting(TEXT, "kpe-observers")
    shared_topic: str = setting(TEXT, "kpe.observers")


@frozen(kw_only=True)
class Control:
    """``[control]``: label events as planned or not, by the control topics of this cluster or another one."""

    enabled: bool = setting(BOOLEAN, False)
    prefix: str = setting(TEXT, PREFIX)
    bootstrap_servers: str | None = setting(TEXT)
    properties: Mapping[str, str] = setting(PROPERTIES, {})


@frozen(kw_only=True)
class PolicySettings:
    """``[policy]``: what `kpe tracker` lets be done, whoever asks; see `control.changes.policy.Policy`."""

    may_grow: str = setting(PATTERN, ".*")
    max_partitions: int | None = setting(whole_number(1))
    max_factor: float | None = setting(number(1.0))
    approval: str | None = setting(PATTERN)


@frozen(kw_only=True)
class Window:
    """``[[windows]]``: a maintenance window that comes round every week and mutes sinks, never the journal.

    What is given of ``cluster``, ``topic`` (a regular expression), ``broker`` and ``event`` (a glob) must
    match, as in `incidents.Silence`.
    """

    name: str = setting(NAME, required=True)
    reason: str = setting(TEXT, required=True)
    weekly: tuple[str, ...] = setting(WEEKLY, required=True)
    lasts: float = setting(DURATION, required=True)
    cluster: str | None = setting(TEXT)
    topic: str | None = setting(PATTERN)
    broker: int | None = setting(whole_number(0))
    event: str = setting(TEXT, "*")


@frozen(kw_only=True)
class ClusterSettings:
    """``[[clusters]]``: one of several clusters, in place of ``[kafka]``'s. All else holds for each of them.

    Attributes:
        name: What it is called here.
        bootstrap_servers: Where its brokers are.
        properties: librdkafka's own, beside those of ``[kafka]``.
        outbox: Its outbox; by default that of ``[outbox]`` with ``-NAME`` before the suffix.
        topics: Those to be looked at; by default those of ``[observer]``.
        sinks: The names of those that are fed from it; none means all.
    """

    name: str = setting(NAME, required=True)
    bootstrap_servers: str = setting(TEXT, required=True)
    properties: Mapping[str, str] = setting(PROPERTIES, {})
    outbox: str | None = setting(TEXT)
    topics: str | None = setting(PATTERN)
    sinks: tuple[str, ...] = setting(TEXTS, [])


@frozen(kw_only=True)
class Settings:
    """All of them."""

    kafka: Kafka = field(factory=Kafka)
    observer: Observer = field(factory=Observer)
    outbox: Outbox = field(factory=Outbox)
    http: Http = field(factory=Http)
    log: Log = field(factory=Log)
    metrics: Metrics = field(factory=Metrics)
    incidents: Incidents = field(factory=Incidents)
    election: Election = field(factory=Election)
    control: Control = field(factory=Control)
    policy: PolicySettings = field(factory=PolicySettings)
    sinks: tuple[SinkSettings, ...] = ()
    windows: tuple[Window, ...] = ()
    clusters: tuple[ClusterSettings, ...] = ()

    def by_cluster(self) -> Mapping[str, "Settings"]:
        """Return the settings of each cluster by its name; the only one has none.

        Raises:
            ConfigurationError: two have one outbox, a sink is not there, or there is one in ``[kafka]``, too.
        """
        if not self.clusters:
            return {"": self}
        if self.kafka.bootstrap_servers is not None:
            raise ConfigurationError("kafka.bootstrap_servers: there are [[clusters]]: name it there instead")
        found = {cluster.name: self._of(cluster) for cluster in self.clusters}
        by_outbox: dict[str, str] = {}
        for name, own in found.items():
            if (other := by_outbox.setdefault(own.outbox.path, name)) != name:
                raise ConfigurationError(
                    f"clusters.{name}.outbox: {own.outbox.path} is that of {other}: each cluster has its own"
                )
        return found

    def _of(self, cluster: ClusterSettings) -> "Settings":
        by_name = {sink.name: sink for sink in self.sinks}
        for name in cluster.sinks:
            if name not in by_name:
                there = ", ".join(by_name) or "none"
                raise ConfigurationError(f"clusters.{cluster.name}.sinks: there is no {name}, only {there}")
        shared = Path(self.outbox.path)
        outbox = cluster.outbox or str(shared.with_name(f"{shared.stem}-{cluster.name}{shared.suffix}"))
        properties = {**self.kafka.properties, **cluster.properties}
        kafka = evolve(self.kafka, bootstrap_servers=cluster.bootstrap_servers, properties=properties)
        return evolve(
            self,
            kafka=kafka,
            outbox=evolve(self.outbox, path=outbox),
            observer=evolve(self.observer, topics=cluster.topics or self.observer.topics),
            sinks=tuple(by_name[name] for name in cluster.sinks) or self.sinks,
            clusters=(),
        )


SECTIONS: Mapping[str, type] = {
    "kafka": Kafka,
    "observer": Observer,
    "outbox": Outbox,
    "http": Http,
    "log": Log,
    "metrics": Metrics,
    "incidents": Incidents,
    "election": Election,
    "control": Control,
    "policy": PolicySettings,
}
