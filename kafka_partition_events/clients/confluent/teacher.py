"""Keeps a producer's own knowledge of its topics ahead of ours."""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from kafka_partition_events.clients.confluent.connection import asking_around
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import TopicInfo

FEW = 8
"""Up to so many topics are asked for one by one."""

_ATTEMPTS = 4
_PAUSE_S = 0.02
"""How long the first pause between two attempts is. Growth reaches the other brokers in 3 to 25 ms."""


class Teacher:
    """Makes a producer's handle ask the cluster itself when one of its topics has grown.

    librdkafka refuses a partition id that the handle has not seen (``_UNKNOWN_PARTITION``), and looks for new
    ones only every five minutes. ``list_topics`` on the handle makes it look; there is no other way.

    Asked for a topic by name, it would create one that is not there, if brokers and producer allow that. So
    it names only what the cluster has just listed and the producer writes: if that was deleted in between,
    the producer's next record would create it anyway. And what records of the producer wait for: it comes
    into being as by a plain producer's. It is needed only at first sight, growth and re-creation; all topics
    are asked for only where many come at once.
    """

    def __init__(
        self, producer: Producer, written: Container[str] | None, awaited: Callable[[], Iterable[str]]
    ) -> None:
        """Make a teacher.

        Args:
            producer: Whose handle is to learn.
            written: The topics that it writes, None if they are not known; of others it need not know.
            awaited: Returns the topics that records of it wait for.
        """
        self._written = written
        self._awaited = awaited
        self._producer = _reference(producer)
        self._pid = os.getpid()
        self._taught: dict[str, tuple[int, str | None]] = {}
        self._calling = threading.Lock()
        self._released = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether the producer can't be taught any more; see `check`."""
        return self._pid != os.getpid() or self._released.is_set() or self._producer() is None

    def check(self) -> None:
        """Raise if the producer can't be taught any more.

        Raises:
            MetadataFetchError: the producer was made before a fork, is closed or gone.
        """
        if self._pid != os.getpid():
            raise MetadataFetchError(
                "this producer was made before a fork and does not work in the child process; make a new one"
            )
        if self._released.is_set() or self._producer() is None:
            raise MetadataFetchError("the producer of this metadata source is closed")

    def teach(self, topics: Mapping[str, TopicInfo], deadline: float) -> None:
        """Return when the handle knows at least as many partitions of each topic.

        Raises:
            MetadataFetchError: the handle could not ask, or the broker it asked lags behind.
        """
        self.check()  # in a forked child the lock may be taken for ever
        self._have_created([name for name in self._awaited() if name not in topics], deadline)
        written = topics if self._written is None else self._written
        for name in [name for name in self._taught if name not in written]:
            del self._taught[name]
        new = {name: info for name, info in topics.items() if self._is_news(info) and name in written}
        pause = _PAUSE_S
        for attempt in range(_ATTEMPTS):
            if not new:
                return
            if attempt and self._released.wait(min(pause, max(0.0, deadline - time.monotonic()))):
                break
            pause *= 2
            known = self._ask(new, deadline)
            for name in [name for name, info in new.items() if known[name] >= len(info.partitions)]:
                self._taught[name] = (known[name], new.pop(name).topic_id)
        self.check()
        if new:
            raise MetadataFetchError(
                "the producer's own metadata lags behind: "
                + ", ".join(f"{name} has {len(info.partitions)} partitions" for name, info in new.items())
            )

    def _have_created(self, topics: list[str], deadline: float) -> None:
        for topic in topics:
            with contextlib.suppress(MetadataFetchError):  # then the next fetch tries again
                self._list(topic, deadline)

    def release(self) -> None:
        """Never touch the handle again; waits until a call on it that is under way has returned."""
        self._released.set()
        with self._calling:
            self._producer = lambda: None

    def _is_news(self, info: TopicInfo) -> bool:
        count, topic_id = self._taught.get(info.name, (0, None))
        recreated = None not in {topic_id, info.topic_id} and topic_id != info.topic_id
        return recreated or count < len(info.partitions)

    def _ask(self, topics: Mapping[str, TopicInfo], deadline: float) -> dict[str, int]:
        """Make the handle ask for the topics; return how many partitions it knows of each."""
        queries: list[str | None] = list(topics) if len(topics) <= FEW else [None]
        known = dict.fromkeys(topics, 0)
        for query in queries:
            for name, metadata in self._list(query, deadline).items():
                if name in known and metadata.error is None:
                    known[name] = len(metadata.partitions)
        return known

    def _list(self, topic: str | None, deadline: float) -> Mapping[str, Any]:
        with self._calling:  # so that `release` can wait for us: the handle must not be closed meanwhile
            self.check()
            producer = self._producer()
            if producer is None:
                return {}
            try:
                answer = asking_around(
                    lambda seconds: Producer.list_topics(producer, topic, timeout=seconds), deadline
                )
            except (KafkaException, RuntimeError) as error:  # RuntimeError: the handle was closed
                raise MetadataFetchError(f"the producer's handle could not be taught: {error}") from error
        topics: Mapping[str, Any] = answer.topics
        return topics


def _reference(producer: Producer) -> Callable[[], Producer | None]:
    try:
        return weakref.ref(producer)
    except TypeError:  # only subclasses of confluent_kafka.Producer can be referenced weakly
        return lambda: producer
