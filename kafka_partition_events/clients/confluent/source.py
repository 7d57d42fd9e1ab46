"""Metadata through confluent-kafka."""

import threading
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
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
from kafka_partition_events.clients.confluent.connection import Borrowed, Connection, asking_around, time_left
from kafka_partition_events.clients.confluent.teacher import FEW, Teacher
from kafka_partition_events.clients.librdkafka import refuse_greenlets
from kafka_partition_events.clients.refused_topics import RefusedTopics
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.metadata.cluster import TopicInfo
from kafka_partition_events.metadata.source import Observation, Proof

_DESCRIBE_SHARE = 0.5
"""What part of a fetch's time the first of two ways of asking may take,"""

_USUAL_FACTOR = 10.0
_LEAST_DESCRIBE_S = 0.25
"""and how many times what it usually takes, but at least so long.

librdkafka describes through the broker that it believes to be the controller: any of them, with KRaft. If
that one is dead, it does not ask another; it looks for a connection in a loop that takes a whole core and,
where cores are few, the brokers' time too (0.5 to 4 s without any acknowledgement, in 7 kills of 41).
"""

_MOST_IN_VAIN = 4
"""How many descriptions in vain in a row count: 0, 1, 3, 7 polls only list after that. A description of 5,000
topics takes librdkafka 7 s of a core, listing them 0.6 s; where the one is never done in time, it must not be
tried at each poll. It is tried at once where other brokers are up: that may have been the reason.
"""

_NO_TOPIC = "."
"""Asked for when only the brokers are wanted: a name that Kafka forbids, so there is no such topic."""

_LATER = 0.0
"""Filled in by `ConfluentMetadataSource.fetch`."""


