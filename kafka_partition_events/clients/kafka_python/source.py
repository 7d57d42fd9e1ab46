"""Metadata through kafka-python."""

import os
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafka import KafkaProducer, errors
from kafka.net.compat import KafkaNetClient

from kafka_partition_events.clients.certificates import why_of_no_use
from kafka_partition_events.clients.kafka_python.exchange import ask
from kafka_partition_events.clients.kafka_python.properties import in_librdkafkas_words
from kafka_partition_events.clients.librdkafka import up_to_date
from kafka_partition_events.clients.refused_topics import RefusedTopics
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.cluster import Node, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.source import Observation, Proof

_log = get_logger(__name__)

_ANSWER_BYTES = 100_000_000
"""How long an answer may be, as with librdkafka. kafka-python's default is 1 MB: some 20,000 partitions."""

_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
"""Settings that name a file. kafka-python opens it when it connects, and does not tell which it misses."""

_ZERO_ID = uuid.UUID(int=0)

_KAFKA_NAMES = {"INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION"}
"""Where kafka-python's name of an error differs from the one in Kafka's protocol."""

_EPOCHS_SINCE = 9
"""Version of the Metadata request from which leader epochs are reliable (KAFKA-9212)."""

_IDS_SINCE = 10
"""Version of the Metadata request from which topics have an id (KIP-516)."""


