"""How long unkeyed records stay on one partition, and what came of it.

librdkafka does not say when it begins a new batch, so a *turn* on one partition ends by time: after
``linger.ms``, which is what fills a batch, but after 25 ms at the least; or after
``sticky.partitioning.linger.ms`` where the user has set that (librdkafka's name for the same thing).

Why 25 ms: with 4,000 records/s on 16 partitions at linger 0, turns of 100 records (25 ms) had a p99 latency
of 501 ms, librdkafka's own turns of 10 ms one of 12,564 ms: a batch held hardly more than one record.
A count of bytes is not kept: a turn of 25 ms holds what the producer sends in 25 ms, however it is cut.

Reading the clock for each record would cost 4% of the throughput. A turn reads it once per *chunk* and sizes
the next chunk so that it lasts about a quarter of a turn: one record for slow producers (so each record gets
its own partition, as each has its own batch), 256 for fast ones.
"""

import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from operator import length_hint
from typing import Any

from attrs import frozen

from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.routing.table import Route

LEAST_TURN_S = 0.025
CHUNK_SHARE = 0.25
LONGEST_CHUNK = 256

_DEFAULT_LINGER_MS = 5.0
_LINGER_NAMES = ("linger.ms", "queue.buffering.max.ms")


@frozen(kw_only=True)
class ProducerStats:
    """What became of records whose partition was not given. Counts since the producer was made.

    Attributes:
        rerouted: Unkeyed records that were placed while an admitted partition was offline.
        capped: Unkeyed records that were placed while the budget left partitions out.
        fallbacks: Records whose chosen partition the producer did not know, so that librdkafka chose again.
    """

    rerouted: int = 0
    capped: int = 0
    fallbacks: int = 0


def turn_seconds(config: Mapping[str, Any]) -> float:
    """Return how long a turn lasts with a producer's settings."""
    own = config.get("sticky.partitioning.linger.ms")
    if own is not None:
        return float(own) / 1000
    linger = next((config[name] for name in _LINGER_NAMES if name in config), _DEFAULT_LINGER_MS)
    return max(LEAST_TURN_S, float(linger) / 1000)


class Turn:
    """One topic's turn. Any thread may use it.

    Producers take each record's partition from `chunk`, which is atomic without a lock. When it has no more,
    they `look`. A record that is taken while another thread looks may be missing from the counts.
    """

    __slots__ = (
        "__weakref__", "_capped", "_ends_at", "_lock", "_looked_at", "_rerouted", "_rest", "_route", "_size",
        "chunk", "partition", "seen",
    )  # fmt: skip

    def __init__(self, partitioner: Partitioner) -> None:
        """Make a turn that hears of the partitioner's new routes."""
        self.chunk: Iterable[int] = ()
        """The partitions of the next records; empty if the partitioner is asked for each."""
        self.partition = UNASSIGNED
        """Where the chunk goes, or the last record went if the partitioner is asked for each."""
        self.seen: Mapping[str, Route] | None = None
        """The partitioner's routes when we looked."""
        self._lock = threading.Lock()
        self._route: Route | None = None
        self._size = 0
        self._rest: Iterator[int] = iter(())
        self._looked_at = 0.0
        self._ends_at = 0.0
        self._rerouted = 0
        self._capped = 0
        partitioner._keepers.add(weakref.ref(self))  # noqa: SLF001 - our own base class

    def look(
        self, topic: str, partitioner: Partitioner, seconds: float, *, stay: bool, count: int = 1
    ) -> int:
        """Begin the next chunk, on another partition if the turn is over or the route has changed.

        Args:
            topic: The turn's topic.
            partitioner: Who chooses.
            seconds: How long a turn lasts.
            stay: Whether the chunk goes to one partition; else the partitioner is asked for each record.
            count: How many records are taken from the chunk right away; if need be, it is as long.

        Returns:
            Their partition.
        """
        with self._lock:
            now = time.monotonic()
            used, took = max(1, self._size - length_hint(self._rest)), now - self._looked_at
            self._looked_at = now
            if now >= self._ends_at:
                self._ends_at = now + seconds
                if self.partition != UNASSIGNED and hears_of_batches(partitioner):
                    partitioner.on_new_batch(topic, None, self.partition)
            self.seen = partitioner._routes  # noqa: SLF001 - our own base class
            if stay:
                self.partition = partitioner.partition(topic, None, None, None, None, None)
            self._rerouted, self._capped = self.counted()
            self._route = partitioner.route(topic)
            rest = max(0, _fitting(used, took, seconds) - count)
            self._size = rest + count
            self._rest = repeat(self.partition, rest)
            if stay:
                self.chunk = self._rest
                # The poller first swaps the routes, then drops the chunk. If it did both before this chunk,
                # which the old routes may have chosen, was there to be dropped, we see it now.
                if partitioner._routes is not self.seen:  # noqa: SLF001
                    self.drop()
            return self.partition

    def asked(self, partitioner: Partitioner) -> bool:
        """Count a record that the partitioner is asked about; False if it is time to look again."""
        same = self.seen is partitioner._routes  # noqa: SLF001
        return same and next(self._rest, None) is not None

    def drop(self) -> None:
        """Let the next record look again: the partitioner has new routes."""
        self.chunk = ()

    def end(self) -> None:
        """Let the next record begin another turn."""
        self._ends_at = 0.0
        self.chunk = ()
        self.seen = None

    def counted(self) -> tuple[int, int]:
        """Return how many records were rerouted and capped, those of the current chunk included."""
        used, route = self._size - length_hint(self._rest), self._route
        rerouted = used if route is not None and route.rerouted else 0
        capped = used if route is not None and route.capped else 0
        return self._rerouted + rerouted, self._capped + capped


def _fitting(used: int, took: float, turn: float) -> int:
    """Return how many records take a quarter of a turn, if ``used`` of them took ``took`` seconds."""
    if took <= 0:
        return LONGEST_CHUNK
    return int(min(LONGEST_CHUNK, max(1.0, used * CHUNK_SHARE * turn / took)))


def hears_of_batches(partitioner: Partitioner) -> bool:
    """Tell whether `Partitioner.on_new_batch` means "move on" to this one.

    That of the base class means "you are asked once more about a record", which only kafka-python does.
    """
    return partitioner.sticky and type(partitioner).on_new_batch is not Partitioner.on_new_batch
