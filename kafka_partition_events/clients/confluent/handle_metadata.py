"""Keeps a producer's own knowledge of its topics ahead of ours, and waits for it where a record must."""

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_partition_events.clients.confluent.choosing import Chooser
from kafka_partition_events.clients.confluent.connection import asking_around
from kafka_partition_events.metadata.cluster import TopicInfo
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.process import forget_in_children, leak

CLOSED = "Producer has been closed"
"""What a plain producer raises then, word for word."""

METADATA_WAIT_S = 10.0
"""How many seconds ``produce`` waits for the metadata of a topic whose keys librdkafka must not place.

kafka-python's ``send`` and Java's wait as well, 60 seconds by default (``max.block.ms``)."""

FEW = 8
"""Up to so many topics are asked for one by one."""

_ATTEMPTS = 4
_PAUSE_S = 0.02  # the first between two attempts; growth reaches the other brokers in 3 to 25 ms
_LEARN_S = 2.0  # that a handle may take to learn of a partition, before the partitioner does
_SEARCH_S = 0.05  # between two attempts to find a topic


class HandleMetadata:
    """Makes a producer's handle ask the cluster itself when a topic is new to it, has grown or is re-created.

    librdkafka refuses a partition id that the handle has not seen (``_UNKNOWN_PARTITION``), and asks for new
    ones only every five minutes. ``list_topics`` on the handle makes it ask; there is no other way. Asked for
    a topic by name, it may create it. So `learn` names only what the cluster has just listed and the
    producer writes; if that was deleted in between, its next record would create it anyway.

    It does not keep the producer alive.
    """

    def __init__(self, producer: Producer, chooser: Chooser, poller: MetadataPoller) -> None:
        self._chooser, self._poller = chooser, poller
        self._producer: Callable[[], Producer | None] = weakref.ref(producer)
        self._known: dict[str, tuple[int, str | None]] = {}
        self._calling = threading.RLock()  # a signal handler may close the producer in here
        self._released = threading.Event()
        forget_in_children(self, HandleMetadata._forget)

    def _forget(self) -> None:
        """Leave the producer alone in a forked child, also when the interpreter ends there."""
        if (producer := self._producer()) is not None:
            leak(producer)

    @property
    def ended(self) -> bool:
        """Whether the handle is not touched any more."""
        return self._released.is_set()

    def learn(self, topics: Mapping[str, TopicInfo], limit_s: float = _LEARN_S) -> bool:
        """Have the handle know at least as many partitions of each topic that is written; return whether.

        Of what a poll has found, before the partitioner follows it: what the handle does not know, as the
        broker that it asked lags behind, falls back, and the next poll tries again.
        """
        written, deadline = self._chooser, time.monotonic() + limit_s
        for name in tuple(self._known):  # a thread that produces may add to it meanwhile
            if name not in written:
                self._known.pop(name, None)
        new = {name: info for name, info in topics.items() if self._is_news(info) and name in written}
        for attempt in range(_ATTEMPTS):
            pause = min(_PAUSE_S * 2**attempt / 2, max(0.0, deadline - time.monotonic()))
            if not new or (attempt and self._released.wait(pause)):
                break
            for query in list(new) if len(new) <= FEW else [None]:
                for name, metadata in self.ask_for(query, deadline).items():
                    count = 0 if metadata.error is not None else len(metadata.partitions)
                    if name in new and count >= len(new[name].partitions):
                        self._known[name] = count, new.pop(name).topic_id
        return not new

    def lags(self, topic: str) -> bool:
        """Return whether the poller has found more partitions of a topic than the handle is known to have."""
        cluster = self._poller.cluster
        info = None if cluster is None else cluster.by_topic.get(topic)
        return info is not None and self._is_news(info)

    def lacks(self, topic: str, partition: int) -> bool:
        """Return whether the handle is not known to have a partition."""
        return partition >= self._known.get(topic, (0, None))[0]

    def wait_for_topic(self, topic: str, timeout: float) -> None:
        """Return when partitioner and handle know the topic; one that is missing is created where it may be.

        Raises:
            KafkaException: ``_UNKNOWN_TOPIC``: they do not, after so many seconds.
            RuntimeError: the producer is closed (or its poller, a `PollerClosedError`): they never will.
        """
        deadline = time.monotonic() + timeout
        while not self._finds(topic, deadline):
            left = deadline - time.monotonic()
            if left <= 0:
                why = self._poller.health.last_error
                text = f"nothing is known of topic {topic}" + (f": {why}" if why else "")
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC, text))  # noqa: SLF001 - so named
            self._poller.refresh(wait=left)
            time.sleep(min(_SEARCH_S, max(0.0, deadline - time.monotonic())))

    def _finds(self, topic: str, deadline: float) -> bool:
        """Return whether partitioner and handle know a topic by now; the handle asks where they do not."""
        if self.ended:
            raise RuntimeError(CLOSED)
        cluster = self._poller.cluster
        if cluster is not None and topic in cluster.by_topic and self._chooser.knows(topic):
            return self.learn({topic: cluster.by_topic[topic]}, deadline - time.monotonic())
        self.ask_for(topic, deadline)
        return False

    def release(self) -> None:
        """Never touch the handle again; waits until a call on it that is under way has returned."""
        self._released.set()
        with self._calling:
            self._producer = lambda: None

    def _is_news(self, info: TopicInfo) -> bool:
        count, topic_id = self._known.get(info.name, (0, None))
        recreated = None not in {topic_id, info.topic_id} and topic_id != info.topic_id
        return recreated or count < len(info.partitions)

    def ask_for(self, topic: str | None, deadline: float) -> Mapping[str, Any]:
        """Ask for a topic, which creates it where a plain producer's record would, or for all; return them.

        None are returned where the handle could not ask.
        """
        with self._calling:  # so that `release` can wait for us: the handle must not be closed meanwhile
            if (producer := self._producer()) is None:
                return {}
            try:
                answer = asking_around(partial(Producer.list_topics, producer, topic), deadline)
            except (KafkaException, RuntimeError):  # RuntimeError: the handle was closed
                return {}
        topics: Mapping[str, Any] = answer.topics
        return topics