class KafkaPythonMetadataSource:
    """Asks a cluster through kafka-python: topic ids, leader epochs, racks. Never creates a topic.

    Made from a producer, it asks over the producer's own connections, on its I/O thread, and the producer
    knows new partitions before this library does. (kafka-python stalls records for a partition that it does
    not know.) Made from settings, it has a client of its own.

    Not thread-safe; the poller's thread uses it. In a forked child, a source made from settings connects
    anew; one made from a producer raises, because the producer does not work there either.
    """

    def __init__(
        self,
        producer_or_config: KafkaProducer | Mapping[str, Any],
        *,
        on_closed: Callable[[], None] | None = None,
    ) -> None:
        """Make a source; nothing is asked yet.

        Args:
            producer_or_config: A producer, of which only a weak reference is kept, or kafka-python's
                settings. Those that say how to connect are used, others ignored; none is logged.
            on_closed: Called by a `fetch` that finds the producer closed, before it raises.

        Raises:
            ConfigurationError: it is neither, or a file that the settings name does not exist.
        """
        self._complaints: dict[int | str, str] = {}
        self._refusals = RefusedTopics()
        self._link: _ProducerLink | _OwnLink
        if isinstance(producer_or_config, KafkaProducer):
            self._link = _ProducerLink(producer_or_config, on_closed)
        elif isinstance(producer_or_config, Mapping):
            self._link = _OwnLink(producer_or_config)
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
            MetadataFetchError: there was no answer, or the producer could not be taught; the message tells.
        """
        link = self._link
        wanted = link.wanted(topics)

        def take(response: Any, node_id: int | str) -> Observation:
            requested = None if topics is None else wanted
            observation = _observation(response, node_id, requested, started_at)
            link.learn(response)  # which may change it
            return observation

        try:
            answer = ask(
                link.manager(),
                wanted,
                timeout,
                exclusive=link.exclusive,
                complaints=self._complaints,
                take=take,
            )
        except MetadataFetchError as error:
            link.failed()
            trouble = why_of_no_use(in_librdkafkas_words(link.config()), time.time())
            if trouble is None:
                raise
            raise MetadataFetchError(f"{error}; {trouble}") from error
        self._refusals.tell(answer.errors, in_librdkafkas_words(link.config()))
        return answer

    def close(self) -> None:
        """Close the own connections. A producer is left alone."""
        self._link.close()


class _ProducerLink:
    """A producer's own connections and metadata.

    Relies on ``KafkaProducer._metadata`` (its ``ClusterMetadata``), ``ClusterMetadata._manager`` and
    ``KafkaProducer._closed``, which are private, and on public methods of theirs.
    """

    exclusive = False

    def __init__(self, producer: KafkaProducer, on_closed: Callable[[], None] | None) -> None:
        self._producer = weakref.ref(producer)
        self._on_closed = on_closed
        self._pid = os.getpid()

    def manager(self) -> Any:
        """Return the connection manager, or raise `MetadataFetchError`."""
        if self._pid != os.getpid():
            raise MetadataFetchError(
                "this producer was made before a fork and does not work in the child process; make a new one"
            )
        producer = self._producer()
        if producer is None or producer._closed:  # noqa: SLF001
            if self._on_closed is not None:
                self._on_closed()
            raise MetadataFetchError("the producer of this metadata source is closed")
        return producer._metadata._manager  # noqa: SLF001

    def wanted(self, topics: frozenset[str] | None) -> frozenset[str] | None:
        """Add what the producer knows: its metadata is replaced as a whole by what it is taught."""
        cluster = self._cluster()
        if topics is None or cluster is None:
            return topics
        known: set[str] = cluster.topics(exclude_internal_topics=False)
        return topics | known

    def learn(self, response: Any) -> None:
        """Give the producer the very response that we read, if it lacks partitions of a topic it knows.

        Asking it to refresh its metadata would be simpler, but its own request creates topics that are gone.
        For the same reason topics with an error are left out: kafka-python would at once ask for them again.
        They come back when the producer needs them.
        """
        cluster = self._cluster()
        if cluster is None:
            raise MetadataFetchError("the producer of this metadata source is closed")
        counts = {t.name: len(t.partitions) for t in response.topics if not t.error_code}
        if not _lacking(cluster, counts):
            return
        known = cluster.topics(exclude_internal_topics=False)
        response.topics = [t for t in response.topics if not t.error_code and t.name in known]
        try:
            cluster.update_metadata(response)
        except Exception as error:  # noqa: BLE001 - a listener of the user's; the update itself is done by then
            _log.warning("kafka_python_metadata_listener_failed", error=repr(error))
        if lacking := _lacking(cluster, counts):
            raise MetadataFetchError(f"the producer did not learn of new partitions of {', '.join(lacking)}")

    def config(self) -> Mapping[str, Any]:
        """Return how the client connects, as far as it is still there."""
        producer = self._producer()
        return {} if producer is None else producer.config

    def failed(self) -> None:
        """Do nothing: the producer has the credentials that it was made with."""

    def close(self) -> None:
        """Leave the producer alone."""

    def _cluster(self) -> Any:
        producer = self._producer()
        return None if producer is None else producer._metadata  # noqa: SLF001


class _OwnLink:
    """A client of our own, with its I/O thread. Relies on ``KafkaNetClient._net`` and ``._manager``."""

    exclusive = True

    def __init__(self, config: Mapping[str, Any]) -> None:
        for name in _FILES:
            if config.get(name) is not None and not Path(config[name]).is_file():
                raise ConfigurationError(f"{name}: there is no file {config[name]}")
        self._config = {"receive_message_max_bytes": _ANSWER_BYTES, **config}
        self._settings = self._config
        self._client: Any = None
        self._pid = 0

    def manager(self) -> Any:
        """Return the connection manager."""
        if self._client is None or self._pid != os.getpid():
            # In a forked child the parent's client is only let go: it has no thread here to be stopped.
            self._settings = up_to_date(self._config)
            self._client = KafkaNetClient(**self._settings)
            self._client._net.start()  # noqa: SLF001
            self._pid = os.getpid()
        return self._client._manager  # noqa: SLF001

    def wanted(self, topics: frozenset[str] | None) -> frozenset[str] | None:
        """Return what to ask for, given what the poller wants to know."""
        return topics

    def learn(self, response: Any) -> None:
        """Remember the brokers, so that the bootstrap addresses may go away."""
        response.topics = []
        self._client._manager.cluster.update_metadata(response)  # noqa: SLF001

    def config(self) -> Mapping[str, Any]:
        """Return how the client connects."""
        return self._config

    def failed(self) -> None:
        """Connect anew the next time if a password was replaced in its file.

        Files of certificates need no such care: they are read for each connection.
        """
        if up_to_date(self._config) != self._settings:
            self.close()

    def close(self) -> None:
        """Close the client."""
        client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            client.close()


def _lacking(cluster: Any, counts: Mapping[str, int]) -> list[str]:
    """Return the topics that the client knows, but with fewer partitions."""
    known = {name: cluster.partitions_for_topic(name) for name in counts}
    return [name for name, ids in known.items() if ids is not None and len(ids) < counts[name]]


def _observation(
    response: Any, node_id: int | str, requested: frozenset[str] | None, started_at: float
) -> Observation:
    """Translate a ``MetadataResponse`` of any version."""
    version: int = response.API_VERSION
    return Observation(
        started_at=started_at,
        nodes=tuple(Node(b.node_id, b.host, b.port, b.rack or None) for b in response.brokers),
        topics={t.name: _topic(t, version) for t in response.topics if not t.error_code},
        errors={t.name: _error_name(t.error_code) for t in response.topics if t.error_code},
        requested=requested,
        cluster_id=response.cluster_id or None,
        answered_by=node_id if isinstance(node_id, int) else None,
        proof=Proof(topic_ids=version >= _IDS_SINCE, leader_epochs=version >= _EPOCHS_SINCE, racks=True),
    )


def _error_name(code: int) -> str:
    """Return Kafka's name of an error code."""
    name = str(errors.for_code(code).message or code)
    return _KAFKA_NAMES.get(name, name)


def _topic(topic: Any, version: int) -> TopicInfo:
    partitions = tuple(
        _partition(topic.name, p, version)
        for p in sorted(topic.partitions, key=lambda p: int(p.partition_index))
    )
    topic_id = topic.topic_id if version >= _IDS_SINCE else None
    return TopicInfo(topic.name, partitions, None if topic_id in {None, _ZERO_ID} else str(topic_id))


def _partition(topic: str, partition: Any, version: int) -> PartitionInfo:
    leader, epoch = partition.leader_id, partition.leader_epoch
    return PartitionInfo(
        topic,
        partition.partition_index,
        None if leader < 0 else leader,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        epoch if version >= _EPOCHS_SINCE and epoch is not None and epoch >= 0 else None,
    )
