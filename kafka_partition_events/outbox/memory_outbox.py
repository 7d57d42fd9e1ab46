"""An outbox in memory: for producer processes, which must not wait for a disk."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice
from operator import attrgetter
from typing import Final

from attrs import define, evolve

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


class MemoryOutbox:
    """An `Outbox` that ends with its process. Bounded by numbers; never waits for more than its lock.

    A forked child has one of its own: it is empty, and knows the readers. What waited is the parent's to
    deliver.
    """

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
        self._lanes: dict[Stream, list[Entry]] = {stream: [] for stream in Stream}
        self._ids: dict[tuple[Stream, str], Entry] = {}
        self._churn: deque[Entry] = deque()
        self._values: dict[str, bytes] = {}
        self._dead_letters: deque[DeadLetter] = deque(maxlen=MAX_DEAD_LETTERS)
        self._last_seq = 0
        self._size_bytes = 0
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
            while len(self._ids) > self._max_entries:
                self._drop_one()
            self._arrivals.condition.notify_all()

    def _set(self, name: str, value: bytes | None) -> None:
        self._values.pop(name, None)
        if value is not None:
            self._values[name] = value
        if len(self._values) > MAX_VALUES:
            del self._values[next(iter(self._values))]

    def _append(self, entry: Entry) -> None:
        if (entry.stream, entry.id) in self._ids:
            self._duplicates += 1
            return
        self._last_seq += 1
        entry = evolve(entry, seq=self._last_seq)
        self._lanes[entry.stream].append(entry)
        self._ids[entry.stream, entry.id] = entry
        self._size_bytes += len(entry.body)
        if entry.churn:
            self._churn.append(entry)

    def _drop_one(self) -> None:
        heads = (lane[0] for lane in self._lanes.values() if lane)
        victim = self._churn.popleft() if self._churn else min(heads, key=_seq)
        lane = self._lanes[victim.stream]
        del lane[bisect_left(lane, victim.seq, key=_seq)]
        del self._ids[victim.stream, victim.id]
        self._size_bytes -= len(victim.body)
        for reader in self._readers.values():
            reader.dropped += reader.stream is victim.stream and reader.cursor < victim.seq

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
            lane, start = self._place(reader)
            return lane[start : start + limit]

    def wait(self, reader: str, timeout: float) -> bool:
        """Wait until there is something to be read, at most ``timeout`` seconds; tell whether there is."""

        def has_next() -> bool:
            lane, start = self._place(reader)
            return start < len(lane)

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
        subjects: Sequence[str] | None = None,
        after_seq: int = 0,
        limit: int | None = None,
    ) -> Iterator[Entry]:
        """Go through a stream in order, as it was at the time of the call."""
        with self._locked():
            lane = self._lanes[stream]
            entries = lane[bisect_right(lane, after_seq, key=_seq) :]
        wanted = (
            entry
            for entry in entries
            if (since is None or entry.at >= since)
            and (until is None or entry.at < until)
            and _matches(entry.name, names)
            and _matches(entry.subject, subjects)
        )
        return islice(wanted, limit)

    def entry(self, id_: str) -> Entry | None:
        """Return an entry by its id; the journal's, if both streams have it."""
        with self._locked():
            found = (self._ids.get((stream, id_)) for stream in Stream)
            return next((entry for entry in found if entry is not None), None)

    def stats(self, reader: str) -> ReaderStats:
        """Return how a reader is doing."""
        with self._locked():
            lane, start = self._place(reader)
            state = self._reader(reader)
            return ReaderStats(
                waiting=len(lane) - start,
                oldest=lane[start].recorded_at if start < len(lane) else None,
                dropped=state.dropped,
                dead=state.dead,
            )

    @property
    def size_bytes(self) -> int:
        """The bytes of the bodies that are kept."""
        with self._locked():
            return self._size_bytes

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
        lane = self._lanes[state.stream]
        return lane, bisect_right(lane, state.cursor, key=_seq)


def _matches(text: str | None, globs: Sequence[str] | None) -> bool:
    return not globs or (text is not None and any(fnmatchcase(text, glob) for glob in globs))
