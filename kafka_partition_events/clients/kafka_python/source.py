"""Metadata through kafka-python."""

from collections.abc import Mapping
from typing import Any

from kafka import KafkaProducer

from kafka_partition_events.clients.kafka_python.links import Link, ProducerLink
from kafka_partition_events.clients.kafka_python.properties import in_librdkafkas_words
from kafka_partition_events.clients.refused_topics import RefusedTopics
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.metadata.source import Observation


class KafkaPythonMetadataSource:
    """Asks a cluster through kafka-python: topic ids, leader epochs, racks. Never creates a topic.

    Made from a producer, it asks over the producer's own connections, on its I/O thread, and the producer
    knows new partitions before this library does. (kafka-python stalls records for a partition that it does
    not know.) Made from settings, it has a client of its own.

    Not thread-safe; the poller's thread uses it. In a forked child it raises `ForkedError`.
    """

    def __init__(self, producer_or_config: KafkaProducer | Mapping[str, Any]) -> None:
        """Make a source; nothing is asked yet.

        Args:
            producer_or_config: A producer, of which only a weak reference is kept, or kafka-python's
                settings. Those that say how to connect are used, others ignored; none is logged.

        Raises:
            ConfigurationError: it is neither, or a file that the settings name does not exist.
        """
        self._refusals = RefusedTopics()
        if isinstance(producer_or_config, KafkaProducer):
            self._link: Link = ProducerLink(producer_or_config)
        elif isinstance(producer_or_config, Mapping):
            self._link = Link(producer_or_config)
        else:
            raise ConfigurationError(
                f"give a KafkaProducer or a mapping of settings, not a {type(producer_or_config).__name__}"
            )

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        """Ask the cluster once.

        Args:
            topics: The topics to ask for; None asks for all. In a producer, the topics that it knows are
                asked for too.
            started_at: The poller's clock now.
            timeout: Seconds after which to give up.

        Raises:
            MetadataFetchError: there was no answer, or the producer could not learn of it, and why.
        """
        link = self._link
        try:
            answer = link.ask(link.wanted(topics), started_at, timeout)
        except MetadataFetchError:
            link.failed()
            raise
        self._refusals.report(answer.errors, in_librdkafkas_words(link.config()))
        return answer

    def close(self) -> None:
        """Close the own connections. A producer is left alone."""
        self._link.close()
