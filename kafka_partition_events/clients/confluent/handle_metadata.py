"""Keeps a producer's own knowledge of its topics ahead of ours."""

import threading
import time
import weakref
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from kafka_partition_events.clients.confluent.connection import asking_around
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import TopicInfo

FEW = 8
"""Up to so many topics are asked for one by one."""

_ATTEMPTS = 4
_PAUSE_S = 0.02  # the first between two attempts; growth reaches the other brokers in 3 to 25 ms


class HandleMetadata:
    """Makes a producer's handle ask the cluster itself when a topic is new to it, has grown or is re-created.

    librdkafka refuses a partition id that the handle has not seen (``_UNKNOWN_PARTITION``), and asks for new
    ones only every five minutes. ``list_topics`` on the handle makes it ask; there is no other way. Asked for
    a topic by name, it may create it. So `ensure_known` names only what the cluster has just listed and the
    producer writes; if that was deleted in between, its next record would create it anyway.
    """

    def __init__(self, producer: Producer, written: Container[str]) -> None:
        """Prepare it; of topics that are not ``written`` the producer need not know."""
        self._written = written
        self._producer: Callable[[], Producer | None] = weakref.ref(producer)
        self._known: dict[str, tuple[int, str | None]] = {}
        self._calling = threading.Lock()
        self._released = threading.Event()

    def ensure_known(self, topics: Mapping[str, TopicInfo], deadline: float) -> None:
        """Return when the handle knows at least as many partitions of each topic.

        Raises:
            MetadataFetchError: the handle could not ask, or the broker it asked lags behind.
        """
        for name in tuple(self._known):  # a thread that produces may add to it meanwhile
            if name not in self._written:
                self._known.pop(name, None)
        new = {name: info for name, info in topics.items() if self._is_news(info) and name in self._written}
        pause = _PAUSE_S
        for attempt in range(_ATTEMPTS):
            if not new:
                return
            if attempt and self._released.wait(min(pause, max(0.0, deadline - time.monotonic()))):
                break
            pause *= 2
            known = self._ask(new, deadline)
            for name in [name for name, info in new.items() if known[name] >= len(info.partitions)]:
                self._known[name] = (known[name], new.pop(name).topic_id)
        if new:
            missing = ", ".join(f"{name} has {len(info.partitions)} partitions" for name, info in new.items())
            raise MetadataFetchError(f"the producer's own metadata lags behind: {missing}")

    def release(self) -> None:
        """Never touch the handle again; waits until a call on it that is under way has returned."""
        self._released.set()
        with self._calling:
            self._producer = lambda: None

    def _is_news(self, info: TopicInfo) -> bool:
        count, topic_id = self._known.get(info.name, (0, None))
        recreated = None not in {topic_id, info.topic_id} and topic_id != info.topic_id
        return recreated or count < len(info.partitions)

    def _ask(self, topics: Mapping[str, TopicInfo], deadline: float) -> dict[str, int]:
        """Make the handle ask for the topics; return how many partitions it knows of each."""
        queries: list[str | None] = list(topics) if len(topics) <= FEW else [None]
        known = dict.fromkeys(topics, 0)
        for query in queries:
            for name, metadata in self.ask_for(query, deadline).items():
                if name in known and metadata.error is None:
                    known[name] = len(metadata.partitions)
        return known

    def ask_for(self, topic: str | None, deadline: float) -> Mapping[str, Any]:
        """Ask for a topic, which creates it where a plain producer's record would, or for all; return them.

        Raises:
            MetadataFetchError: the handle could not ask.
        """
        with self._calling:  # so that `release` can wait for us: the handle must not be closed meanwhile
            if (producer := self._producer()) is None:
                raise MetadataFetchError("the producer is closed")
            try:
                answer = asking_around(partial(Producer.list_topics, producer, topic), deadline)
            except (KafkaException, RuntimeError) as error:  # RuntimeError: the handle was closed
                why = f"the producer's handle could not learn of its topics: {error}"
                raise MetadataFetchError(why) from error
        topics: Mapping[str, Any] = answer.topics
        return topics
