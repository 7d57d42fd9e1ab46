"""A listener that records events in a file, for `kafka_partition_events.testing.Recording` to replay."""

import contextlib
import json
import os
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.codec import Snapshot, encode_event, encode_snapshot
from kafka_partition_events.metadata.diff import apply
from kafka_partition_events.metadata.events import Event, Resync
from kafka_partition_events.metadata.listener import PartitionChangeListener

_BLOCK: Final = 65_536
_UNAPPLIED: Final = 1_000
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))

_log = get_logger(__name__)


@frozen(kw_only=True)
class RecorderStats:
    """What became of the events so far.

    Attributes:
        recorded: Events that the operating system has taken.
        lost: Events that it has not, or that could not be encoded.
        last_error: Why the last one was lost.
    """

    recorded: int = 0
    lost: int = 0
    last_error: str | None = None


class RecorderListener(PartitionChangeListener):
    """Appends every event to a file, one JSON object a line, each written at once.

    The first line of a file is the snapshot that its events follow on from, in the format of ``kpe
    snapshot``. Where they do not follow on, because the process was restarted or events were lost, a
    `Resync` tells the state. What is written survives the process, but not the loss of power.

    A disk that is full, or any other error, costs the events that it hits, no more: they are counted in
    `stats`, the error is logged once, and the file is opened anew for the next event.

    Registered with one poller at a time, with its state replayed (the default). A file belongs to one
    process, so a forked child's events are not recorded. `stats` may be read from any thread.
    """

    survives_fork = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        start: Cluster = EMPTY,
        max_bytes: int | None = None,
        backups: int = 3,
    ) -> None:
        """Make a listener. The file is opened, and made if there is none, when the first event comes.

        Args:
            path: The file; what it holds stays.
            start: What the first event follows on from, where the state is not replayed.
            max_bytes: How large the file's events may grow. Then ``path`` becomes ``path.1``, ``path.1``
                becomes ``path.2`` and so on, and a new file begins. None: without end.
            backups: How many of those older files are kept.

        Raises:
            ConfigurationError: ``max_bytes`` is less than 1, or ``backups`` negative.
        """
        if max_bytes is not None and max_bytes < 1:
            raise ConfigurationError(f"max_bytes must be at least 1, not {max_bytes}")
        if backups < 0:
            raise ConfigurationError(f"backups must not be negative, but is {backups}")
        self.path = Path(path)
        self._max_bytes = max_bytes
        self._backups = backups
        self._file: FileIO | None = None
        self._size = 0  # of the file; of a new one, without its snapshot
        self._cluster = start
        self._unapplied: list[Event] = []  # what came since
        # Each counter has one writer, the listener's worker.
        self._recorded = self._lost = 0
        self._missing = 0  # events lost since the last line of the file
        self._last_error: str | None = None

    @property
    def stats(self) -> RecorderStats:
        """What became of the events so far."""
        return RecorderStats(recorded=self._recorded, lost=self._lost, last_error=self._last_error)

    def on_event(self, event: Event) -> None:
        """Write the event. Never raises."""
        try:
            self._record(event)
        except Exception as error:  # noqa: BLE001 - a full disk, a directory that is gone, an event of the user's
            self._lose(event, error)
        self._unapplied.append(event)

    def close(self) -> None:
        """Close the file."""
        self._close_file()

    def _record(self, event: Event) -> None:
        if len(self._unapplied) >= _UNAPPLIED:
            self._catch_up()
        line = _line(encode_event(event))
        file = self._file or self._open(event)
        if self._max_bytes is not None and self._size and self._size + len(line) > self._max_bytes:
            self._rotate()
            file = self._open(event)
        _write(file, line)
        self._size += len(line)
        self._recorded += 1

    def _lose(self, event: Event, error: Exception) -> None:
        self._close_file()
        self._lost += 1
        self._missing += 1
        self._last_error = repr(error)
        if self._missing == 1:
            _log.error("event_not_recorded", path=str(self.path), kind=event.kind, error=repr(error))

    # -- the state that the next event follows on from -----------------------------------------------

    def _catch_up(self) -> Cluster:
        events, self._unapplied = self._unapplied, []  # whatever happens, they do not pile up
        self._cluster = apply(self._cluster, events)
        return self._cluster

    # -- the file ------------------------------------------------------------------------------------

    def _open(self, event: Event) -> FileIO:
        """Open the file, with everything in it that must stand before an event."""
        cluster = self._catch_up()
        file = FileIO(self.path, "a+")
        try:
            self._size = _end_of_last_line(file)
            if self._size == 0:
                file.truncate(0)
                _write(file, _line(encode_snapshot(Snapshot(cluster, event.wall_time))))
            else:
                file.truncate(self._size)
                _write(file, _line(encode_event(self._resync(cluster, event))))
        except BaseException:
            file.close()
            raise
        if self._missing:
            _log.warning("recording_resumed", path=str(self.path), lost=self._missing)
        self._file, self._missing = file, 0
        return file

    def _resync(self, cluster: Cluster, event: Event) -> Resync:
        return Resync(
            cluster_id=cluster.cluster_id,
            sequence=max(0, event.sequence - 1),
            generation=cluster.generation,
            wall_time=event.wall_time,
            cluster=cluster,
            dropped=self._missing,
        )

    def _rotate(self) -> None:
        self._close_file()
        for number in range(self._backups, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._numbered(number - 1).replace(self._numbered(number))
        if not self._backups:
            self.path.unlink()

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


def _line(document: Mapping[str, Any]) -> bytes:
    return _ENCODER.encode(document).encode() + b"\n"


def _write(file: FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:  # a disk takes what it has room for; the next attempt then tells the error
        left = left[file.write(left) :]


def _end_of_last_line(file: FileIO) -> int:
    """Return where the last whole line ends: what follows was torn off, by a crash or a full disk."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        if (found := file.read(end - start).rfind(b"\n")) >= 0:
            return start + found + 1
        end = start
    return 0
