"""The file of an outbox: how it is opened, and what its errors mean."""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.outbox.sqlite_schema import APPLICATION_ID, SCHEMA, VERSION, DamageFoundError

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
    sqlite3.SQLITE_IOERR: "the disk refuses to read or write: check quotas, file size limits and health",
    sqlite3.SQLITE_BUSY: f"another process has held it for {_BUSY_TIMEOUT_S:g} s: see who has it open",
    sqlite3.SQLITE_READONLY: f"it can't be written: {_PERMISSION}",
    sqlite3.SQLITE_PERM: f"it can't be written: {_PERMISSION}",
    sqlite3.SQLITE_CANTOPEN: f"it can't be opened: {_PERMISSION}; both must be there, and no link to nowhere",
} | dict.fromkeys(
    _DAMAGED,
    "it is damaged, or no outbox at all: restore it from a copy, or stop who uses it and move it away with "
    "its -wal and -shm; then a new one is begun",
)
_UNKNOWN: Final = "SQLite failed: please report what is in brackets"


def open_file(path: Path) -> sqlite3.Connection:
    """Open an outbox, make it if there is none, and return a connection that any thread may use.

    Raises:
        OutboxError: it can't be opened; the message says why, and what to do.
    """
    try:
        # Two that switch a new file to WAL at once get SQLITE_BUSY, and SQLite does not wait there.
        with _locked(path, ".lock", fcntl.LOCK_EX):
            # SQLite would make it as the umask says, and the files beside it like it. One that is there is
            # not opened: to close it would end the locks of this process's other connections to it.
            with contextlib.suppress(FileExistsError):
                os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            return _open(path)
    except sqlite3.Error as error:
        raise explained(path, error) from error
    except OSError as error:
        raise cannot_open(path, error) from error


def held_alone(outbox: str) -> contextlib.AbstractContextManager[None]:
    """Keep two services from one outbox: everything would be journalled and delivered twice.

    Entering raises `ConfigurationError` if another process holds it, `OutboxError` if that can't be asked.
    """
    # The same file by another name is the same outbox.
    return _locked(Path(os.path.realpath(outbox)), ".observer", fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def _locked(path: Path, suffix: str, how: int) -> Iterator[None]:
    """Hold the lock of a file beside an outbox, which ends with the process at the latest.

    The file stays: if it were removed, two processes might lock two files of that name.
    """
    if os.path.isdir(path):  # noqa: PTH112 - raises nothing; what is wrong is met below
        raise OutboxError(f"{path} is a directory: give the path of a file in it")
    file = path.with_name(f"{path.name}{suffix}")
    with contextlib.ExitStack() as opened:
        try:
            lock = opened.enter_context(open(file, "a", opener=private))
            fcntl.flock(lock, how)
        except BlockingIOError:
            raise ConfigurationError(
                f"outbox.path: another kpe observe works on {path}; give each one an outbox of its own"
            ) from None
        except OSError as error:
            raise cannot_open(file, error) from error
        yield


def private(path: str, flags: int) -> int:
    """Open a file of ours for `open`: for no other user to read, and not through a symbolic link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to a file that has been opened before. Waits for locks for some seconds."""
    return sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)


def cannot_open(path: Path, error: OSError) -> OutboxError:
    """Return the error as one that names the file, the cause and the cure."""
    return OutboxError(
        f"{path}: can't open the outbox: {error.strerror or error}: give a file in a directory that exists, "
        f"no link to nowhere, and {_PERMISSION}"
    )


def explained(path: Path, error: sqlite3.Error) -> OutboxError:
    """Return the error as one that names the file, the cause and the cure."""
    said = " ".join(str(error).split())  # it quotes a damaged schema as it stands
    primary_code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return OutboxError(f"{path}: {_DIAGNOSES.get(primary_code, _UNKNOWN)} ({said:.300})")


def _open(path: Path) -> sqlite3.Connection:
    db = connect(path)
    try:
        _create_or_recognise(path, db)
        for setting in _SETTINGS:
            db.execute(setting)
    except BaseException:
        db.close()
        raise
    return db


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
    elif version != VERSION:
        age, cure = ("a newer", "upgrade this one") if version > VERSION else ("an older", "move it away")
        raise OutboxError(
            f"{path} was made by {age} kafka-partition-events (its format is {version}, this one knows "
            f"{VERSION}): {cure}, or give another path"
        )
