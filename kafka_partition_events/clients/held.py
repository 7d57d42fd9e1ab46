"""The engine of both clients' rescue: the records that may be sent again, where they are, who gets a copy.

What a client adds is how it sends a record, how it tells the application, and who calls `Engine.drain`.
"""

import math
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Collection
from itertools import count
from typing import Any, ClassVar

from attrs import define, field

from kafka_partition_events.clients.reports import ProducerReports, Stuck
from kafka_partition_events.clients.rescue import (
    ATTEMPT_HEADER,
    ID_HEADER,
    PARTITION_HEADER,
    Headers,
    RescueLimits,
    RescueMode,
    RescueStats,
)
from kafka_partition_events.metadata.events import RecordsRescued
from kafka_partition_events.routing.lanes import MAIN
from kafka_partition_events.routing.table import Route

RECORD_BYTES = 950
HEADER_BYTES = 100
"""What keeping a record, and a header of its, takes beside the bytes, roughly. Measured on CPython 3.11: 956
bytes for a value of 20. Without it small records would take 50 times what the limit says."""

_HEDGE_EVERY_S = 0.005
"""How far two looks at what is stuck are apart at least: an application may poll for each record, and a look
takes as long as there are partitions that are written."""


@define(eq=False)
class Held:
    """One record that may be sent again. Guarded by the account's lock.

    ``outcome`` is what the client tells the application by, once: a callback, or a future's inner half.
    """

    topic: str
    data: str | bytes | None  # serialized
    headers: Headers
    timestamp_ms: int
    id: str
    home: int | None  # where the original went; None as long as only the client knows
    outcome: Any
    attempts: int = 0
    on_the_way: tuple[tuple[int, int], ...] = ()  # way and partition of each
    tried: tuple[int, ...] = ()
    error: BaseException | None = None  # the latest
    queued: bool = False
    done: bool = False  # somebody has its outcome
    purged: bool = False
    size: int = field(init=False)  # bytes that are kept for it

    def __attrs_post_init__(self) -> None:
        """Count the bytes."""
        headers = sum(HEADER_BYTES + len(name) + len(value or "") for name, value in self.headers)
        self.size = RECORD_BYTES + len(self.data or b"") + headers


