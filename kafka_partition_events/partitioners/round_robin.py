"""KIP-369: every record, keyed or not, goes to the next partition."""

import threading
from bisect import bisect_left
from collections.abc import Iterator
from itertools import count
from typing import Unpack

from attrs import frozen

from kafka_partition_events.partitioners.base import Partitioner, PartitionerOptions
from kafka_partition_events.routing.table import Route


@frozen(eq=False)
class _Round:
    """Steps over one route's usable partitions. ``next`` on a C counter is atomic: no step is taken twice."""

    route: Route
    steps: Iterator[int]

    def next(self) -> int:
        usable = self.route.usable
        return usable[next(self.steps) % len(usable)]


class RoundRobinPartitioner(Partitioner):
    """Visits a topic's usable partitions in turn, whatever the key (KIP-369).

    Correct under kafka-python's double call (KAFKA-9965) and under threads, and when partitions come and go:
    any two that stay usable are never more than one record apart.
    """

    ignores_keys = True

    def __init__(self, **options: Unpack[PartitionerOptions]) -> None:
        """Make a partitioner with the options of `Partitioner`; a budget also caps keyed records.

        Each topic begins with a partition that is drawn: else many short-lived producers would all begin at
        partition 0 (KAFKA-4402).
        """
        super().__init__(**options)
        self._rounds: dict[str, _Round] = self.routing.by_topic()
        self._renewing = threading.RLock()  # a signal handler may produce in there

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        """Return the next partition."""
        current = self._rounds.get(topic)
        if current is None or current.route is not route:
            current = self._renew(topic, route)
        return current.next()

    def _renew(self, topic: str, route: Route) -> _Round:
        """Go on over the new route's partitions from the one that would have been next.

        Another thread may still take a step of the old round meanwhile. It takes the partition after that
        one, which the new round visits again: one record too many, once for each thread and change.
        """
        with self._renewing:
            before = self._rounds.get(topic)
            if before is not None and before.route is route:
                return before
            if before is not None:
                at = bisect_left(route.usable, before.next())
            else:  # among the usable ones, or the one after a gap would come first too often
                at = self._rng.randrange(len(route.usable))
            renewed = self._rounds[topic] = _Round(route, count(at))
            return renewed
