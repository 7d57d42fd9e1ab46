# ruff: noqa: S608 - every statement here is a constant or made of constants
"""What is in the file of an outbox, and every statement that is more than a line. Pure.

Times are microseconds since 1970.
"""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kafka_partition_events.outbox.entry import Entry


class DamageFoundError(sqlite3.DatabaseError):
    """The file has what was never written; SQLite itself may see nothing wrong with it."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


APPLICATION_ID: Final = 0x6B70656F  # "kpeo": by it we know our SQLite files
VERSION: Final = 3
SCHEMA: Final = (
    # AUTOINCREMENT: were the place of a dropped entry given away again, cursors would be ahead of entries.
    """
    CREATE TABLE entries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, key TEXT NOT NULL, subject TEXT,
        at INTEGER NOT NULL, recorded_at INTEGER NOT NULL, refused INTEGER NOT NULL DEFAULT 0,
        body BLOB NOT NULL
    )
    """,
    "CREATE INDEX entries_refused ON entries (refused) WHERE refused = 1",
    """
    CREATE TABLE readers (
        name TEXT PRIMARY KEY, cursor INTEGER NOT NULL,
        dropped INTEGER NOT NULL DEFAULT 0, dead INTEGER NOT NULL DEFAULT 0
    )
    """,
    "CREATE TABLE small_states (name TEXT PRIMARY KEY, value BLOB NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)

_COLUMNS: Final = "id, name, key, subject, at, recorded_at, body"
APPEND: Final = f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
SELECT: Final = f"SELECT seq, {_COLUMNS} FROM entries"
READ: Final = f"{SELECT} WHERE seq > ? ORDER BY seq LIMIT ?"
COUNT_AFTER: Final = "SELECT count(*) FROM entries WHERE seq > ?"
RECORDED_AFTER: Final = "SELECT recorded_at FROM entries WHERE seq > ? ORDER BY seq LIMIT 1"
DEAD_LETTERS: Final = f"{SELECT} WHERE refused = 1 ORDER BY seq"
SET: Final = "INSERT INTO small_states VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
VALUES: Final = "SELECT name, CAST(value AS BLOB) FROM small_states WHERE name >= ? AND name < ?"
SIZE: Final = """
    SELECT (pages.page_count - free.freelist_count) * size.page_size
    FROM pragma_page_count AS pages, pragma_freelist_count AS free, pragma_page_size AS size
"""
OLDEST: Final = "SELECT seq FROM entries WHERE seq <= ?2 ORDER BY seq LIMIT ?1"
# Entries lie in the order in which they were recorded, more or less. Looking at some of the oldest, and not
# at the very oldest alone, one entry from a clock that was ahead does not keep those behind it. What a reader
# has yet to read is not dropped for its age, which a clock that is set may make up, but for want of room.
AGED: Final = """
    SELECT seq FROM (SELECT seq, recorded_at FROM entries ORDER BY seq LIMIT ?) AS old
    WHERE recorded_at < ? AND NOT EXISTS (SELECT 1 FROM readers WHERE cursor < old.seq)
"""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def conditions(
    since: datetime | None, until: datetime | None, names: Sequence[str] | None
) -> tuple[str, list[str | int]]:
    """Return the condition of `SqliteOutbox.history`, and its parameters but for the first."""
    terms: list[tuple[str, list[str | int]]] = [("seq > ?", [])]
    if since is not None:
        terms.append(("at >= ?", [to_micros(since)]))
    if until is not None:
        terms.append(("at < ?", [to_micros(until)]))
    if names:
        any_of_them = " OR ".join(["name GLOB ?"] * len(names))
        terms.append((f"({any_of_them})", [glob.replace("[!", "[^") for glob in names]))
    return " AND ".join(term for term, _ in terms), [value for _, values in terms for value in values]


def to_row(entry: Entry) -> tuple[Any, ...]:
    """Return an entry as a row of all columns but ``seq``."""
    return (
        entry.id,
        entry.name,
        entry.key,
        entry.subject,
        to_micros(entry.at),
        to_micros(entry.recorded_at),
        entry.body,
    )


def to_entry(row: Sequence[Any]) -> Entry:
    """Return the entry of a row that begins with ``seq``.

    Raises:
        DamageFoundError: it is none, for SQLite keeps any type in any column.
    """
    seq, id_, name, key, subject, at, recorded_at, body = row
    texts = (id_, name, key) if subject is None else (id_, name, key, subject)
    if not (all(isinstance(text, str) for text in texts) and isinstance(body, bytes)):
        raise DamageFoundError(f"row {seq} of a table of entries has values of other types")
    return Entry(
        id=id_,
        name=name,
        key=key,
        subject=subject,
        at=to_moment(at),
        recorded_at=to_moment(recorded_at),
        body=body,
        seq=seq,
    )


def to_micros(moment: datetime) -> int:
    """Return an aware moment as it is stored."""
    return (moment - _EPOCH) // _MICROSECOND


def to_moment(micros: int) -> datetime:
    """Return a stored moment as an aware UTC time.

    Raises:
        DamageFoundError: it is none.
    """
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except (OverflowError, TypeError) as error:
        raise DamageFoundError(f"{micros!r:.20} is no moment") from error