class ConfluentMetadataSource:
    """Asks a cluster through an ``AdminClient`` of its own, without ever creating a topic.

    Answers come from ``describe_topics`` and ``describe_cluster`` together (topic ids, racks; no leader
    epochs). Both are sent at once; where their views differ for a moment, because a broker comes or goes, a
    partition is online only if both say so, and the next poll settles it. If they fail, ``list_topics`` is
    asked within the same fetch: it tells neither ids nor racks, but works with any broker that is up, and
    with librdkafka's mock cluster, which can't describe. As long as a broker is suspect, listing comes first.
    Where descriptions are in vain time and again, up to seven polls only list before the next one: a topic
    that was created anew is found that much later.

    For use inside a producer, give the producer too: its handle then learns of new partitions before this
    library does, so no partition is ever chosen that the producer does not know.

    Not thread-safe, apart from `release`; the poller's thread uses it. In a forked child, a source without a
    producer connects anew, and one with a producer raises, because the producer does not work there either.
    """

    def __init__(
        self,
        handle_or_config: Mapping[str, Any] | Any,
        *,
        producer: Producer | None = None,
        suspects: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """Make a source; connecting happens in the background.

        Args:
            handle_or_config: The settings of any librdkafka client: those that say how to connect are used
                (addresses, TLS, SASL, sockets), the others ignored, and none is logged. Or a client that
                exists, ``Producer``, ``Consumer`` or ``AdminClient``, to be asked itself. As nobody knows
                whether it may create topics, it is asked for all of them; only an ``AdminClient`` tells
                topic ids and racks. Settings are the better choice.
            producer: Whose handle to teach; the settings must be its own. A `PartitioningProducer` is
                referenced weakly; a plain one can't be, and is kept until `release` or `close`.
            suspects: Returns the brokers that may be dead already.

        Raises:
            ConfigurationError: librdkafka refuses a setting, the arguments do not fit, or threads are
                greenlets (gevent).
        """
        refuse_greenlets()
        self._connection: Connection | Borrowed
        self._teachers: tuple[Teacher, ...] = ()
        self._made_for: Teacher | None = None
        self._lock = threading.RLock()
        if isinstance(handle_or_config, Mapping):
            self._connection = Connection(handle_or_config)
            if producer is not None:
                self._made_for = self.teach(producer)
        elif producer is not None:
            raise ConfigurationError("with a producer to teach, give its settings, not a client")
        else:
            self._connection = Borrowed(handle_or_config)
        self._suspects = suspects
        self._refusals = RefusedTopics()
        self._can_describe = False
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
            MetadataFetchError: there was no answer, or the producer could not be taught; the message tells.
        """
        deadline = time.monotonic() + timeout
        if self._made_for is not None:
            self._made_for.check()
        answer = self._ask(topics, deadline, timeout)
        self._connection.succeeded()
        self._refusals.tell(answer.errors, self._connection.config)
        self._teach_all(answer.topics, deadline)
        return evolve(answer, started_at=started_at)

    def teach(
        self,
        producer: Producer,
        written: Container[str] | None = None,
        awaited: Callable[[], Iterable[str]] | None = None,
    ) -> Teacher:
        """Let a producer's handle learn of new partitions before any answer tells of them. Thread-safe.

        Args:
            producer: As for the constructor; any number of producers may learn.
            written: The topics that the producer writes; None: any.
            awaited: Returns the topics that records of the producer wait for; one that is not there is
                asked for by name, which creates it where brokers and producer allow that.

        Returns:
            What to `release` before the producer is closed.
        """
        teacher = Teacher(producer, written, awaited or tuple)
        with self._lock:
            self._teachers = (*(known for known in self._teachers if not known.is_over), teacher)
        return teacher

    def _teach_all(self, topics: Mapping[str, TopicInfo], deadline: float) -> None:
        for teacher in self._teachers:
            try:
                teacher.teach(topics, deadline)
            except MetadataFetchError:
                if teacher is self._made_for or not teacher.is_over:  # else it was closed meanwhile
                    raise

    def log_in(self, username: str, password: str) -> None:
        """Use other credentials on connections of our own; a client that was lent has its own."""
        if isinstance(self._connection, Connection):
            self._connection.log_in(username, password)

    def release(self) -> None:
        """Let go of the producers, waiting for a call on a handle that is under way. Thread-safe."""
        for teacher in self._teachers:
            teacher.release()

    def close(self) -> None:
        """Close the own connections. The producer is left alone."""
        self.release()
        self._connection.close()

    # -- asking --------------------------------------------------------------------------------------

    def _ask(self, topics: frozenset[str] | None, deadline: float, timeout: float) -> Observation:
        """Describe; else list, and describe then if that may work and was not in vain a moment ago.

        It may when the answer names a controller among its brokers: librdkafka sends descriptions there,
        and without one it waits until the time is up. The mock cluster names none.
        """
        hurried = bool(self._suspects()) and self._asks_by_name(topics)
        if hurried or not self._connection.can_describe:
            return self._list(topics, deadline)[0]
        if self._can_describe:
            try:
                return self._describe(topics, deadline - timeout * _DESCRIBE_SHARE)
            except (KafkaException, TimeoutError):
                return self._list(topics, deadline)[0]
        answer, controller = self._list(topics, deadline)
        self._skipped += 1
        brokers = frozenset(node.id for node in answer.nodes)
        due = self._skipped >= 2**self._in_vain // 2 or brokers != self._listed
        self._listed = brokers
        if not due or controller not in brokers:
            return answer
        try:
            return self._describe(topics, deadline)
        except (KafkaException, TimeoutError):
            return answer

    def _describe(self, topics: frozenset[str] | None, deadline: float) -> Observation:
        """Describe, within a few times what that took the last time; twice as long after it was in vain."""
        began, usual = time.monotonic(), self._describe_s
        if usual is not None:
            deadline = min(deadline, began + max(_LEAST_DESCRIBE_S, _USUAL_FACTOR * usual))
            self._describe_s = 2 * usual
        self._can_describe, self._skipped = False, 0
        self._in_vain = min(self._in_vain + 1, _MOST_IN_VAIN)
        answer = self._described(topics, deadline)
        self._can_describe, self._in_vain = True, 0
        self._describe_s = time.monotonic() - began
        return answer

    def _described(self, topics: frozenset[str] | None, deadline: float) -> Observation:
        admin = self._connection.admin()
        names = topics
        if names is None:
            names = frozenset(admin.list_topics(timeout=time_left(deadline)).topics)
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
            started_at=_LATER,
            nodes=described_nodes(cluster.nodes),
            topics=found,
            errors=errors,
            requested=topics,
            cluster_id=cluster.cluster_id,
            proof=Proof(topic_ids=True, racks=True),
        )

    def _asks_by_name(self, topics: frozenset[str] | None) -> bool:
        """Tell whether topics are listed one by one; else all are, which may be many more than these."""
        return topics is not None and len(topics) <= FEW and self._connection.may_name_topics

    def _list(self, topics: frozenset[str] | None, deadline: float) -> tuple[Observation, int]:
        names: Iterable[str | None] = (None,)
        if topics is not None and self._asks_by_name(topics):
            names = sorted(topics) or (_NO_TOPIC,)
        listed: dict[str, Any] = {}
        try:
            for name in names:
                admin = self._connection.admin()
                answer = asking_around(partial(admin.list_topics, name), deadline)
                listed.update(answer.topics)
        except (KafkaException, RuntimeError) as error:  # RuntimeError: a borrowed client was closed
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
