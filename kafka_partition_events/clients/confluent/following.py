"""How a producer's partitioner follows a poller: one that is given, or one that is the producer's own."""

import contextlib
import time
import weakref
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Producer

from kafka_partition_events.clients.confluent.choosing import Chooser
from kafka_partition_events.clients.confluent.source import ConfluentMetadataSource
from kafka_partition_events.clients.confluent.teacher import Teacher
from kafka_partition_events.clients.confluent.unassigned import Unassigned
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner

_LESSON_S = 2.0
"""How many seconds a handle may take to learn what its poller knows already."""


class Following:
    """The poller that one producer's partitioner follows, until `end`.

    Partitioner and poller may be shared: who still uses them keeps them, whoever made the poller and whoever
    ends first. Neither the poller nor its source keeps the producer alive; when it is dropped, following
    ends by itself.
    """

    def __init__(
        self,
        producer: Producer,
        partitioner: Partitioner,
        poller: MetadataPoller | None,
        config: Mapping[str, Any],
        options: Mapping[str, Any],
        chooser: Chooser,
        unassigned: Unassigned | None,
    ) -> None:
        self._own = poller is None
        # Waiting records hold callbacks of the application's, and these may hold the producer.
        waiting = (lambda: None) if unassigned is None else weakref.ref(unassigned)

        def awaited() -> Collection[str]:
            return () if (found := waiting()) is None else found.topics()

        if poller is None:
            source = ConfluentMetadataSource(config, suspects=partitioner.deliveries.suspects)
            poller = MetadataPoller(source, (), **options)
        self.poller = poller
        # A partition that the poller tells of must be known to the producer's handle, too: before, where the
        # source can teach it; else a moment later.
        written = chooser.turns.keys()
        late: Teacher | None = None
        if isinstance(poller.source, ConfluentMetadataSource):
            self._lesson = poller.source.teach(producer, written, awaited)
        else:
            self._lesson = late = Teacher(producer, written, awaited)
        looked = partial(_looked, poller, late, waiting)
        try:
            follower = poller.join(
                partitioner, lambda: {*chooser.written(), *awaited()}, looked, last_closes=self._own
            )
            if unassigned is not None:
                unassigned.hopeless = follower.is_over
        except BaseException:
            if self._own:
                poller.close(0.0)
            raise
        # Whoever drops the producer must not wait.
        self._dropped = weakref.finalize(producer, follower.leave, 0.0)
        self._follower = follower
        chooser.poller, chooser.look_for = poller, follower.look_for
        if self._own:
            poller.start()

    def log_in(self, username: str, password: str) -> None:
        """Use other credentials to ask for metadata, over connections that were made for this producer."""
        if self._own and isinstance(self.poller.source, ConfluentMetadataSource):
            self.poller.source.log_in(username, password)

    @property
    def ended(self) -> bool:
        """Whether following is over."""
        return not self._dropped.alive

    def end(self) -> None:
        """Follow no more; idempotent."""
        if self._dropped.detach() is None:
            return
        self._follower.leave()
        self._lesson.release()  # a fetch that outlives the limit must not touch a handle that is closed


def _looked(poller: MetadataPoller, late: Teacher | None, waiting: Callable[[], Unassigned | None]) -> None:
    """Teach a handle that the source has not taught, then place what has waited for its topic or for that."""
    if late is not None and (cluster := poller.cluster) is not None:
        with contextlib.suppress(MetadataFetchError):  # the next look tries again
            late.teach(cluster.by_topic, time.monotonic() + _LESSON_S)
    if (found := waiting()) is not None:
        found.place()
