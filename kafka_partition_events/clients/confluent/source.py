"""Metadata through confluent-kafka."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from kafka_partition_events.clients.confluent.answers import (
    described_topic,
    error_name,
    listed_topic,
    nodes_of,
)
from kafka_partition_events.clients.confluent.connection import Connection, asking_around, time_left
from kafka_partition_events.clients.confluent.handle_metadata import FEW
from kafka_partition_events.clients.flight.cleanup_policy import TIMEOUT_S, Answer, Ask, CleanupPolicies
from kafka_partition_events.clients.librdkafka import refuse_greenlets
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.cluster import TopicInfo
from kafka_partition_events.metadata.source import Observation

_LEAST_DESCRIBE_S, _MOST_FACTOR, _MOST_SHARE = 1.0, 10.0, 0.25
"""A description may take so many seconds, or so many times what listing brokers took if that is longer, but
no more than this share of the time that is left: what was asked may still have to be listed.

librdkafka asks through the broker that it believes to be the controller; if that one is dead it asks no
other, and tries to connect in a loop that takes a whole core.
"""

_NO_TOPIC = "."
"""Asked for when only the brokers are wanted: a name that Kafka forbids, so there is no such topic."""


class ConfluentMetadataSource:
    """Asks a cluster through an ``AdminClient`` of its own, without ever creating a topic.

    Answers come from ``describe_topics`` and ``describe_cluster``, sent at once (topic ids, racks; no leader
    epochs). Where they fail or take long, and as long as a broker is suspect, ``list_topics`` is asked within
    the same fetch: it has neither ids nor racks, but works with any broker that is up, and with librdkafka's
    mock cluster. Brokers are listed first, which says how long an answer may take.

    Not thread-safe; the poller's thread uses it. In a forked child it raises `ForkedError`.
    """

    def __init__(self, config: Mapping[str, Any], *, suspects: Callable[[], Collection[int]] = tuple) -> None:
        """Make a source; connecting happens in the background.

        Args:
            config: The settings of any librdkafka client. Those that say how to connect are used (addresses,
                TLS, SASL, sockets); none is logged.
            suspects: Returns the brokers that may be dead already.

        Raises:
            ConfigurationError: librdkafka refuses a setting, these are no settings, or threads are greenlets
                (gevent).
        """
        refuse_greenlets()
        if not isinstance(config, Mapping):
            raise ConfigurationError(f"give librdkafka's settings, as a dict, not a {type(config).__name__}")
        self._connection = Connection(config)
        self._suspects = suspects

    def fetch(self, topics: frozenset[str] | None, /, *, timeout: float) -> Observation:
        """See `MetadataSource.fetch`."""
        deadline = time.monotonic() + timeout
        answer = self._ask(topics, deadline)
        self._connection.succeeded()
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    # -- asking --------------------------------------------------------------------------------------

    def _ask(self, topics: frozenset[str] | None, deadline: float) -> Observation:
        """Describe if brokers name a controller among them, which the mock cluster does not; else list."""
        if self._suspects() and _queries(topics) != [None]:
            return self._list(topics, deadline)[0]
        began = time.monotonic()
        listed, controller = self._list(None if topics is None else frozenset(), deadline)
        now = time.monotonic()
        patience = min(
            max(_LEAST_DESCRIBE_S, _MOST_FACTOR * (now - began)), _MOST_SHARE * time_left(deadline)
        )
        if any(node.id == controller for node in listed.nodes):
            names = {*listed.topics, *listed.errors} if topics is None else topics
            with contextlib.suppress(KafkaException, TimeoutError):
                return self._describe(topics, names, now + patience)
        return listed if topics is None else self._list(topics, deadline)[0]

    def _describe(
        self, topics: frozenset[str] | None, names: Collection[str], deadline: float
    ) -> Observation:
        admin = self._connection.admin()
        left = time_left(deadline)
        of_cluster = admin.describe_cluster(request_timeout=left)
        of_topics: Mapping[str, Future[Any]] = (
            admin.describe_topics(TopicCollection(sorted(names)), request_timeout=left) if names else {}
        )
        cluster = of_cluster.result(time_left(deadline))
        found: dict[str, TopicInfo] = {}
        errors: dict[str, str] = {}
        for name, future in of_topics.items():
            try:
                found[name] = described_topic(future.result(time_left(deadline)))
            except KafkaException as error:
                reason = error.args[0]
                if reason.code() < 0:  # librdkafka's own: the request failed, not the topic
                    raise
                errors[name] = error_name(reason)
        return Observation(
            nodes=nodes_of(cluster.nodes),
            topics=found,
            errors=errors,
            requested=topics,
            cluster_id=cluster.cluster_id,
        )

    def _list(self, topics: frozenset[str] | None, deadline: float) -> tuple[Observation, int]:
        listed, brokers, answered = dict[str, Any](), dict[int, Any](), set[int]()
        try:
            for query in _queries(topics):
                admin = self._connection.admin()
                answer = asking_around(partial(admin.list_topics, query), deadline)
                listed.update(answer.topics)
                brokers.update(answer.brokers)
                answered.add(answer.orig_broker_id)
        except KafkaException as error:
            raise self._connection.failure("the cluster does not answer", error) from error
        found: dict[str, TopicInfo] = {}
        errors: dict[str, str] = {}
        for name in listed if topics is None else topics:
            if (metadata := listed.get(name)) is None:
                errors[name] = "UNKNOWN_TOPIC_OR_PARTITION"
            elif metadata.error is not None:
                errors[name] = error_name(metadata.error)
            else:
                found[name] = listed_topic(metadata)
        seen = Observation(
            nodes=nodes_of(brokers.values()),  # one may name a leader that another does not list yet
            topics=found,
            errors=errors,
            requested=topics,
            cluster_id=answer.cluster_id,
            answered_by=answered.pop() if len(answered) == 1 and min(answered) >= 0 else None,
        )
        return seen, answer.controller_id


def _queries(topics: frozenset[str] | None) -> Sequence[str | None]:
    """Return what is listed: topics one by one, or all of the cluster (None) if these are many."""
    return [None] if topics is None or len(topics) > FEW else sorted(topics) or [_NO_TOPIC]


def policies_by(config: Mapping[str, Any]) -> CleanupPolicies:
    """Return what asks for topics' ``cleanup.policy`` with a producer's settings, connected while it asks."""

    @contextlib.contextmanager
    def asking() -> Iterator[Ask]:
        with contextlib.closing(Connection(config)) as connection:

            def ask(topic: str) -> Answer:
                resource = ConfigResource(ResourceType.TOPIC, topic)
                asked = connection.admin().describe_configs([resource], request_timeout=TIMEOUT_S)
                try:
                    return asked[resource].result()["cleanup.policy"].value or "", ""
                except KafkaException as error:
                    if error.args[0].code() < 0:  # librdkafka's own: no broker has answered
                        raise
                    return None, error_name(error.args[0])

            yield ask

    return CleanupPolicies(asking)
