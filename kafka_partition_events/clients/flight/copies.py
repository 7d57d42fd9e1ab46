"""Which records get a copy: those of one producer that may be rescued, their copies, and the budget."""

import math
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from kafka_partition_events.clients.flight.record import Attempt, RescuableRecord
from kafka_partition_events.clients.flight.rescue import RescueStats

Where = tuple[int, str, int]
"""Handle, topic and partition."""

Stuck = Mapping[Where, int | None]
"""Where records wait for a suspect, and the broker that leads there."""

SHARE: Final = 0.1  # copies for each record that is sent, on average
BURST: Final = 10_000  # copies at once at the most, when there were none for a while
BURST_S: Final = 5.0
"""A burst of copies is about what the producer has sent in so many seconds at the most: one whose own uplink
is full would else make it fuller."""
LEAST_BURST: Final = 100  # however little is sent: one at a time waits for each of them
ATTEMPTS: Final = 4
"""How often one record is sent at most. Until the right broker is suspected, a copy may need the one that
hangs, too: once on each of three handles, and one more."""
HELD_BYTES: Final = 32 * 1024 * 1024
"""Memory for the records in flight that are kept for a copy: each counts until the application has its
outcome. The original of a copy that arrived keeps its memory, beyond this limit, until the client gives it
up."""
SEARCH_EVERY_S: Final = 0.005  # for what is stuck, or may go by now: applications poll for each record
UNTRACKED_S: Final = 0.02  # where so long none is tracked, one that waits is; most are answered sooner


class CopyBudget:
    """How many copies may be sent: a token bucket that begins full, of a size that follows the rate.

    Not thread-safe.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._size = self._left = float(LEAST_BURST)
        self._lately, self._sent_at = 0.0, clock()  # records, each of which counts for less with time

    def record_sent(self) -> None:
        """Add a record's share of a copy."""
        now = self._clock()
        self._lately = 1 + self._lately * math.exp((self._sent_at - now) / BURST_S)
        self._sent_at = now
        size = min(BURST, max(LEAST_BURST, self._lately))
        self._left = min(size, self._left + max(0.0, size - self._size) + SHARE)
        self._size = size

    def allows(self, copies: int = 1) -> bool:
        """Return whether so many may be sent."""
        return self._left >= copies

    def take(self, copies: int = 1) -> None:
        """Take some copies."""
        self._left -= copies


