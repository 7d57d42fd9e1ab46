"""How long unkeyed records stay on one partition, and what came of it.

librdkafka does not say when it begins a new batch, so a *turn* on one partition ends by time: after
``linger.ms``, which is what fills a batch, or ``sticky.partitioning.linger.ms``. With a linger of less than
5 ms a turn lasts 25 ms, as lingering fills no batch then. Turns are longer only while brokers take longer to
answer than lingering takes: then it counts how many requests they get, and a turn lasts as long as three
answers, up to 250 ms. A failure is noticed after about as many answers.

Records need no clock: a *chunk* of them is placed at once, as many as come in a given time. The clock is
read, and a record's delivery tracked, once per chunk. The *producer* begins about one in 1 ms, of all its
topics together: with one topic it lasts 1 ms, with many up to 250 ms, and it is one record for producers of
up to 1,000 a second. Where a producer becomes slower, what is left lasts longer: `poll` sees that no record
was tracked lately, and the next one begins a chunk. A turn lasts no shorter than its topic's chunks; new
routes end all chunks at once.

Keyed records that librdkafka places itself take a short cut, which polls close each 5 ms, so that the next
one is tracked. Where they may take further handles their keys are logged there, and it is closed while a
broker is suspect: see ``clients/flight/key_order.py``.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from operator import length_hint
from typing import Any

from attrs import define, field, frozen

from kafka_partition_events.clients.confluent.settings import LEAST_LINGER_S, linger_seconds, number
from kafka_partition_events.clients.flight.key_order import NONE, KeyOrder
from kafka_partition_events.health.in_flight import MAIN
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.partitioners.sticky import StickyPartitioner
from kafka_partition_events.routing.table import Route

TURN_S = 0.025
"""A turn's length in seconds where lingering fills no batch."""

ANSWERS_A_TURN, LONGEST_TURN_S = 3.0, 0.25
"""How many answers a turn lasts while brokers take longer than lingering takes, and seconds at most."""

CHUNK_S = 0.001
"""How far the beginnings of two chunks of a producer are apart, in seconds."""

LONGEST_CHUNK = 2048
"""In records, those of `CHUNK_S` at two million a second; if they become rare, so few are placed without a
clock."""

_MANY_TOPICS_CHUNK = 32
"""How many records a chunk has where many topics have few each, however long that takes."""

_LONGEST_S = 0.25
"""A chunk's longest time, in seconds: as long as the longest turn."""

_WINDOW = 32
"""After how many chunks their length is adapted."""


@frozen
class ShortCuts:
    """How one producer's next records go without being asked about, by topic. Its hot path reads it."""

    # The partitions of records without a key, or with one that is as good as none; taking one is atomic.
    # Empty: the partitioner is asked.
    unkeyed: dict[str, Iterable[int]] = field(factory=dict)
    # Where librdkafka may place a record with a key: what takes the key once the record is handed over, None
    # if nothing need. An empty key is no short cut. A topic that is not there: the partitioner is asked.
    log_keys: dict[str, Callable[[Any], None] | None] = field(factory=dict)

    def forget(self, topic: str) -> None:
        """Forget a topic that is not written."""
        self.unkeyed.pop(topic, None)
        self.log_keys.pop(topic, None)


@frozen
class TurnLength:
    """How long a turn lasts, in seconds."""

    least: float  # while brokers answer within ``linger`` seconds after the linger itself
    most: float  # while they take long
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


@define(eq=False)
class Chunk:
    """The next records, as many as will come in a given time by the last chunk.

    Without a lock: threads that renew one at the same time may misjudge its length.
    """

    rest: Iterator[int] = field(factory=lambda: iter(()), init=False)  # taking from it is atomic
    _began_at: float = field(default=0.0, init=False)
    _size: int = field(default=0, init=False)

    @property
    def used(self) -> int:
        """How many were taken."""
        return self._size - length_hint(self.rest)

    def end(self) -> int:
        """End it, also for a thread that is about to take from it; return how many were taken, exactly.

        What is left is taken here, in one step of the interpreter: each record is taken once, by either.
        """
        self._size -= len(list(self.rest))
        return self._size

    def fitting(self, now: float, seconds: float) -> int:
        """Return how many will come in so many seconds; the last chunk ends now."""
        used, took = max(1, self.used), now - self._began_at
        self._began_at = now
        return LONGEST_CHUNK if took <= 0 else int(min(LONGEST_CHUNK, max(1.0, used * seconds / took)))

    def begin(self, value: int, size: int, taken: int = 1) -> None:
        """Begin with a number of equal values, of which some are taken at once."""
        self._size = size
        self.rest = repeat(value, size - taken)


@define(eq=False)
class Pace:
    """How long one producer's chunks last, so that it begins about one in `CHUNK_S`, of whichever topics.

    Without a lock: threads that begin chunks at the same time may miscount a few.
    """

    seconds: float = field(factory=lambda: CHUNK_S, init=False)  # as with one topic
    _begun: int = field(default=0, init=False)
    _since: float = field(default=0.0, init=False)

    @property
    def least(self) -> int:
        """How many records a chunk has at least."""
        return min(_MANY_TOPICS_CHUNK, int(self.seconds / CHUNK_S / 2))

    def begun(self, now: float) -> None:
        """Take note that a chunk begins."""
        self._begun += 1
        if self._begun >= _WINDOW:
            apart = max(1e-6, (now - self._since) / self._begun)
            self.seconds = min(_LONGEST_S, max(CHUNK_S, self.seconds * CHUNK_S / apart))
            self._begun, self._since = 0, now