class Account:
    """All held records of one producer. Pure; thread-safe."""

    def __init__(self, limits: RescueLimits) -> None:
        self._limits = limits
        self._budget = float(limits.burst)  # copies that may still be sent; each record adds a share of one
        # Re-entrant: the garbage collector may run in here and close a producer.
        self.changed = threading.Condition(threading.RLock())
        self.queue: deque[Held] = deque()
        self._in_hand = 0  # taken from the queue, and neither placed nor refused yet
        self.closed = False
        self._open: set[Held] = set()
        # By way, topic and partition: what is there and has no copy yet.
        self._placed: dict[tuple[int, str, int], dict[Held, None]] = {}
        self._saved: Counter[str] = Counter()  # by topic
        self._bytes = self._copies = self._withheld = self._unheld = self._rescued = 0
        self.is_short = False  # the budget was used up when `hedge` was called last
        self._news: dict[int | None, tuple[int, int]] = {}

    @property
    def open(self) -> frozenset[Held]:
        """The records whose future is not resolved yet."""
        with self.changed:
            return frozenset(self._open)

    def any_open(self) -> bool:
        """Tell whether there are such records."""
        return bool(self._open)

    @property
    def stats(self) -> RescueStats:
        """What has been done so far."""
        with self.changed:
            return RescueStats(
                copies=self._copies,
                saved=self._rescued,
                withheld=self._withheld,
                unheld=self._unheld,
                held_bytes=self._bytes,
            )

    def saved(self, topics: Collection[str] | None = None) -> dict[str, int]:
        """Return by topic how many records a copy was delivered of first; of others it is forgotten."""
        with self.changed:
            if topics is not None:
                self._saved = Counter({topic: self._saved[topic] for topic in topics})
            return dict(self._saved)

    # -- what happens --------------------------------------------------------------------------------

    def admit(self, held: Held) -> bool:
        """Keep a record that is sent for the first time, unless too much is kept already."""
        with self.changed:
            self._budget = min(self._limits.burst, self._budget + self._limits.share)
            if self.closed or self._bytes + held.size > self._limits.held_bytes:
                self._unheld += 1
                return False
            self._bytes += held.size
            self._open.add(held)
            return True

    def place(self, held: Held, partition: int, way: int = MAIN) -> None:
        """Note that an admitted record, or the copy that was queued, is on its way to a partition."""
        with self.changed:
            self._copies += held.queued
            self._in_hand -= held.queued
            held.queued = False
            held.attempts += 1
            held.tried += (partition,)
            held.on_the_way += ((way, partition),)
            self._placed.setdefault((way, held.topic, partition), {})[held] = None

    def unplace(self, held: Held, partition: int, way: int = MAIN) -> None:
        """Take `place` back: the client did not take it."""
        with self.changed:
            held.attempts -= 1
            if held.attempts:  # it was a copy
                self._copies -= 1
                self._in_hand += 1
                held.queued = True
            self._left(held, partition, way)

    def put_back(self, held: Held) -> None:
        """Take `take` back: the copy shall be the next one again, unless it is on its way by now."""
        with self.changed:
            if held.queued:
                self._in_hand -= 1
                self.queue.appendleft(held)

    def delivered(self, held: Held, partition: int, way: int = MAIN) -> bool:
        """Note that the record, or a copy, arrived; return whether that is its outcome."""
        with self.changed:
            self._left(held, partition, way)
            if held.done:
                return False
            if held.home not in (None, partition):
                self._saved[held.topic] += 1
                self._rescued += 1
            held.done = True
            return True

    def failed(
        self, held: Held, partition: int, error: BaseException, *, worth_a_copy: bool, way: int = MAIN
    ) -> bool:
        """Note that the record, or a copy, failed; return whether that is its outcome.

        It is not if another one is on its way, or if it gets a copy.
        """
        with self.changed:
            self._left(held, partition, way)
            held.error = error
            if held.done or held.queued or held.on_the_way:
                return False
            if worth_a_copy and self._queue_copy(held, None):
                return False
            held.done = True
            return True

    def refused(self, held: Held, error: BaseException) -> bool:
        """Note that the client did not take a queued copy; return whether the record has failed by that."""
        with self.changed:
            self._in_hand -= held.queued
            held.queued = False
            held.error = held.error or error
            self._withheld += 1
            if held.done or held.on_the_way:
                return False
            held.done = True
            return True

    def settled(self, held: Held) -> None:
        """Let go of a record whose future was resolved."""
        with self.changed:
            self._open.discard(held)
            self._bytes -= held.size
            self.changed.notify_all()

    def hedge(self, stuck: Stuck) -> None:
        """Queue a copy of each record of which all that is on its way waits there, behind that broker.

        What gets none because the budget is used up waits for its turn: each record that is sent adds to it.
        How many those are is told once, when the budget runs out: counting them each time would take long.
        """
        with self.changed:
            short: Counter[int | None] = Counter()
            for place, broker in stuck.items():
                for held in tuple(self._placed.get(place, ())):
                    waits = all((way, held.topic, partition) in stuck for way, partition in held.on_the_way)
                    if held.done or held.queued or not waits:
                        continue
                    if self._budget >= 1:
                        self._queue_copy(held, broker)
                        for way, partition in held.on_the_way:
                            self._forget_place(held, partition, way)
                    elif self.is_short:
                        return
                    else:
                        short[broker] += 1
            self.is_short = bool(short)
            for broker, count in short.items():
                copies, withheld = self._news.get(broker, (0, 0))
                self._news[broker] = (copies, withheld + count)

    def purge(self) -> None:
        """Let no copy that is queued now be sent."""
        with self.changed:
            for held in self.queue:
                held.purged = True

    # -- copies --------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many copies are queued, or about to be sent."""
        return len(self.queue) + self._in_hand

    def take(self) -> Held | None:
        """Return the next record to be copied, None when there is none."""
        with self.changed:
            while self.queue:
                held = self.queue.popleft()
                if not held.done:
                    self._in_hand += 1
                    return held
                held.queued = False
            return None

    def take_news(self) -> dict[int | None, tuple[int, int]]:
        """Return what was queued and what was withheld since this was called last, by broker."""
        with self.changed:
            news, self._news = self._news, {}
            return news

    def wait_for(self, mine: Collection[Held], seconds: float) -> bool:
        """Wait until all of these are resolved, or there is a copy to be sent; return whether they are."""
        with self.changed:
            self.changed.wait_for(lambda: self.queue or self._open.isdisjoint(mine), seconds)
            return self._open.isdisjoint(mine)

    def _queue_copy(self, held: Held, broker: int | None) -> bool:
        allowed = not self.closed and held.attempts < self._limits.attempts and self._budget >= 1
        self._budget -= allowed
        copies, withheld = self._news.get(broker, (0, 0))
        self._news[broker] = (copies + allowed, withheld + (not allowed))
        if not allowed:
            self._withheld += 1
            return False
        held.queued = True
        self.queue.append(held)
        self.changed.notify_all()
        return True

    def _left(self, held: Held, partition: int, way: int) -> None:
        places = list(held.on_the_way)
        if (way, partition) in places:
            places.remove((way, partition))
        held.on_the_way = tuple(places)
        if (way, partition) not in places:
            self._forget_place(held, partition, way)

    def _forget_place(self, held: Held, partition: int, way: int) -> None:
        place = way, held.topic, partition
        placed = self._placed.get(place, {})
        placed.pop(held, None)
        if not placed:
            self._placed.pop(place, None)