class Copies:
    """All records of one producer that may be rescued. Thread-safe.

    Each has one outcome: the first attempt that arrives, or the last one that fails.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.queue: deque[RescuableRecord] = deque()  # the copies to be sent
        self.waiting = 0  # how many are queued, or about to be sent
        self.is_short = False  # the budget was used up when `copy_stuck` was called last
        self._clock = clock
        self._budget = CopyBudget(clock)
        self._lock = threading.RLock()  # a signal handler may produce in here
        self._closed = False
        self._open: set[RescuableRecord] = set()
        self._in_flight: dict[Where, dict[Attempt, float]] = {}  # when each was sent, the oldest first
        self._next_overdue = -math.inf
        # Records in flight, apart as each is searched often: without a key, and has no copy yet; with one.
        self._uncopied: dict[Where, dict[RescuableRecord, None]] = {}
        self._keyed: dict[Where, dict[RescuableRecord, None]] = {}
        self._bytes = 0
        self._counts: Counter[str] = Counter()  # by the names of `RescueStats`
        self._news: dict[int | None, tuple[int, int]] = {}

    @property
    def open(self) -> frozenset[RescuableRecord]:
        """The records whose outcome the application has not learned yet."""
        with self._lock:
            return frozenset(self._open)

    @property
    def has_open(self) -> bool:
        """Whether the application waits for an outcome."""
        return bool(self._open)

    @property
    def stats(self) -> RescueStats:
        """What has been done so far."""
        with self._lock:
            return RescueStats(**self._counts, held_bytes=self._bytes)

    @property
    def has_budget(self) -> bool:
        """Whether a copy may be sent now."""
        return self._budget.allows()

    # -- a record's life -----------------------------------------------------------------------------

    def admit(self, record: RescuableRecord) -> RescuableRecord | None:
        """Keep a record that is about to be sent for the first time; None if too much is kept already."""
        with self._lock:
            self._budget.record_sent()
            if self._closed or self._bytes + record.size > HELD_BYTES:
                self._counts["unheld"] += 1
                return None
            self._bytes += record.size
            self._open.add(record)
            return record

    def launched(self, record: RescuableRecord, attempt: Attempt) -> None:
        """Note an attempt, of a record that was admitted or of a copy that was taken."""
        with self._lock:
            if record.tried:
                self._counts["copies"] += 1
                attempt.is_copy = True  # no call from here to `_note_place`: no signal handler comes between
            record.in_flight[attempt] = None
            record.tried += (attempt.partition,)
            self.waiting -= record.copy_is_due
            record.copy_is_due = False
            self._note_place(record, attempt)

    def placed(self, record: RescuableRecord, attempt: Attempt, partition: int) -> None:
        """Note which partition the client has chosen for an attempt that was launched without one."""
        with self._lock:
            self._forget_place(record, attempt)
            _remove(self._in_flight, attempt.place, attempt)
            attempt.partition = record.tried[-1] = partition
            self._note_place(record, attempt)

    def taken_back(self, record: RescuableRecord, attempt: Attempt) -> None:
        """Take `launched` back: the client did not take it."""
        with self._lock:
            self._leave(record, attempt)
            if attempt not in record.in_flight:
                return  # it was withdrawn, or not even launched
            del record.in_flight[attempt], record.tried[-1]  # no call from here on: see `launched`
            if attempt.is_copy and record.given.key is None:
                self.waiting += not record.copy_is_due
                record.copy_is_due = True
            self._counts["copies"] -= attempt.is_copy

    def landed(
        self, record: RescuableRecord, attempt: Attempt, error: BaseException | None, *, worth_a_copy: bool
    ) -> bool:
        """Note that an attempt was delivered, or failed; return whether that is the record's outcome.

        An error is not if another attempt is in flight, or if the record gets a copy. After an interrupt it
        may be called again.
        """
        with self._lock:
            self._leave(record, attempt)
            is_last = attempt in record.in_flight and len(record.in_flight) == 1 and not record.copy_is_due
            if error is not None and is_last and worth_a_copy and record.key is None and not record.finished:
                self._queue_copy(record, None)
            if attempt not in record.in_flight:
                return attempt.ends  # it was withdrawn, or this is the second call
            del record.in_flight[attempt]  # no call from here to `ends`: no signal handler comes between
            record.error = error or record.error
            if record.finished or (error is not None and (record.copy_is_due or record.in_flight)):
                return False
            if error is not None and record.given.key is not None:
                record.purged = False  # it is only not sent again
            attempt.ends = record.finished = True
            self._counts["saved"] += error is None and attempt.is_copy
            return True

    def finish(self, record: RescuableRecord, *, unheld: bool = False) -> None:
        """Let go of a record: the application has its outcome, or it was never sent, or goes `unheld`."""
        with self._lock:
            self._counts["unheld"] += unheld
            record.finished = True
            if record in self._open:
                self._bytes -= record.size
                self._open.remove(record)

    # -- what the failure detector tracks ------------------------------------------------------------

    def overdue(self) -> list[Attempt]:
        """Return the oldest attempt wherever some wait and none is tracked."""
        with self._lock:
            if (now := self._clock()) < self._next_overdue:
                return []
            self._next_overdue = now + UNTRACKED_S
            found = [tuple(it.items()) for it in tuple(self._in_flight.values())]  # a signal handler may add
            late = [it for it in found if it and now - it[0][1] >= UNTRACKED_S]
            return [it[0][0] for it in late if not any(attempt.tracked for attempt, _ in it)]

    def track(self, attempt: Attempt) -> bool:
        """Note that an attempt is tracked from now on; False: it was already, or is not in flight."""
        with self._lock:
            if attempt.tracked or attempt not in self._in_flight.get(attempt.place, ()):
                return False
            attempt.tracked = True
            return True

    # -- copies --------------------------------------------------------------------------------------

    def copy_stuck(self, stuck: Stuck) -> None:
        """Queue a copy of each record of which all that is in flight waits there, behind that broker.

        What gets none waits for its turn: each record that is sent adds to the budget. How many those are is
        reported once, when it runs out: counting them each time takes long.
        """
        with self._lock:
            short: Counter[int | None] = Counter()
            for place, broker in stuck.items():
                for record in tuple(self._uncopied.get(place, ())):
                    waits = all(it.taken and it.place in stuck for it in tuple(record.in_flight))
                    if record.finished or record.copy_is_due or not waits:
                        continue
                    if self._budget.allows():
                        self._queue_copy(record, broker)
                        for attempt in tuple(record.in_flight):
                            self._forget_place(record, attempt)
                    elif self.is_short:
                        return
                    else:
                        short[broker] += 1
            self.is_short = bool(short)
            for broker, count in short.items():
                self._note(broker, withheld=count)

    def stuck_keys(self, stuck: Stuck) -> dict[tuple[Where, bytes], list[RescuableRecord]]:
        """Return the keyed records that wait there, by place and key, as they were sent one after another."""
        found: defaultdict[tuple[Where, bytes], list[RescuableRecord]] = defaultdict(list)
        with self._lock:
            for place in stuck:
                for record in tuple(self._keyed.get(place, ())):
                    found[place, record.key or b""].append(record)
        return found

    def may_recall(self, records: Collection[RescuableRecord], broker: int | None) -> bool:
        """Return whether a key's records may be sent again; then they are to be."""
        with self._lock:
            are_open = all(len(r.tried) < ATTEMPTS and not (r.finished or r.purged) for r in records)
            if self._closed or not are_open or not self._budget.allows(len(records)):
                return False
            self._budget.take(len(records))
            self._note(broker, copies=len(records))
            return True

    def withdraw(self, attempts: Iterable[Attempt]) -> None:
        """End attempts of keyed records, which are sent again: what is reported of them does not count."""
        with self._lock:
            for attempt in attempts:
                if (record := attempt.rescuable) is not None:
                    self._forget_place(record, attempt)
                    record.in_flight.pop(attempt, None)

    def take(self, taken: list[RescuableRecord]) -> None:
        """Move the next record to be copied to a list: a result could be lost with a signal."""
        with self._lock:
            while self.queue and not taken:
                record = self.queue[0]
                del self.queue[0]  # no call from here on: no signal handler comes between
                if record.finished:
                    self.waiting -= record.copy_is_due
                    record.copy_is_due = False
                else:
                    taken += (record,)

    def put_back(self, taken: Iterable[RescuableRecord], *, interrupted: bool = False) -> None:
        """Take `take` back, unless it is in flight by now, or was `interrupted` and is queued again."""
        with self._lock:
            self.queue.extendleft(
                it for it in taken if it.copy_is_due and not (interrupted and it in self.queue)
            )

    def refused(self, record: RescuableRecord, error: BaseException) -> bool:
        """Note that the client did not take a copy; return whether the record has failed by that."""
        with self._lock:
            self._counts["withheld"] += 1
            self.waiting -= record.copy_is_due
            record.copy_is_due = False
            record.error = record.error or error
            if record.finished or record.in_flight:
                record.purged = False  # only the copy was
                return False
            record.finished = True
            return True

    def purge(self) -> None:
        """Let no copy that is queued now be sent, and no key that is stuck now be recalled."""
        with self._lock:
            for record in (*self.queue, *(it for it in tuple(self._open) if it.key is not None)):
                record.purged = True

    def close(self) -> None:
        """Queue no copy any more."""
        with self._lock:
            self._closed = True

    def take_news(self) -> dict[int | None, tuple[int, int]]:
        """Return what was queued and what was withheld since the last call, by broker."""
        if not self._news:
            return {}
        with self._lock:
            news, self._news = self._news, {}
            return news

    def _queue_copy(self, record: RescuableRecord, broker: int | None) -> None:
        if self._closed or len(record.tried) >= ATTEMPTS or not self._budget.allows():
            self._note(broker, withheld=1)
            self._counts["withheld"] += 1
            return
        self._note(broker, copies=1)
        self._budget.take()
        self.waiting += not record.copy_is_due  # no call from here on: no signal handler comes between
        record.copy_is_due = True
        self.queue.append(record)

    def _note(self, broker: int | None, copies: int = 0, withheld: int = 0) -> None:
        before = self._news.get(broker, (0, 0))
        self._news[broker] = (before[0] + copies, before[1] + withheld)

    def _leave(self, record: RescuableRecord, attempt: Attempt) -> None:
        """Forget where an attempt is."""
        _remove(self._in_flight, attempt.place, attempt)
        if all(other is attempt or other.place != attempt.place for other in tuple(record.in_flight)):
            self._forget_place(record, attempt)

    def _note_place(self, record: RescuableRecord, attempt: Attempt) -> None:
        self._in_flight.setdefault(attempt.place, {})[attempt] = self._clock()
        self._places_of(record).setdefault(attempt.place, {})[record] = None

    def _forget_place(self, record: RescuableRecord, attempt: Attempt) -> None:
        _remove(self._places_of(record), attempt.place, record)

    def _places_of(self, record: RescuableRecord) -> dict[Where, dict[RescuableRecord, None]]:
        return self._uncopied if record.key is None else self._keyed


def _remove(places: dict[Where, dict[Any, Any]], where: Where, it: object) -> None:
    there = places.get(where, {})
    there.pop(it, None)
    if not there:
        places.pop(where, None)
