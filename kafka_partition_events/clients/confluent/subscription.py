"""How a producer's partitioner follows a poller: one that is given, or one that is the producer's own."""

import contextlib
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_partition_events.clients.confluent.choosing import Chooser
from kafka_partition_events.clients.confluent.handle_metadata import HandleMetadata
from kafka_partition_events.clients.confluent.source import ConfluentMetadataSource
from kafka_partition_events.clients.flight.cleanup_policy import CleanupPolicies
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import TopicInfo
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.process import forget_in_children, leak

CLOSED = "Producer has been closed"
"""What a plain producer raises then, word for word."""

_LEARN_S = 2.0  # that a handle may take to learn of a partition, before the partitioner does

METADATA_WAIT_S = 10.0
"""How many seconds ``produce`` waits for the metadata of a topic whose keys librdkafka must not place.

kafka-python's ``send`` and Java's wait as well, 60 seconds by default (``max.block.ms``)."""

_PAUSE_S = 0.05  # between two attempts to find a topic


class ProducerSubscription:
    """The poller that one producer's partitioner follows, until `end`.

    Partitioner and poller may be shared: who still uses them keeps them. Neither the poller nor its source
    keeps the producer alive; when it is dropped, the subscription ends by itself.
    """

    def __init__(
        self,
        producer: Producer,
        partitioner: Partitioner,
        poller: MetadataPoller | None,
        config: Mapping[str, Any],
        options: Mapping[str, Any],
        chooser: Chooser,
        left: Callable[[], None],
        policies: CleanupPolicies | None = None,
    ) -> None:
        self._own = poller is None
        if poller is None:
            own = ConfluentMetadataSource(config, suspects=partitioner.deliveries.suspects)
            poller = MetadataPoller(own, (), **options)
        self.poller = poller
        self._handle_metadata = metadata = HandleMetadata(producer, chooser)

        def polled(found: Mapping[str, TopicInfo]) -> None:
            with contextlib.suppress(MetadataFetchError):  # records fall back, and the next poll tries again
                metadata.ensure_known(found, time.monotonic() + _LEARN_S)
            if policies is not None:
                policies.ask(tuple(chooser.turns))

        try:
            follower = poller.join(partitioner, chooser.written, polled, left, last_closes=self._own)
        except BaseException:
            if self._own:
                poller.close(0.0)
            raise
        self._dropped = weakref.finalize(producer, follower.drop)
        self._follower = follower
        self._partitioner = partitioner
        forget_in_children(self, ProducerSubscription._forget)
        chooser.poller, chooser.ask_for = poller, follower.ask_for
        if self._own:
            poller.start()

    def knows(self, topic: str) -> bool:
        """Return whether the partitioner knows a topic."""
        return self._partitioner.route(topic) is not None

    def wait_for_topic(self, topic: str, timeout: float) -> None:
        """Return when partitioner and handle know the topic; one that is missing is created where it may be.

        Raises:
            KafkaException: ``_UNKNOWN_TOPIC``: they do not, after so many seconds.
            RuntimeError: the producer is closed (or its poller, a `PollerClosedError`): they never will.
        """
        deadline = time.monotonic() + timeout
        while not self._learns(topic, deadline):
            left = deadline - time.monotonic()
            if left <= 0:
                why = self.poller.health.last_error
                text = f"nothing is known of topic {topic}" + (f": {why}" if why else "")
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC, text))  # noqa: SLF001 - so named
            self.poller.refresh(f"a record waits for topic {topic}", wait=left)
            time.sleep(min(_PAUSE_S, max(0.0, deadline - time.monotonic())))

    def _learns(self, topic: str, deadline: float) -> bool:
        """Return whether partitioner and handle know a topic by now; the handle asks where they do not."""
        if self.ended:
            raise RuntimeError(CLOSED)
        cluster = self.poller.cluster
        with contextlib.suppress(MetadataFetchError):  # another attempt follows, as long as there is time
            if cluster is not None and topic in cluster.by_topic and self.knows(topic):
                self._handle_metadata.ensure_known({topic: cluster.by_topic[topic]}, deadline)
                return True
            self._handle_metadata.ask_for(topic, deadline)
        return False

    def _forget(self) -> None:
        """Leave the producer alone in a forked child, also when the interpreter ends there."""
        if (alive := self._dropped.peek()) is not None:
            leak(alive[0])

    def log_in(self, username: str, password: str) -> None:
        """Use other credentials to ask for metadata, over connections that were made for this producer."""
        if self._own and isinstance(self.poller.source, ConfluentMetadataSource):
            self.poller.source.log_in(username, password)

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return not self._dropped.alive

    def end(self) -> None:
        """Follow no more; idempotent."""
        if self._dropped.detach() is None:
            return
        self._follower.leave()
        self._handle_metadata.release()  # a fetch that outlives the limit must not touch a closed handle
