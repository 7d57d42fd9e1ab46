"""An outbox in memory: for producer processes, which must not wait for a disk."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from fnmatch import fnmatchcase
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final

from attrs import define, field

from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.forking import reset_in_children
from kafka_partition_events.outbox.arrivals import Arrivals
from kafka_partition_events.outbox.entry import Entry, Stream
from kafka_partition_events.outbox.store import MAX_DEAD_LETTERS, DeadLetter, ReaderStats, Write

MAX_VALUES: Final = 10_000
"""How many small states are kept: those that were written last."""

_seq = attrgetter("seq")


@define
class _Reader:
    stream: Stream
    cursor: int
    dropped: int = 0
    dead: int = 0


@define
class _Lane:
    """What is kept of one stream: in order, and by id."""

    entries: list[Entry] = field(factory=list)
    by_id: dict[str, Entry] = field(factory=dict)

    def drop(self, victims: Sequence[Entry]) -> None:
        """Drop some of the entries, given in order. Many at once take little longer than one."""
        seqs = {victim.seq for victim in victims}
        first = bisect_left(self.entries, victims[0].seq, key=_seq)
        behind = bisect_right(self.entries, victims[-1].seq, key=_seq)
        self.entries[first:behind] = [e for e in self.entries[first:behind] if e.seq not in seqs]
        for victim in victims:
            del self.by_id[victim.id]


class MemoryOutbox:
    """An `Outbox` that ends with its process. Bounded by numbers; never waits for more than its lock.

    A forked child has one of its own: it is empty, and knows the readers. What waited is the parent's to
    deliver.
    """

    durable: Final = False

    def __init__(self, max_entries: int = 10_000, *, clock: Clock | None = None) -> None:
        """Make an empty outbox.

        Args:
            max_entries: How many entries of both streams are kept.
            clock: Times `wait` and dates dead letters; the system's by default.

        Raises:
            ConfigurationError: there would be no room for an entry.
        """
        if max_entries < 1:
            raise ConfigurationError(f"max_entries must be at least 1, not {max_entries}")
        self._max_entries = max_entries
        self._clock = clock or SystemClock()
        self._readers: dict[str, _Reader] = {}
        self._start_afresh()
        reset_in_children(self)

    def _start_afresh(self) -> None:
        self._arrivals = Arrivals(self._clock)
        self._lanes = {stream: _Lane() for stream in Stream}
        self._churn: deque[Entry] = deque()
        self._values: dict[str, bytes] = {}
        self._dead_letters: deque[DeadLetter] = deque(maxlen=MAX_DEAD_LETTERS)
        self._last_seq = 0
        self._duplicates = 0

    def reset_after_fork(self) -> None:
        """Begin anew in a forked child; one that is closed stays so."""
        closed = self._arrivals.closed
        self._start_afresh()
        self._arrivals.closed = closed
        self._readers = {name: _Reader(reader.stream, 0) for name, reader in self._readers.items()}

    def write(self, write: Write, /) -> None:
        """Do all of it, or nothing."""
        with self._locked():
            cursors = [(self._reader(name), cursor) for name, cursor in write.cursors.items()]
            for reader, cursor in cursors:
                reader.cursor = max(reader.cursor, cursor)
            for name, value in write.values.items():
                self._set(name, value)
            for entry in write.entries:
                self._append(entry)
            self._keep_bound()
            self._arrivals.condition.notify_all()

    def _set(self, name: str, value: bytes | None) -> None:
        self._values.pop(name, None)
        if value is not None:
            self._values[name] = value
        if len(self._values) > MAX_VALUES:
            del self._values[next(iter(self._values))]

    def _append(self, entry: Entry) -> None:
        lane = self._lanes[entry.stream]
        if entry.id in lane.by_id:
            self._duplicates += 1
            return
        self._last_seq += 1
        kept = entry.placed(self._last_seq)
        lane.entries.append(kept)
        lane.by_id[kept.id] = kept
        if kept.churn:
            self._churn.append(kept)

    def _keep_bound(self) -> None:
        excess = sum(len(lane.entries) for lane in self._lanes.values()) - self._max_entries
        if excess <= 0:
            return
        victims = self._oldest(excess)
        for stream, lane in self._lanes.items():
            if of_lane := [victim for victim in victims if victim.stream is stream]:
                lane.drop(of_lane)
        for reader in self._readers.values():
            reader.dropped += sum(v.stream is reader.stream and v.seq > reader.cursor for v in victims)

    def _oldest(self, count: int) -> list[Entry]:
        """Return what goes first, in order of places: churn, taken off its queue, and then the rest."""
        churn = [self._churn.popleft() for _ in range(min(count, len(self._churn)))]
        if len(churn) == count:
            return churn
        # All churn goes, so what is left is the rest.
        in_order = merge(*(lane.entries for lane in self._lanes.values()), key=_seq)
        rest = islice((entry for entry in in_order if not entry.churn), count - len(churn))
        return [*merge(churn, rest, key=_seq)]

    def subscribe(self, reader: str, stream: Stream, *, from_start: bool = True) -> None:
        """Make a reader known; one that is known already keeps its cursor."""
        with self._locked():
            if reader in self._readers:
                self._readers[reader].stream = stream
            else:
                self._readers[reader] = _Reader(stream, 0 if from_start else self._last_seq)

    def unsubscribe(self, reader: str) -> None:
        """Forget a reader and how far it has read; its dead letters stay."""
        with self._locked():
            self._reader(reader)
            del self._readers[reader]

    def readers(self) -> Mapping[str, Stream]:
        """Return the streams of all readers by their names."""
        with self._locked():
            return {name: reader.stream for name, reader in self._readers.items()}

    def read(self, reader: str, limit: int) -> Sequence[Entry]:
        """Return the next entries after a reader's cursor, in order."""
        with self._locked():
            entries, start = self._place(reader)
            return entries[start : start + limit]

    def wait(self, reader: str, timeout: float) -> bool:
        """Wait until there is something to be read, at most ``timeout`` seconds; tell whether there is."""

        def has_next() -> bool:
            entries, start = self._place(reader)
            return start < len(entries)

        return self._arrivals.wait(reader, timeout, has_next)

    def wake(self, reader: str) -> None:
        """Let the reader's `wait` return now; if it does not wait, its next one returns at once."""
        self._arrivals.wake(reader)

    def refuse(self, reader: str, entry: Entry, reason: str) -> None:
        """Put an entry to the dead letters and the reader's cursor behind it."""
        with self._locked():
            state = self._reader(reader)
            state.cursor = max(state.cursor, entry.seq)
            state.dead += 1
            letter = DeadLetter(entry=entry, reader=reader, reason=reason, at=self._clock.now())
            self._dead_letters.append(letter)

    def dead_letters(self, reader: str | None = None) -> Sequence[DeadLetter]:
        """Return the last dead letters of a reader, or of all, oldest first."""
        with self._locked():
            return [letter for letter in self._dead_letters if reader in {None, letter.reader}]

    def values(self, prefix: str) -> Mapping[str, bytes]:
        """Return the small states whose names begin so."""
        with self._locked():
            return {name: value for name, value in self._values.items() if name.startswith(prefix)}

    def history(
        self,
        stream: Stream,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        names: Sequence[str] | None = None,
        after_seq: int = 0,
        limit: int | None = None,
    ) -> Iterator[Entry]:
        """Go through a stream in order, as it was at the time of the call."""
        with self._locked():
            kept = self._lanes[stream].entries
            entries = kept[bisect_right(kept, after_seq, key=_seq) :]
        wanted = (
            entry
            for entry in entries
            if (since is None or entry.at >= since)
            and (until is None or entry.at < until)
            and _matches(entry.name, names)
        )
        return islice(wanted, limit)

    def entry(self, id_: str) -> Entry | None:
        """Return an entry by its id; the journal's, if both streams have it."""
        with self._locked():
            found = (self._lanes[stream].by_id.get(id_) for stream in Stream)
            return next((entry for entry in found if entry is not None), None)

    def stats(self, reader: str) -> ReaderStats:
        """Return how a reader is doing."""
        with self._locked():
            entries, start = self._place(reader)
            state = self._reader(reader)
            return ReaderStats(
                waiting=len(entries) - start,
                oldest=entries[start].recorded_at if start < len(entries) else None,
                dropped=state.dropped,
                dead=state.dead,
            )

    @property
    def size_bytes(self) -> int:
        """The bytes of the bodies that are kept."""
        with self._locked():
            return sum(len(entry.body) for lane in self._lanes.values() for entry in lane.entries)

    @property
    def duplicates(self) -> int:
        """How many entries were ignored because their stream had their id."""
        with self._locked():
            return self._duplicates

    def close(self) -> None:
        """Let every `wait` return False. Idempotent."""
        self._arrivals.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._arrivals.condition:
            if self._arrivals.closed:
                raise OutboxError("the outbox in memory has been closed: write and read before that")
            yield

    def _reader(self, name: str) -> _Reader:
        if name not in self._readers:
            raise ConfigurationError(f"{name!r} is no reader of this outbox: subscribe it first")
        return self._readers[name]

    def _place(self, reader: str) -> tuple[list[Entry], int]:
        state = self._reader(reader)
        entries = self._lanes[state.stream].entries
        return entries, bisect_right(entries, state.cursor, key=_seq)


def _matches(text: str, globs: Sequence[str] | None) -> bool:
    return not globs or any(fnmatchcase(text, glob) for glob in globs)
