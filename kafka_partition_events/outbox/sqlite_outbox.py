"""An outbox in an SQLite file: what was written outlives the process."""

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Final

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.outbox import sqlite_schema as sql
from kafka_partition_events.outbox.entry import Entry
from kafka_partition_events.outbox.sqlite_file import connect, explained, open_file
from kafka_partition_events.process import OwnProcess, forget_in_children, leak

_PAGE: Final = 500
"""How many entries `history` reads at a time."""
_CHUNK: Final = 20
"""How many entries are dropped before the size is checked again."""
_LAST_CHARACTER: Final = "\U0010ffff"

_log = get_logger(__name__)


@frozen(kw_only=True)
class ReaderStats:
    """How a reader is doing.

    Attributes:
        waiting: Entries that it is not done with.
        oldest: When the oldest of them was recorded, aware, UTC; None if none waits.
        dropped: Entries that had to go before it had read them, ever.
        dead: Entries that it gave up, ever.
    """

    waiting: int = 0
    oldest: datetime | None = None
    dropped: int = 0
    dead: int = 0


class SqliteOutbox:
    """Entries in order in a file, and a cursor for each reader; with small states. Thread-safe.

    Other processes may have it open at the same time.

    What `write` has returned for is there after the process was killed. After a loss of power the last
    writes may be missing, but whole writes, in reverse order (SQLite's WAL with ``synchronous=NORMAL``).

    Bounds are kept by `write` when it appends: the oldest entries go. The size is that of the pages in use:
    the file is at most one write larger, the ``-wal`` file beside it some 16 MiB.

    One connection, guarded by a lock: an append of 2,000 holds it for some 40 ms.

    Methods raise `OutboxError` when the file can't be read or written, or when it has been closed; the
    message names the file, the cause and the cure. `close` raises nothing. Methods that take a reader raise
    `ConfigurationError` if it never subscribed.

    For the process that opened it: SQLite's connections do not survive a fork, see "How To Corrupt An SQLite
    Database File", 2.6.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = 512 * 1024 * 1024,
        max_age_s: float = 7 * 86_400,
        clock: Clock | None = None,
    ) -> None:
        """Open an outbox, or make one.

        Args:
            path: The file, in a directory that exists; not on a network share, where SQLite's WAL fails.
            max_bytes: How large it may grow, small states included. The last write stays in any case; if that
                is too much, a warning is logged once.
            max_age_s: How long entries are kept, in seconds since they were recorded.
            clock: For ages; the system's by default.

        Raises:
            ConfigurationError: a bound is not above 0.
            OutboxError: the file can't be opened; the message names it, the cause and the cure.
        """
        if not (max_bytes > 0 and max_age_s > 0):
            raise ConfigurationError(
                f"max_bytes and max_age_s must be more than 0, not {max_bytes} and {max_age_s}"
            )
        self.path = Path(path).absolute()
        self._max_bytes = max_bytes
        self._max_age = timedelta(seconds=min(max_age_s, 3.2e9))  # 100 years are for ever
        self._clock = clock or Clock()
        self._lock, self._closed, self._too_small = threading.Lock(), False, False
        self._process = OwnProcess(type(self).__name__)
        self._db = open_file(self.path)
        forget_in_children(self, SqliteOutbox._forget)

    def _forget(self) -> None:
        """Leave the connection alone in a forked child: to close it might undo the parent's locks."""
        leak(self._db)

    # -- writing -------------------------------------------------------------------------------------

    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        cursors: Mapping[str, int] = MappingProxyType({}),
        values: Mapping[str, bytes | None] = MappingProxyType({}),
    ) -> None:
        """Make durable what belongs together: all of it, or nothing.

        Args:
            entries: To be appended; their ``seq`` is assigned. One whose id is there already is ignored, or
                comes as its `again`.
            cursors: Up to which entry each reader is done. A cursor never goes back.
            values: Small states by name, such as ``topic/orders``; None removes one.
        """
        with self._transaction() as db:
            for reader, cursor in cursors.items():
                _advance(db, reader, cursor)
            for name, value in values.items():
                if value is None:
                    db.execute("DELETE FROM small_states WHERE name = ?", (name,))
                else:
                    db.execute(sql.SET, (name, value))
            if entries:
                before = _last_seq(db)
                for entry in entries:
                    _append(db, entry)
                # Only who appends keeps the bounds: another process may know others.
                self._prune(db, before)

    def subscribe(self, reader: str) -> None:
        """Make a reader known: it begins with the next entry. One that is known already keeps its cursor."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO readers (name, cursor) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
                (reader, _last_seq(db)),
            )

    def unsubscribe(self, reader: str) -> None:
        """Forget a reader and how far it has read; its dead letters stay."""
        with self._transaction() as db:
            _reader(db, reader)
            db.execute("DELETE FROM readers WHERE name = ?", (reader,))

    def refuse(self, reader: str, entry: Entry) -> None:
        """Make an entry a dead letter, and put the reader's cursor behind it, both or none."""
        with self._transaction() as db:
            _advance(db, reader, entry.seq)
            db.execute("UPDATE readers SET dead = dead + 1 WHERE name = ?", (reader,))
            db.execute("UPDATE entries SET refused = 1 WHERE seq = ?", (entry.seq,))

    def _prune(self, db: sqlite3.Connection, before: int) -> None:
        too_old = sql.to_micros(self._clock.now() - self._max_age)
        while _drop(db, sql.AGED, too_old):
            pass
        # What this write brings stays: where small states fill the room, no reader would get anything.
        while (full := _size(db) > self._max_bytes) and _drop(db, sql.OLDEST, before):
            pass
        if full and not self._too_small:
            _log.warning("outbox_too_small", path=str(self.path), max_bytes=self._max_bytes)
        self._too_small |= full

    # -- reading -------------------------------------------------------------------------------------

    def readers(self) -> Sequence[str]:
        """Return the names of all readers, also of those that no process reads for now."""
        with self._connection() as db:
            return [name for (name,) in db.execute("SELECT name FROM readers ORDER BY name")]

    def read(self, reader: str, limit: int) -> Sequence[Entry]:
        """Return the next entries after a reader's cursor, in order."""
        with self._connection() as db:
            cursor, *_ = _reader(db, reader)
            rows = db.execute(sql.READ, (cursor, limit))
            return [sql.to_entry(row) for row in rows]

    def dead_letters(self) -> Sequence[Entry]:
        """Return the entries that some reader gave up, in order, as far as they are still there."""
        with self._connection() as db:
            return [sql.to_entry(row) for row in db.execute(sql.DEAD_LETTERS)]

    def values(self, prefix: str) -> Mapping[str, bytes]:
        """Return the small states whose names begin so."""
        with self._connection() as db:
            return dict(db.execute(sql.VALUES, (prefix, prefix + _LAST_CHARACTER)))

    def history(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        names: Sequence[str] | None = None,
        after_seq: int = 0,
    ) -> Iterator[Entry]:
        """Go through the journal in order, read or not; that blocks no writer.

        Args:
            since: Entries with ``at`` from this moment on, aware.
            until: Entries with ``at`` before this moment, aware.
            names: Entries whose name matches one of these globs.
            after_seq: Entries after this place.

        Reads a page at a time, over a connection of its own: a reader that stays in the middle of a query
        would keep the ``-wal`` file from being emptied.
        """
        where, parameters = sql.conditions(since, until, names)
        query = f"{sql.SELECT} WHERE {where} ORDER BY seq LIMIT ?"
        with self._connection():
            pass  # raises if it is closed
        try:
            with closing(connect(self.path)) as db:
                while rows := db.execute(query, (after_seq, *parameters, _PAGE)).fetchall():
                    yield from map(sql.to_entry, rows)
                    after_seq = rows[-1][0]
        except sqlite3.Error as error:
            raise explained(self.path, error) from error

    def stats(self, reader: str) -> ReaderStats:
        """Return how a reader is doing."""
        with self._connection() as db:
            cursor, dropped, dead = _reader(db, reader)
            [waiting] = db.execute(sql.COUNT_AFTER, (cursor,)).fetchone()
            row = db.execute(sql.RECORDED_AFTER, (cursor,)).fetchone()
            oldest = None if row is None else sql.to_moment(row[0])
            return ReaderStats(waiting=waiting, oldest=oldest, dropped=dropped, dead=dead)

    @property
    def last_seq(self) -> int:
        """The place of the entry that was recorded last, ever; 0 if there was none."""
        with self._connection() as db:
            return _last_seq(db)

    def close(self) -> None:
        """Close the file. Idempotent; does nothing in a forked child."""
        if self._process.is_another:
            return
        with self._lock:
            self._closed = True
            self._db.close()

    # -- the file ------------------------------------------------------------------------------------

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        self._process.check()
        with self._lock:
            if self._closed:
                raise OutboxError(f"{self.path}: the outbox has been closed: write and read before that")
            try:
                yield self._db
            except sqlite3.Error as error:
                raise explained(self.path, error) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as db:
            # The file has one writer from here on. So places are committed in ascending order, and no cursor
            # passes an entry that is not to be seen yet.
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # SQLite has rolled back by itself after some errors
                    db.execute("ROLLBACK")
                raise


