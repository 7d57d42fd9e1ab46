"""What readers of entries need, `Queue`, and what else those need who write and keep them, `Journal`."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from attrs import field, frozen

from kafka_partition_events.outbox.entry import Entry, Stream

MAX_DEAD_LETTERS = 10_000
"""How many dead letters an outbox keeps, the newest ones."""


@frozen(kw_only=True)
class Write:
    """What becomes durable together, or not at all.

    Attributes:
        entries: To be appended; their ``seq`` is assigned. An id that its stream has already is ignored.
        cursors: Up to which entry each reader is done. A cursor never goes back.
        values: Small states by name, such as ``topic/orders``; None removes one.
    """

    entries: Sequence[Entry] = ()
    cursors: Mapping[str, int] = field(factory=dict)
    values: Mapping[str, bytes | None] = field(factory=dict)


@frozen(kw_only=True)
class ReaderStats:
    """How a reader is doing.

    Attributes:
        cursor: The place of the last entry that it is done with.
        waiting: Entries after its cursor.
        oldest: When the oldest of them was recorded, aware, UTC; None if none waits.
        dropped: Entries that had to go before it had read them, ever.
        dead: Entries that went to the dead letters, ever.
    """

    cursor: int = 0
    waiting: int = 0
    oldest: datetime | None = None
    dropped: int = 0
    dead: int = 0


@frozen(kw_only=True)
class DeadLetter:
    """An entry that a reader gave up.

    Attributes:
        entry: The entry.
        reader: Who gave it up.
        reason: A short word for why, such as ``http_400`` or ``too_old``.
        at: When, aware, UTC.
    """

    entry: Entry
    reader: str
    reason: str
    at: datetime


class Queue(Protocol):
    """Entries in order, and a cursor for each reader, bounded. Thread-safe.

    When there is no room, churn goes first, oldest first, structural entries last. Entries that a reader
    has not seen yet and that go are counted as dropped, by reader.

    Methods raise `OutboxError` when the file can't be read or written, or when it has been closed; the
    message names the file, the cause and the cure. `wake` and `close` raise nothing. Methods that take a
    reader raise `ConfigurationError` if it never subscribed.
    """

    def write(self, write: Write, /) -> None:
        """Do all of it, or nothing."""

    def subscribe(self, reader: str, stream: Stream, *, from_start: bool = True) -> None:
        """Make a reader known; one that is known already keeps its cursor.

        Args:
            reader: Its name.
            stream: The lane it reads.
            from_start: Whether a new reader begins with the oldest entry; else with the next one.
        """

    def unsubscribe(self, reader: str) -> None:
        """Forget a reader and how far it has read; its dead letters stay. Close its deliverer first."""

    def readers(self) -> Mapping[str, Stream]:
        """Return the streams of all readers by their names, also of those that no process reads for now."""

    def read(self, reader: str, limit: int) -> Sequence[Entry]:
        """Return the next entries after a reader's cursor, in order."""

    def wait(self, reader: str, timeout: float) -> bool:
        """Wait until there is something to be read, at most ``timeout`` seconds; tell whether there is.

        Writes of other processes are noticed by the next `read` only.
        """

    def wake(self, reader: str) -> None:
        """Let the reader's `wait` return now; if it does not wait, its next one returns at once."""

    def refuse(self, reader: str, entry: Entry, reason: str) -> None:
        """Put an entry to the dead letters and the reader's cursor behind it, both or none."""

    def dead_letters(self, reader: str | None = None) -> Sequence[DeadLetter]:
        """Return the last dead letters of a reader, or of all, oldest first."""

    def stats(self, reader: str) -> ReaderStats:
        """Return how a reader is doing. Cheap enough for every scrape of metrics."""

    def close(self) -> None:
        """Release everything; every `wait` returns False. Idempotent."""


class Journal(Queue, Protocol):
    """A queue that outlives its process, and keeps what has been read for `history`; with small states."""

    def values(self, prefix: str) -> Mapping[str, bytes]:
        """Return the small states whose names begin so."""

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
        """Go through a stream in order, whoever has read it. Blocks no writer, however slowly it is consumed.

        Args:
            stream: The lane.
            since: Entries with ``at`` from this moment on, aware.
            until: Entries with ``at`` before this moment, aware.
            names: Entries whose name matches one of these globs.
            after_seq: Entries after this place.
            limit: How many at most; None: all.
        """

    def entry(self, id_: str) -> Entry | None:
        """Return an entry by its id; the journal's, if both streams have it."""
