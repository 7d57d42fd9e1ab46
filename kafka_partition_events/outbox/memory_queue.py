"""A queue in memory: for producer processes, which must not wait for a disk."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

from attrs import define

from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.forking import reset_in_children
from kafka_partition_events.outbox.arrivals import Arrivals
from kafka_partition_events.outbox.entry import Entry, Stream
from kafka_partition_events.outbox.store import MAX_DEAD_LETTERS, DeadLetter, ReaderStats, Write


@define
class _Reader:
    stream: Stream
    cursor: int
    dropped: int = 0
    dead: int = 0


class MemoryQueue:
    """A `Queue` that ends with its process. Bounded by a number; never waits for more than its lock.

    What all readers of its stream have read is forgotten, from the oldest entry on, and so is its id. Small
    states have no place here: a write that has some is refused.

    A forked child has one of its own: it is empty, and knows the readers. What waited is the parent's to
    deliver.
    """

    def __init__(self, max_entries: int = 10_000, *, clock: Clock | None = None) -> None:
        """Make an empty queue.

        Args:
            max_entries: How many entries are kept.
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
        self._entries: dict[int, Entry] = {}  # by place, in order
        self._ids: set[tuple[Stream, str]] = set()
        self._churn: deque[int] = deque()  # places, also of what is gone
        self._dead_letters: deque[DeadLetter] = deque(maxlen=MAX_DEAD_LETTERS)
        self._last_seq = 0

    def reset_after_fork(self) -> None:
        """Begin anew in a forked child; one that is closed stays so."""
        closed = self._arrivals.closed
        self._start_afresh()
        self._arrivals.closed = closed
        self._readers = {name: _Reader(reader.stream, 0) for name, reader in self._readers.items()}

    def write(self, write: Write, /) -> None:
        """Do all of it, or nothing.

        Raises:
            ConfigurationError: it has small states; or as `Queue` has it.
        """
        if write.values:
            raise ConfigurationError("a queue in memory has no small states")
        with self._locked():
            cursors = [(self._reader(name), cursor) for name, cursor in write.cursors.items()]
            for reader, cursor in cursors:
                reader.cursor = max(reader.cursor, cursor)
            for entry in write.entries:
                self._append(entry)
            self._forget()
            while len(self._entries) > self._max_entries:
                self._drop()
            self._arrivals.condition.notify_all()

    def _append(self, entry: Entry) -> None:
        if (entry.stream, entry.id) in self._ids:
            return
        self._last_seq += 1
        self._ids.add((entry.stream, entry.id))
        self._entries[self._last_seq] = entry.placed(self._last_seq)
        if entry.churn:
            self._churn.append(self._last_seq)

    def _forget(self) -> None:
        """Let go of what has been read, from the oldest entry on."""
        done = {stream: self._done(stream) for stream in Stream}
        while self._entries and (first := next(iter(self._entries))) <= done[self._entries[first].stream]:
            self._remove(first)

    def _done(self, stream: Stream) -> int:
        return min((r.cursor for r in self._readers.values() if r.stream is stream), default=0)

    def _drop(self) -> None:
        """Let go of what is worth least: churn, the oldest first, and then the oldest of the rest."""
        while self._churn and self._churn[0] not in self._entries:
            self._churn.popleft()
        gone = self._remove(self._churn.popleft() if self._churn else next(iter(self._entries)))
        for reader in self._readers.values():
            reader.dropped += gone.stream is reader.stream and gone.seq > reader.cursor

    def _remove(self, seq: int) -> Entry:
        gone = self._entries.pop(seq)
        self._ids.remove((gone.stream, gone.id))
        return gone

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
            return [*islice(self._waiting(reader), limit)]

    def wait(self, reader: str, timeout: float) -> bool:
        """Wait until there is something to be read, at most ``timeout`` seconds; tell whether there is."""
        return self._arrivals.wait(reader, timeout, lambda: any(True for _ in self._waiting(reader)))

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
            self._forget()

    def dead_letters(self, reader: str | None = None) -> Sequence[DeadLetter]:
        """Return the last dead letters of a reader, or of all, oldest first."""
        with self._locked():
            return [letter for letter in self._dead_letters if reader in {None, letter.reader}]

    def stats(self, reader: str) -> ReaderStats:
        """Return how a reader is doing."""
        with self._locked():
            state, waiting = self._reader(reader), [*self._waiting(reader)]
            oldest = waiting[0].recorded_at if waiting else None
            return ReaderStats(
                cursor=state.cursor,
                waiting=len(waiting),
                oldest=oldest,
                dropped=state.dropped,
                dead=state.dead,
            )

    def close(self) -> None:
        """Let every `wait` return False. Idempotent."""
        self._arrivals.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._arrivals.condition:
            if self._arrivals.closed:
                raise OutboxError("the queue in memory has been closed: write and read before that")
            yield

    def _reader(self, name: str) -> _Reader:
        if name not in self._readers:
            raise ConfigurationError(f"{name!r} is no reader of this outbox: subscribe it first")
        return self._readers[name]

    def _waiting(self, reader: str) -> Iterator[Entry]:
        state = self._reader(reader)
        entries = self._entries.values()
        return (entry for entry in entries if entry.stream is state.stream and entry.seq > state.cursor)