def _reader(db: sqlite3.Connection, name: str) -> tuple[int, int, int]:
    row = db.execute("SELECT cursor, dropped, dead FROM readers WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise ConfigurationError(f"{name!r} is no reader of this outbox: subscribe it first")
    cursor, dropped, dead = row
    return cursor, dropped, dead


def _advance(db: sqlite3.Connection, reader: str, cursor: int) -> None:
    _reader(db, reader)
    db.execute("UPDATE readers SET cursor = max(cursor, ?) WHERE name = ?", (cursor, reader))


def _append(db: sqlite3.Connection, entry: Entry) -> None:
    """Append an entry whose id is new. If it is there at another moment, append `again`."""
    new, again = db.execute(sql.APPEND, sql.to_row(entry)).rowcount, entry.again
    if again and not new:
        at = sql.to_micros(entry.at)
        if db.execute("SELECT 1 FROM entries WHERE id = ? AND at <> ?", (entry.id, at)).fetchone():
            _append(db, again)


def _size(db: sqlite3.Connection) -> int:
    [size] = db.execute(sql.SIZE).fetchone()
    return int(size)


def _drop(db: sqlite3.Connection, query: str, *parameters: int) -> bool:
    """Drop some entries, count them for who has not read them, and return whether there were any."""
    victims = db.execute(query, (_CHUNK, *parameters)).fetchall()
    db.executemany("DELETE FROM entries WHERE seq = ?", victims)
    for name, cursor in db.execute("SELECT name, cursor FROM readers").fetchall():
        unread = sum(seq > cursor for (seq,) in victims)
        if unread:
            db.execute("UPDATE readers SET dropped = dropped + ? WHERE name = ?", (unread, name))
    return bool(victims)


def _last_seq(db: sqlite3.Connection) -> int:
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchone()
    return 0 if row is None else int(row[0])