@define(eq=False)
class Turn:
    """One topic's turn. Any thread may use it.

    Producers take each record's partition from `ShortCuts`, which is atomic without a lock. When it has no
    more, they `renew` it. Each record is counted once, by whichever thread it was taken.
    """

    _topic: str
    _partitioner: Partitioner
    _length: TurnLength
    _pace: Pace  # of the producer's chunks, as far as the turn lasts; a turn lasts as long at least
    _cuts: ShortCuts
    _stay_with: StickyPartitioner | None = field(kw_only=True)  # None: it is asked for each record
    _chunks: bool = field(default=True, kw_only=True)  # False: producers `renew` for each record
    # While some keys are counted: says whether one is, and takes the key of another one, whose record
    # librdkafka may place, once that is handed over.
    counted_keys: tuple[Callable[[Any], bool], Callable[[Any], None]] | None = field(default=None, init=False)
    partition: int = field(default=UNASSIGNED, init=False)  # of the chunk, or of the last record
    seen: Mapping[str, Route] | None = field(default=None, init=False)  # the routes when the chunk began
    _lock: threading.RLock = field(factory=threading.RLock, init=False)  # a signal handler may produce
    _route: Route | None = field(default=None, init=False)
    _chunk: Chunk = field(factory=Chunk, init=False)
    _ends_at: float = field(default=0.0, init=False)
    _rerouted: int = field(default=0, init=False)
    _avoided: int = field(default=0, init=False)
    _capped: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        """Have the partitioner's new routes end the chunk."""
        self._partitioner.routing.on_renewed(self.drop)

    def renew(self, count: int = 1) -> int:
        """Begin the next chunk, on another partition if the turn is over or the route has changed.

        Return the partition of ``count`` records, which are taken from the chunk right away; if need be, it
        is as long.
        """
        topic, partitioner, length, pace = self._topic, self._partitioner, self._length, self._pace
        with self._lock:
            now, short = time.monotonic(), min(CHUNK_S, length.least / 4)
            pace.begun(now)
            seconds = pace.seconds
            self._chunk.end()
            self._rerouted, self._avoided, self._capped = self.counted()
            # Not a chunk later: the batch would be gone, and what follows it linger alone, one more request.
            if now + short >= self._ends_at:
                lasts = length.while_answers_take(partitioner.deliveries.usual_answer)
                self._ends_at = now + max(lasts, min(seconds, length.most))
                if self.partition != UNASSIGNED and isinstance(partitioner, StickyPartitioner):
                    partitioner.move_on(topic, self.partition)
            if seconds > CHUNK_S:
                short = max(short, min(seconds, self._ends_at - now))
            size = max(count, self._chunk.fitting(now, short), pace.least)
            self.seen = partitioner.routing.current
            self._route = route = partitioner.route(topic)
            if self._stay_with is None:
                self._chunk.begin(self.partition, size, count)
                return self.partition
            chosen = self._stay_with.current(topic)
            if route is not None and route.avoids(chosen):  # a probe, which is one record
                self.drop()  # a batch takes it while there still is a chunk
                self._chunk.begin(chosen, 0, 0)
                return chosen
            self.partition = chosen
            self._chunk.begin(chosen, size, count)
            # On standby another handle takes each record: a chunk is for the producer's own.
            may_take = self._chunks and partitioner.deliveries.handle == MAIN
            self._cuts.unkeyed[topic] = self._chunk.rest if may_take else ()
            # The poller first swaps the routes, then drops the chunk. If it did both before this chunk, which
            # the old routes may have chosen, was there to be dropped, we see it now.
            if partitioner.routing.current is not self.seen:
                self.drop()
            return chosen

    def open_short_cut(self, keys: KeyOrder | None) -> None:
        """Let librdkafka place keyed records from now on; the one that is sent now may be tracked.

        Without ``keys`` all take one handle, so that a broker that is suspect is no matter.
        """
        deliveries = self._partitioner.deliveries
        avoiding = deliveries.avoiding
        if keys is None:
            self._cuts.log_keys[self._topic] = None
        elif not avoiding:
            keys.open(self._topic, self._take_short_cut)
        # A suspicion first sets the flag, then drops what is here. If it did both since we read the flag,
        # what we have put here will not be dropped; but we see the flag now.
        if deliveries.avoiding is not avoiding:
            self.close_short_cut()

    def _take_short_cut(self, is_counted: Callable[[Any], bool], log_key: Callable[[Any], None]) -> None:
        if is_counted is NONE:
            self._cuts.log_keys[self._topic] = log_key
        else:
            self.counted_keys = is_counted, log_key

    def close_short_cut(self) -> None:
        """Have the next record with a key be asked about."""
        self._cuts.log_keys.pop(self._topic, None)
        self.counted_keys = None

    def asked(self) -> bool:
        """Count a record that the partitioner is asked about; False if it is time to renew the chunk."""
        same = self.seen is self._partitioner.routing.current
        return same and next(self._chunk.rest, None) is not None

    def drop(self) -> None:
        """Let the next record renew the chunk: the partitioner has new routes."""
        if self._topic in self._cuts.unkeyed:
            self._cuts.unkeyed[self._topic] = ()
        self.close_short_cut()

    def end(self) -> None:
        """Let the next record begin another turn."""
        self._ends_at = 0.0
        self.drop()
        self.seen = None

    def counted(self) -> tuple[int, int, int]:
        """Return how many records were rerouted, avoided a suspect broker and were capped so far."""
        used, route = self._chunk.used, self._route
        if route is None:
            return self._rerouted, self._avoided, self._capped
        return (
            self._rerouted + used * route.rerouted,
            self._avoided + used * bool(route.avoided),
            self._capped + used * route.capped,
        )
