"""Metadata through confluent-kafka."""

import threading
import time
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from attrs import evolve
from confluent_kafka import KafkaException, Producer, TopicCollection

from kafka_partition_events.clients.confluent.answers import (
    described_nodes,
    described_topic,
    error_name,
    listed_nodes,
    listed_topic,
)
from kafka_partition_events.clients.confluent.connection import Connection, asking_around, time_left
from kafka_partition_events.clients.confluent.handle_metadata import FEW, HandleMetadata
from kafka_partition_events.clients.librdkafka import refuse_greenlets
from kafka_partition_events.clients.refused_topics import RefusedTopics
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.metadata.cluster import TopicInfo
from kafka_partition_events.metadata.source import Observation

_DESCRIBE_SHARE = 0.25
_USUAL_FACTOR = 10.0
_LEAST_DESCRIBE_S = 0.25
"""A description may take this part of a fetch's time, and this many times what it usually takes, but at least
so many seconds; the first one may take all. librdkafka asks through the broker that it believes to be the
controller; if that one is dead it asks no other, and tries to connect in a loop that takes a whole core.
"""

_MOST_IN_VAIN = 4
"""How many descriptions in vain in a row count: 0, 1, 3, 7 polls only list after that, which takes librdkafka
a twelfth of the time. Where other brokers are up one is tried at once: that may have been the reason.
"""

_NO_TOPIC = "."
"""Asked for when only the brokers are wanted: a name that Kafka forbids, so there is no such topic."""

_LATER = 0.0
"""Filled in by `ConfluentMetadataSource.fetch`."""


