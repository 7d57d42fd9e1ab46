"""What tests of outboxes share: entries, and a sink that follows a script."""

import queue
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from kafka_partition_events.outbox import Entry, SqliteOutbox
from kafka_partition_events.outbox.sqlite_file import connect
from kafka_partition_events.outbox.sqlite_schema import SIZE

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def entry(id_: str, *, at: datetime = NOW, recorded_at: datetime | None = None, **fields: Any) -> Entry:
    """Return an entry that was recorded when it happened, unless told otherwise."""
    known: dict[str, Any] = {"name": "partition.offline", "key": "c|t", "subject": "topic/t", "body": b"{}"}
    return Entry(id=id_, at=at, recorded_at=recorded_at or at, **{**known, **fields})


_Made = TypeVar("_Made", bound=SqliteOutbox)


def scratch_journal(**options: Any) -> SqliteOutbox:
    """Return a journal in a directory of its own; when nobody has it any more, it is closed and both go."""
    return scratch(SqliteOutbox, **options)


def scratch(kind: type[_Made], **options: Any) -> _Made:
    """Return a journal of some kind, as `scratch_journal` does."""
    directory = tempfile.mkdtemp(prefix="kpe-journal-")
    made = kind(Path(directory) / "outbox.db", **options)
    weakref.finalize(made, shutil.rmtree, directory, ignore_errors=True)
    weakref.finalize(made, made._db.close)  # since Python 3.13 SQLite warns if nobody does
    return made


def append(outbox: SqliteOutbox, *entries: Entry | str) -> None:
    """Append entries in one write; a text stands for an entry with that id."""
    outbox.write([entry(e) if isinstance(e, str) else e for e in entries])


def ids(entries: Iterable[Entry]) -> list[str]:
    """Return the ids in order."""
    return [e.id for e in entries]


def size_of(outbox: SqliteOutbox) -> int:
    """Return the bytes of the file's pages that are in use."""
    with closing(connect(outbox.path)) as db:
        [size] = db.execute(SIZE).fetchone()
        return int(size)


class ScriptedSink:
    """Answers each call as its script says, by raising or by taking all; then it takes all."""

    def __init__(self, *script: Exception | None, batch: int = 3) -> None:
        self.name = "scripted"
        self.batch = batch
        self.calls: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        self.closed = 0
        self._script = list(script)

    def deliver(self, entries: Sequence[Entry], /) -> None:
        self.calls.put(ids(entries))
        answer = self._script.pop(0) if self._script else None
        if answer is not None:
            raise answer

    def close(self) -> None:
        self.closed += 1

    def next_call(self) -> list[str]:
        """Return the ids of the next call, which may come from another thread soon."""
        return self.calls.get(timeout=10)
