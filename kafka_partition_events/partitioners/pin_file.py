"""Pins in a file: for the instances of one machine, or of one shared volume that has locks."""

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_partition_events.errors import PinStoreError
from kafka_partition_events.metadata.json_text import json_in
from kafka_partition_events.partitioners.pins import History, decode_history, encode_history

_FORMAT = "kpe.pins"
_VERSION = 1


class FilePinStore:
    """Keeps pins in a JSON file. Safe for threads and processes; nothing is open between two calls.

    Writers take turns by a lock on ``PATH.lock``, so compare-and-set is exact among all processes that see
    the same file and the same locks: one machine, or a volume with POSIX locks. A new file is written beside
    the old one, synced and put in its place: whoever reads, and whoever crashes, sees the old one or the new
    one. A file that is not there is an empty store; one that holds anything else is never overwritten.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Make a store; the file is made with its first pin.

        Args:
            path: The file, in a directory that exists.
        """
        self.path = Path(path)
        self.unreadable: Mapping[str, str] = {}

    def read(self) -> Mapping[str, History]:
        """Return the history of every topic, but of those in `unreadable`.

        Raises:
            PinStoreError: the file can't be read, or holds something else than pins.
        """
        histories: dict[str, History] = {}
        unreadable: dict[str, str] = {}
        for topic, entry in self._entries().items():
            try:
                histories[topic] = decode_history(entry)
            except ValueError as error:
                unreadable[topic] = str(self._foreign(f"topic {topic!r:.260}: {error}"))
        self.unreadable = unreadable
        return histories

    def _entries(self) -> dict[str, Any]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise PinStoreError(f"{self.path}: can't read the pins: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise self._foreign("it is not text") from error
        try:
            return _decode(json_in(text))
        except ValueError as error:
            raise self._foreign(str(error)) from error

    def replace(self, topic: str, before: History | None, after: History) -> bool:
        """Write a topic's history if it still is what it was before; tell whether it was.

        Waits for other processes that are writing.

        Raises:
            PinStoreError: the file can't be read or written, or holds something else than pins.
        """
        with self._locked():
            entries, histories = self._entries(), self.read()
            if histories.get(topic) != before or topic in self.unreadable:
                return False
            self._write({**entries, topic: encode_history(after)})
            return True

    def close(self) -> None:
        """Do nothing: no file is open."""

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            # The lock file stays: if it were removed, two processes might lock two files of that name.
            with self._beside("lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            where = error.filename or self.path
            raise PinStoreError(f"{where}: can't write the pins: {error.strerror or error}") from error

    def _write(self, entries: Mapping[str, Any]) -> None:
        draft = self._beside("new")
        with draft.open("w", encoding="utf-8") as file:
            self._keep_owner_and_mode(file.fileno())
            topics = dict(sorted(entries.items()))
            json.dump({"format": _FORMAT, "version": _VERSION, "topics": topics}, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _keep_owner_and_mode(self, draft: int) -> None:
        """Shut nobody out who could read the file before somebody else, root maybe, wrote it."""
        with contextlib.suppress(FileNotFoundError, PermissionError):
            before = self.path.stat()
            os.fchmod(draft, stat.S_IMODE(before.st_mode) | stat.S_IWUSR)
            os.fchown(draft, before.st_uid, before.st_gid)

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{suffix}")

    def _foreign(self, cause: str) -> PinStoreError:
        return PinStoreError(
            f"{self.path} holds no pins that can be read here: {cause}. It is left as it is: restore it from "
            "a copy, or give another path. Without its pins, keys go by the present number of partitions"
        )


def _decode(document: object) -> dict[str, Any]:
    match document:
        case {"format": str(kind), "version": version, "topics": dict(topics)} if kind == _FORMAT:
            if version != _VERSION:
                raise ValueError(f"version {version!r:.20} of {_FORMAT} is not known here")
            return {str(topic): entry for topic, entry in topics.items()}
    raise ValueError(f"not a document of the format {_FORMAT}")
