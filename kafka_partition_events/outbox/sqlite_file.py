"""The file of an outbox: how it is opened, and what its errors mean."""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from kafka_partition_events.errors import OutboxError
from kafka_partition_events.log import get_logger
from kafka_partition_events.outbox.sqlite_schema import APPLICATION_ID, SCHEMA, VERSION, DamageFoundError

OnCorrupt = Literal["raise", "set_aside"]

_BUSY_TIMEOUT_S: Final = 5.0
_SETTINGS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA cache_size = -16384",  # KiB; ids are random, so their index is touched all over
    "PRAGMA wal_autocheckpoint = 4000",  # pages, 16 MiB: the same pages change again and again
    "PRAGMA journal_size_limit = 67108864",  # what a large write left behind is given back
)
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_PERMISSION: Final = "give this user the right to write the file and its directory"
_DIAGNOSES: Final = {
    sqlite3.SQLITE_FULL: "there is no room on the disk: make some, or set a smaller max_bytes",
    sqlite3.SQLITE_IOERR: "the disk refuses to read or write: look at quotas, file size limits and health",
    sqlite3.SQLITE_BUSY: f"another process has held it for {_BUSY_TIMEOUT_S:g} s: see who has it open",
    sqlite3.SQLITE_READONLY: f"it can't be written: {_PERMISSION}",
    sqlite3.SQLITE_PERM: f"it can't be written: {_PERMISSION}",
    sqlite3.SQLITE_CANTOPEN: f"it can't be opened: {_PERMISSION}, and see that neither is missing",
} | dict.fromkeys(
    _DAMAGED,
    'it is damaged, or no outbox at all: restore it from a copy, or open it with on_corrupt="set_aside" '
    "(`kpe outbox set-aside` does), which renames it and begins a new one",
)
_UNKNOWN: Final = "SQLite failed: please report what is in brackets"

_log = get_logger(__name__)


def open_file(path: Path, on_corrupt: OnCorrupt, now: datetime) -> sqlite3.Connection:
    """Open an outbox, make it if there is none, and return a connection that any thread may use.

    With ``"set_aside"`` the whole file is checked first, so damage that some earlier process met in the
    middle of the file is found as well.

    Raises:
        OutboxError: it can't be opened; the message says why, and what to do.
    """
    try:
        with _turn(path):
            # SQLite would make it as the umask says, and the files beside it like it.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            try:
                return _open(path, check=on_corrupt == "set_aside")
            except sqlite3.DatabaseError as error:
                if on_corrupt == "raise" or _primary_code(error) not in _DAMAGED:
                    raise
                _set_aside(path, now, str(error))
            return _open(path, check=False)
    except sqlite3.Error as error:
        raise explained(path, error) from error


def damage_of(path: Path) -> str | None:
    """Read a whole outbox and return what is wrong with the file, in SQLite's words; None if it is sound.

    Processes that are at work on it go on.

    Raises:
        OutboxError: it can't be read, or is another application's.
    """
    try:
        _open(path, check=True).close()
    except sqlite3.Error as error:
        if _primary_code(error) in _DAMAGED:
            return str(error)
        raise explained(path, error) from error
    return None


def set_aside(path: Path, now: datetime) -> Path | None:
    """Rename an outbox that is damaged to ``NAME.corrupt-TIME``; return that, None for one that is sound.

    Nobody else may have it open: they would go on with the renamed one.

    Raises:
        OutboxError: it can't be read or renamed, or is another application's.
    """
    with _turn(path):
        damage = damage_of(path)
        return None if damage is None else _set_aside(path, now, damage)


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Let one process at a time open or rename an outbox.

    Two that switch a new file to WAL at once get SQLITE_BUSY, and SQLite does not wait there; and one must
    not rename what another one has just begun. The lock file stays: if it were removed, two processes might
    lock two files of that name.

    Raises:
        OutboxError: a file can't be opened.
    """
    if path.is_dir():
        raise OutboxError(f"{path} is a directory: give the path of a file in it")
    try:
        with open(path.with_name(f"{path.name}.lock"), "a", opener=private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise OutboxError(
            f"{path}: can't open the outbox: {error.strerror or error}: give a file in a directory that "
            f"exists, and {_PERMISSION}"
        ) from error


def private(path: str, flags: int) -> int:
    """Open a file of ours for `open`: for nobody else to read, and not through a symbolic link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to a file that has been opened before. Waits for locks for some seconds."""
    return sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)


def explained(path: Path, error: sqlite3.Error) -> OutboxError:
    """Return the error as one that names the file, the cause and the cure."""
    said = " ".join(str(error).split())  # it quotes a damaged schema as it stands
    return OutboxError(f"{path}: {_DIAGNOSES.get(_primary_code(error), _UNKNOWN)} ({said:.300})")


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _open(path: Path, *, check: bool) -> sqlite3.Connection:
    db = connect(path)
    try:
        _create_or_recognise(path, db)
        for setting in _SETTINGS:
            db.execute(setting)
        if check:
            _check(db)
    except BaseException:
        db.close()
        raise
    return db


def _check(db: sqlite3.Connection) -> None:
    [finding] = db.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        raise DamageFoundError(finding)


def _create_or_recognise(path: Path, db: sqlite3.Connection) -> None:
    try:
        [application] = db.execute("PRAGMA application_id").fetchone()
        [version] = db.execute("PRAGMA user_version").fetchone()
        [tables] = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except UnicodeDecodeError as error:  # Python can't read the message, which quotes the schema
        raise DamageFoundError("the schema is no text") from error
    if not (application or version or tables):
        db.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA:
            db.execute(statement)
        db.execute("COMMIT")
    elif application != APPLICATION_ID:
        raise OutboxError(f"{path} is the SQLite file of another application: give another path")
    elif version > VERSION:
        raise OutboxError(
            f"{path} was made by a newer kafka-partition-events (its format is {version}, this one knows "
            f"{VERSION}): upgrade this one, or give another path"
        )


def _set_aside(path: Path, now: datetime, cause: str) -> Path:
    aside = path.with_name(f"{path.name}.corrupt-{now:%Y%m%dT%H%M%SZ}")
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.replace(aside.with_name(aside.name + suffix))
    path.replace(aside)
    _log.error("outbox_set_aside", path=str(path), aside=str(aside), cause=cause)
    return aside
