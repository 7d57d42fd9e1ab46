"""How long unkeyed records stay on one partition, and what came of it.

librdkafka does not say when it begins a new batch, so a *turn* on one partition ends by time: after
``linger.ms``, which is what fills a batch, and not later, when the batch is gone; or after
``sticky.partitioning.linger.ms`` where the user has set that (librdkafka's name for the same thing). With a
linger of less than 5 ms a turn lasts 25 ms, because lingering fills no batch then: with 4,000 records/s on
16 partitions at linger 0, turns of 100 records (25 ms) had a p99 latency of 501 ms, librdkafka's own turns
of 10 ms one of 12,564 ms. Longer turns would put more records on a broker that fails meanwhile. So they are
longer only while brokers take longer to answer than lingering takes, as saturated ones do: then what counts
is how many requests they get, and a turn lasts as long as three answers take, up to 250 ms. A failure is
noticed after about as many answers, so it costs about as many records as before. A count of bytes is not
kept: a turn of 5 ms holds what the producer sends in 5 ms, however it is cut.

Reading the clock and keeping account of each record's delivery would cost most of the throughput. Both are
done once per *chunk*. The next chunk is sized so that it lasts about 1 ms: one record for producers that
send up to 1,000 a second, so that nothing is missed there, and 512 for fast ones, a sample. (With chunks of
0.25 ms a producer of 2,000 records/s took 0.24 of a core instead of 0.17, and its median answer 0.7 ms longer
on a busy machine; the plain one takes 0.09.)

Keyed records that librdkafka places itself are none of our business, until a broker is suspect: then one in
1 ms of them is followed too, because their answers tell whether it is back.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from operator import length_hint
from typing import Any

from attrs import frozen

from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.partitioners.deliveries import Deliveries
from kafka_partition_events.partitioners.sticky import StickyPartitioner
from kafka_partition_events.routing.table import Route

LEAST_LINGER_S = 0.005
TURN_S = 0.025
ANSWERS_A_TURN = 3.0
LONGEST_TURN_S = 0.25
CHUNK_S = 0.001
LONGEST_CHUNK = 512

_DEFAULT_LINGER_MS = 5.0
_LINGER_NAMES = ("linger.ms", "queue.buffering.max.ms")


def linger_seconds(config: Mapping[str, Any]) -> float:
    """Return how long the producer holds records back to fill a batch."""
    return number(config, _LINGER_NAMES, _DEFAULT_LINGER_MS) / 1000


def number(config: Mapping[str, Any], names: Iterable[str], default: float) -> float:
    """Return the first of these settings that is there and a number; what is none librdkafka refuses."""
    try:
        return float(next((config[name] for name in names if name in config), default))
    except (TypeError, ValueError):
        return default


@frozen
class TurnLength:
    """How long a turn lasts, in seconds.

    Attributes:
        least: While brokers answer soon.
        most: While they take long.
        linger: Answers that take no longer, beyond the linger itself, are soon.
    """

    least: float
    most: float
    linger: float = 0.0

    def while_answers_take(self, seconds: float | None) -> float:
        """Return how long a turn lasts now; None: nothing has been answered yet."""
        if seconds is None or seconds <= self.linger:
            return self.least
        return max(self.least, min(self.most, ANSWERS_A_TURN * seconds))


def turn_length(config: Mapping[str, Any]) -> TurnLength:
    """Return how long a turn lasts with a producer's settings."""
    if "sticky.partitioning.linger.ms" in config:
        fixed = number(config, ("sticky.partitioning.linger.ms",), 0.0) / 1000
        return TurnLength(fixed, fixed)
    linger = linger_seconds(config)
    least = TURN_S if linger < LEAST_LINGER_S else linger
    return TurnLength(least, max(least, LONGEST_TURN_S), linger)