class Engine(ABC):
    """The rescue of one producer, to which it holds no strong reference. Thread-safe.

    Each record has one outcome, whatever raises: the first copy that arrives, or the last one that fails.
    """

    no_room: ClassVar[tuple[type[Exception], ...]] = ()
    """What the client raises where a copy is to wait until there is room for it."""

    def __init__(self, mode: RescueMode, limits: RescueLimits, reports: ProducerReports) -> None:
        self.account = Account(limits)
        self._hedging = mode == "hedge"
        self._reports = reports
        self._producer_id = secrets.token_hex(8)
        self._numbers = count(1)
        self._hedged_at = -math.inf

    @abstractmethod
    def _tell(self, held: Held, arrived: Any) -> None:
        """Tell the application what became of a record; it has failed with its error if None has arrived."""

    def new_id(self) -> str:
        """Return an id that no other record has."""
        return f"{self._producer_id}-{next(self._numbers)}"

    def headers(self, held: Held) -> Headers:
        """Return the headers for a record's next attempt."""
        headers: Headers = [*held.headers, (ID_HEADER, held.id.encode())]
        if held.attempts:
            home = -1 if held.home is None else held.home
            headers += [(PARTITION_HEADER, b"%d" % home), (ATTEMPT_HEADER, b"%d" % (held.attempts + 1))]
        return headers

    def hedge(self, route: Callable[[str], Route | None]) -> None:
        """Queue copies of the records that are stuck, of topics where a copy would not be stuck as well."""
        if not self._hedging or (now := time.monotonic()) < self._hedged_at + _HEDGE_EVERY_S:
            return
        self._hedged_at = now
        if (stuck := self._reports.stuck()) or self.account.is_short:
            self.account.hedge(_hedgeable(stuck, route))

    def drain(self, send: Callable[[Held], None]) -> None:
        """Send what is queued; what finds no room stays for the next time.

        A copy that can't be sent, for whatever reason (a chooser of the application's that raises, a producer
        that was closed), leaves its record with the outcome that it had, unless another one is on its way.
        """
        while (held := self.account.take()) is not None:
            try:
                send(held)
            except self.no_room:
                self.account.put_back(held)
                break
            except Exception as error:  # noqa: BLE001 - see above
                if self.account.refused(held, error):
                    self._settle(held)
            except BaseException:  # a signal's
                self.account.put_back(held)
                raise
        self._reports.emit(
            RecordsRescued(broker=broker, copies=copies, withheld=withheld)
            for broker, (copies, withheld) in self.account.take_news().items()
        )

    def delivered(self, held: Held, partition: int, way: int, arrived: Any) -> None:
        """Note that a record, or a copy, arrived."""
        if self.account.delivered(held, partition, way):
            self._settle(held, arrived)

    def failed(
        self, held: Held, partition: int, way: int, error: BaseException, *, worth_a_copy: bool
    ) -> bool:
        """Note that a record, or a copy, failed; return whether that is its outcome."""
        decided = self.account.failed(held, partition, error, worth_a_copy=worth_a_copy, way=way)
        if decided:
            self._settle(held)
        return decided

    def _settle(self, held: Held, arrived: Any = None) -> None:
        try:
            self._tell(held, arrived)
        finally:
            self.account.settled(held)


def _hedgeable(stuck: Stuck, route: Callable[[str], Route | None]) -> Stuck:
    """Leave out the topics without a partition that needs nobody suspect: a copy would be stuck as well."""
    routes = {topic: route(topic) for topic in {topic for _, topic, _ in stuck}}
    safe = {topic for topic, found in routes.items() if found is not None and found.safe != frozenset()}
    return {place: broker for place, broker in stuck.items() if place[1] in safe}
