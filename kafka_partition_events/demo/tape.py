"""What a producer's process saw of each record, in a file that another process reads meanwhile.

A row of three 64-bit integers for each record, in the order of sending, in the machine's byte order. Both
processes map the file into their memory, so a row is there as soon as it is written. Times are those of the
machine's monotonic clock in ns, which all its processes share.
"""

import bisect
import mmap
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

_COLUMNS: Final = 3
_ROW_BYTES: Final = 8 * _COLUMNS
_NEVER: Final = 1 << 62
UNANSWERED, DELIVERED, FAILED = 0, 1, 2


class Taped(NamedTuple):
    """One record.

    Attributes:
        sent_ns: When the producer was called; 0 as long as it was not.
        done_ns: When the callback came; 0 as long as it did not.
        outcome: `UNANSWERED`, `DELIVERED` or `FAILED`.
    """

    sent_ns: int
    done_ns: int
    outcome: int


class Tape:
    """The file, mapped. One process writes it, any number of them read it."""

    def __init__(self, path: Path) -> None:
        """Map a file that `create` has made."""
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._cells = memoryview(self._map).cast("q")

    @staticmethod
    def create(path: Path, records: int) -> None:
        """Make a file for so many records. What is never written takes no room on most file systems."""
        with path.open("wb") as file:
            file.truncate(records * _ROW_BYTES)

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unmap the file."""
        self._cells.release()
        self._map.close()

    def __len__(self) -> int:
        """Return how many records there is room for."""
        return len(self._cells) // _COLUMNS

    def send(self, number: int) -> None:
        """Note that a record is about to be sent."""
        self._cells[number * _COLUMNS] = time.monotonic_ns()

    def report(self, number: int, *, delivered: bool) -> None:
        """Note what the callback said; the outcome last, because it is what readers go by."""
        first = number * _COLUMNS
        self._cells[first + 1] = time.monotonic_ns()
        self._cells[first + 2] = DELIVERED if delivered else FAILED

    def first_since(self, moment_ns: int) -> int:
        """Return the number of the first record that was sent at a moment or later, or will be sent next."""
        return bisect.bisect_left(range(len(self)), moment_ns, key=self._sent_or_later)

    def _sent_or_later(self, number: int) -> int:
        return self._cells[number * _COLUMNS] or _NEVER

    def rows(self, first: int = 0) -> Iterator[Taped]:
        """Yield the rows of the records that have been sent, from one number on."""
        sent = self.first_since(_NEVER)
        return map(Taped._make, struct.iter_unpack("=3q", self._map[first * _ROW_BYTES : sent * _ROW_BYTES]))