class Turn:
    """One topic's turn. Any thread may use it.

    Producers take each record's partition from `chunk`, which is atomic without a lock. When it has no more,
    they `look`. A record that is taken while another thread looks may be missing from the counts.
    """

    __slots__ = (
        "__weakref__", "_avoided", "_capped", "_chunks", "_ends_at", "_followed_at", "_keyed_at",
        "_keyed_rest", "_keyed_size", "_keyless", "_lock", "_looked_at", "_placed", "_rerouted", "_rest",
        "_route", "_size", "_stays", "_used_at", "_was", "chunk", "keyed", "partition", "seen",
        "written_past",
    )  # fmt: skip

    def __init__(self, partitioner: Partitioner, *, chunks: bool = True, keyless: bool = False) -> None:
        """Make a turn that hears of the partitioner's new routes.

        Args:
            partitioner: Who chooses.
            chunks: Whether producers may take records from the chunk; else they `look` for each.
            keyless: Whether keyed records are taken from the chunk too.
        """
        self._chunks = chunks
        self._keyless = keyless
        self.chunk: Iterable[int] = ()
        """The partitions of the next records; empty if the partitioner is asked for each."""
        self.keyed: Iterable[int] = ()
        """The same for records with a key (an empty one is none): `UNASSIGNED` if librdkafka places them."""
        self.partition = UNASSIGNED
        """Where the chunk goes, or the last record went if the partitioner is asked for each."""
        self.seen: Mapping[str, Route] | None = None
        """The partitioner's routes when we looked."""
        self.written_past = False
        """Whether something was written lately that neither chunk counts."""
        self._was: tuple[object, ...] = ()
        self._used_at = time.monotonic()
        self._lock = threading.RLock()  # a signal handler may produce in there
        self._route: Route | None = None
        self._size = 0
        self._stays = False
        self._rest: Iterator[int] = iter(())
        self._looked_at = 0.0
        self._ends_at = 0.0
        self._followed_at = 0.0
        self._keyed_rest: Iterator[int] = iter(())
        self._keyed_size = 0
        self._keyed_at = 0.0
        self._rerouted = 0
        self._avoided = 0
        self._capped = 0
        self._placed: Counter[int] = Counter()
        partitioner.routing.keep(self)

    def look(
        self,
        topic: str,
        partitioner: Partitioner,
        length: TurnLength,
        *,
        stay_with: StickyPartitioner | None,
        count: int = 1,
    ) -> int:
        """Begin the next chunk, on another partition if the turn is over or the route has changed.

        Args:
            topic: The turn's topic.
            partitioner: Who chooses.
            length: How long a turn lasts.
            stay_with: Says to which partition the whole chunk goes; None: ``partitioner`` is asked for each
                record.
            count: How many records are taken from the chunk right away; if need be, it is as long.

        Returns:
            Their partition.
        """
        with self._lock:
            now = time.monotonic()
            used, took = max(1, self._used), now - self._looked_at
            self._looked_at = now
            self._rerouted, self._avoided, self._capped = self.counted()
            if self._stays:
                self._placed[self.partition] += self._used
            # Not a chunk later: the batch would be gone, and what follows it linger alone, one more request.
            if now + min(CHUNK_S, length.least / 4) >= self._ends_at:
                self._ends_at = now + length.while_answers_take(partitioner.deliveries.usual_answer)
                if self.partition != UNASSIGNED and isinstance(partitioner, StickyPartitioner):
                    partitioner.move_on(topic, self.partition)
            self._stays = stay_with is not None
            self.seen = partitioner.routing.current
            self._route = route = partitioner.route(topic)
            if stay_with is None:
                self._begin_chunk(max(count, _fitting(used, took, length.least / 4)), count)
                return self.partition
            chosen = stay_with.current(topic)
            if route is not None and route.avoids(chosen):  # a probe, which is one record
                self.drop()  # a batch takes it while there still is a chunk
                self._begin_chunk(0, 0)
                self._placed[chosen] += 1
                return chosen
            self.partition = chosen
            self._begin_chunk(max(count, _fitting(used, took, length.least / 4)), count)
            # on standby somebody else than us takes each record: a chunk is for the producer's own handle.
            self.chunk = self._rest if self._chunks and not partitioner.deliveries.on_standby else ()
            if self._keyless:
                self.keyed = self.chunk
            # The poller first swaps the routes, then drops the chunk. If it did both before this chunk, which
            # the old routes may have chosen, was there to be dropped, we see it now.
            if partitioner.routing.current is not self.seen:
                self.drop()
            return chosen

    def _begin_chunk(self, size: int, taken: int) -> None:
        self._size = size
        self._rest = repeat(self.partition, size - taken)

    def sample_keyed(self, deliveries: Deliveries) -> None:
        """Follow one keyed record, then no more: for a chunk while a broker is suspect, else for ever.

        Without a lock: threads that come here at the same time may misjudge the length of one chunk.
        """
        now = time.monotonic()
        used, took = max(1, self._keyed_size - length_hint(self._keyed_rest)), now - self._keyed_at
        self._keyed_at = now
        avoiding = deliveries.avoiding
        self._keyed_size = _fitting(used, took, CHUNK_S) if avoiding else sys.maxsize
        self.keyed = self._keyed_rest = repeat(UNASSIGNED, self._keyed_size - 1)
        # A suspicion first sets the flag, then drops what is here. If it did both since we read the flag,
        # what we have put here will not be dropped; but we see the flag now.
        if deliveries.avoiding is not avoiding:
            self.keyed = ()

    def placed(self, partition: int) -> None:
        """Count a record that the partitioner was asked about."""
        self.partition = partition
        self._placed[partition] += 1

    @property
    def records(self) -> Counter[int]:
        """How many records went to each partition."""
        placed = self._placed.copy()
        if self._stays:
            placed[self.partition] += self._used
        return placed

    def idle(self, now: float) -> float:
        """Return for how many seconds nothing was written, as far as earlier calls tell."""
        state = self.records.total(), self._keyed_at, length_hint(self._keyed_rest)
        if self.written_past or state != self._was:
            self.written_past, self._was, self._used_at = False, state, now
        return now - self._used_at

    def asked(self, partitioner: Partitioner) -> bool:
        """Count a record that the partitioner is asked about; False if it is time to look again."""
        same = self.seen is partitioner.routing.current
        return same and next(self._rest, None) is not None

    def due(self) -> bool:
        """Tell whether account is to be kept of the next record: of one in `CHUNK_S`."""
        now = time.monotonic()
        if now - self._followed_at < CHUNK_S:
            return False
        self._followed_at = now
        return True

    def drop(self) -> None:
        """Let the next record look again: the partitioner has new routes."""
        self.chunk = ()
        self.keyed = ()

    def end(self) -> None:
        """Let the next record begin another turn."""
        self._ends_at = 0.0
        self.drop()
        self.seen = None

    @property
    def _used(self) -> int:
        return self._size - length_hint(self._rest)

    def counted(self) -> tuple[int, int, int]:
        """Return how many records were rerouted, avoided a suspect broker and were capped so far."""
        used, route = self._used, self._route
        if route is None:
            return self._rerouted, self._avoided, self._capped
        return (
            self._rerouted + used * route.rerouted,
            self._avoided + used * bool(route.avoided),
            self._capped + used * route.capped,
        )


def _fitting(used: int, took: float, most: float) -> int:
    """Return how many records make a chunk of ``most`` seconds at most, if ``used`` took ``took`` seconds."""
    if took <= 0:
        return LONGEST_CHUNK
    return int(min(LONGEST_CHUNK, max(1.0, used * min(CHUNK_S, most) / took)))