class ConfluentMetadataSource:
    """Asks a cluster through an ``AdminClient`` of its own, without ever creating a topic.

    Answers come from ``describe_topics`` and ``describe_cluster``, sent at once (topic ids, racks; no leader
    epochs); a partition is online only if both say so. If they fail, ``list_topics`` is asked within the same
    fetch: it has neither ids nor racks, but works with any broker that is up, and with librdkafka's mock
    cluster. As long as a broker is suspect, listing comes first. Where descriptions are in vain time and
    again, up to seven polls only list: a topic that was created again is found that much later.

    Handles of producers that `keep_ahead` has named learn of new partitions before this library does, so no
    partition is ever chosen that the producer does not know.

    Not thread-safe, apart from `keep_ahead`; the poller's thread uses it. In a forked child it
    raises `ForkedError`.
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
        self._handles: tuple[HandleMetadata, ...] = ()
        self._lock = threading.Lock()
        self._suspects = suspects
        self._refusals = RefusedTopics()
        self._describe_s: float | None = None
        self._in_vain = 0  # descriptions in a row
        self._skipped = 0  # polls since the last one
        self._listed: frozenset[int] = frozenset()  # brokers, at the last one

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        """Ask the cluster once.

        Args:
            topics: The topics to ask for; None asks for all.
            started_at: The poller's clock now.
            timeout: Seconds after which to give up.

        Raises:
            MetadataFetchError: there was no answer, or the producer could not learn of it, and why.
        """
        deadline = time.monotonic() + timeout
        answer = self._ask(topics, deadline, timeout)
        self._connection.succeeded()
        self._refusals.report(answer.errors, self._connection.config)
        self._ensure_all_know(answer.topics, deadline)
        return evolve(answer, started_at=started_at)

    def keep_ahead(self, producer: Producer, written: Container[str] | None = None) -> HandleMetadata:
        """Let a producer's handle learn of new partitions before any answer has them. Thread-safe.

        Args:
            producer: Whose settings the source was made of. A `PartitioningProducer` is referenced weakly; a
                plain one can't be, and is kept until it is released or the source is closed.
            written: The topics that the producer writes; None: any.

        Returns:
            What to `release` before the producer is closed.
        """
        handle = HandleMetadata(producer, written)
        with self._lock:
            self._handles = (*(known for known in self._handles if not known.is_over), handle)
        return handle

    def _ensure_all_know(self, topics: Mapping[str, TopicInfo], deadline: float) -> None:
        for handle in self._handles:
            try:
                handle.ensure_known(topics, deadline)
            except MetadataFetchError:
                if not handle.is_over:  # else it was closed meanwhile
                    raise

    def log_in(self, username: str, password: str) -> None:
        """Use other credentials from the next connection on."""
        self._connection.log_in(username, password)

    def close(self) -> None:
        """Close the own connections, and let go of the producers; waits for a call on a handle of theirs."""
        for handle in self._handles:
            handle.release()
        self._connection.close()

    # -- asking --------------------------------------------------------------------------------------

    def _ask(self, topics: frozenset[str] | None, deadline: float, timeout: float) -> Observation:
        """Describe; else list, and describe then if that may work and was not in vain a moment ago.

        It may when the answer names a controller among its brokers: librdkafka sends descriptions there. The
        mock cluster names none.
        """
        if self._suspects() and _queries(topics) != [None]:
            return self._list(topics, deadline)[0]
        listed, until = None, deadline
        if self._describe_s is not None:
            until -= timeout * (1 - _DESCRIBE_SHARE)
        if self._describe_s is None or self._in_vain:
            listed, controller = self._list(topics, deadline)
            self._skipped += 1
            brokers = frozenset(node.id for node in listed.nodes)
            due = self._skipped >= 2**self._in_vain // 2 or brokers != self._listed
            self._listed = brokers
            if not due or controller not in brokers:
                return listed
        try:
            return self._describe(topics, until)
        except (KafkaException, TimeoutError):
            return listed or self._list(topics, deadline)[0]

    def _describe(self, topics: frozenset[str] | None, deadline: float) -> Observation:
        """Describe, within a few times what that took the last time; twice as long after it was in vain."""
        began, usual = time.monotonic(), self._describe_s
        if usual is not None:
            deadline = min(deadline, began + max(_LEAST_DESCRIBE_S, _USUAL_FACTOR * usual))
            self._describe_s = 2 * usual
        self._skipped = 0
        self._in_vain = min(self._in_vain + 1, _MOST_IN_VAIN)
        admin = self._connection.admin()
        names = admin.list_topics(timeout=time_left(deadline)).topics if topics is None else topics
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
        self._describe_s, self._in_vain = time.monotonic() - began, 0
        return Observation(
            started_at=_LATER,
            nodes=described_nodes(cluster.nodes),
            topics=found,
            errors=errors,
            requested=topics,
            cluster_id=cluster.cluster_id,
        )

    def _list(self, topics: frozenset[str] | None, deadline: float) -> tuple[Observation, int]:
        listed: dict[str, Any] = {}
        try:
            for query in _queries(topics):
                admin = self._connection.admin()
                answer = asking_around(partial(admin.list_topics, query), deadline)
                listed.update(answer.topics)
        except KafkaException as error:
            raise self._connection.failure("the cluster does not answer", error) from error
        found: dict[str, TopicInfo] = {}
        errors: dict[str, str] = {}
        for name in listed if topics is None else topics:
            metadata = listed.get(name)
            if metadata is None:
                errors[name] = "UNKNOWN_TOPIC_OR_PARTITION"
            elif metadata.error is not None:
                errors[name] = error_name(metadata.error)
            else:
                found[name] = listed_topic(metadata)
        seen = Observation(
            started_at=_LATER,
            nodes=listed_nodes(answer.brokers),
            topics=found,
            errors=errors,
            requested=topics,
            cluster_id=answer.cluster_id,
            answered_by=answer.orig_broker_id if answer.orig_broker_id >= 0 else None,
        )
        return seen, answer.controller_id


def _queries(topics: frozenset[str] | None) -> Sequence[str | None]:
    """Return what is listed: topics one by one, or all of the cluster (None) if these are many."""
    return [None] if topics is None or len(topics) > FEW else sorted(topics) or [_NO_TOPIC]
