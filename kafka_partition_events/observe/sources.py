"""The source of metadata, and the link to the control topics, that the configuration asks for."""

import re

from attrs import evolve

from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.control.agents.agent_thread import AgentLink
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.source import MetadataSource, Observation
from kafka_partition_events.observe.settings import CONFLUENT, Control, Kafka


def open_source(kafka: Kafka) -> MetadataSource:
    """Return a source on a client of its own; connecting happens in the background.

    Raises:
        ConfigurationError: the client can't connect as the properties say; the message holds no secret.
        ImportError: the client is not installed.
    """
    config = {**kafka.properties, "bootstrap.servers": str(kafka.bootstrap_servers)}
    if kafka.client == CONFLUENT:
        from kafka_partition_events.clients.confluent import ConfluentMetadataSource  # noqa: PLC0415

        try:
            return ConfluentMetadataSource(config)
        except ConfigurationError as error:
            raise ConfigurationError(redacted(str(error), config)) from None
    from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource  # noqa: PLC0415
    from kafka_partition_events.clients.kafka_python.properties import kafka_python_settings  # noqa: PLC0415

    try:
        return KafkaPythonMetadataSource(kafka_python_settings(config))
    except ConfigurationError as error:
        raise ConfigurationError(
            f'kafka.properties: {error}. Change that, or set client = "{CONFLUENT}" in [kafka]'
        ) from None


def open_link(control: Control, kafka: Kafka) -> AgentLink:
    """Return a link to the control topics; connecting happens in the background.

    Args:
        control: What their names begin with.
        kafka: How the cluster is reached.

    Raises:
        ConfigurationError: librdkafka refuses a property; the message holds no secret.
        ImportError: confluent-kafka is not installed.
    """
    from kafka_partition_events.control.agents.confluent import ControlLink  # noqa: PLC0415 - an extra

    config = {**kafka.properties, "bootstrap.servers": str(kafka.bootstrap_servers)}
    try:
        return ControlLink(config, prefix=control.prefix)
    except ConfigurationError as error:
        raise ConfigurationError(f"control: {redacted(str(error), config)}") from None


class NarrowedSource:
    """Leaves out of another source's answers the topics whose whole name does not match.

    All topics are asked for, so that new ones are seen; to everybody behind it, there are no others.
    """

    def __init__(self, source: MetadataSource, topics: str) -> None:
        """Take over the source; ``topics`` is a regular expression."""
        self._source = source
        self._matches = re.compile(topics).fullmatch

    def fetch(self, topics: frozenset[str] | None, /, *, timeout: float) -> Observation:
        """Ask the cluster once.

        Raises:
            MetadataFetchError: the cluster could not be asked.
        """
        seen = self._source.fetch(topics, timeout=timeout)
        return evolve(
            seen,
            topics={name: info for name, info in seen.topics.items() if self._matches(name)},
            errors={name: error for name, error in seen.errors.items() if self._matches(name)},
        )

    def close(self) -> None:
        """Close the other source."""
        self._source.close()
