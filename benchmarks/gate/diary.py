"""What a process has seen, written at once, so that a SIGKILL does not take it away.

An entry is 24 bytes, appended by one ``write`` to a file: the kernel keeps it, whatever becomes of the
process.
"""

import os
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_ENTRY = struct.Struct("<iiqq")


class Entry(NamedTuple):
    """A record that was acknowledged, or received: when, in ns since 1970, and where it is."""

    topic: int
    partition: int
    offset: int
    at_ns: int


class Diary:
    """Appends entries to a file. Thread-safe; several processes can write to one."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, topic: int, places: Iterable[tuple[int, int]]) -> None:
        """Note the partition and offset of records; `topic` is an index."""
        now = time.time_ns()
        os.write(self._file, b"".join(_ENTRY.pack(topic, *place, now) for place in places))


def read(path: Path, skip: int = 0) -> list[Entry]:
    """Return all entries but the first few; none if the process has not begun."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(skip * _ENTRY.size)
        data = file.read()
    whole = len(data) - len(data) % _ENTRY.size
    return [Entry(*fields) for fields in _ENTRY.iter_unpack(data[:whole])]
