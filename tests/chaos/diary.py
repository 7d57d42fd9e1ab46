"""What an application of the campaign sees, a line for each, so that a SIGKILL loses nothing."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from attrs import asdict, frozen


@frozen(kw_only=True)
class Task:
    """What one process is to do.

    Attributes:
        name: Who it is, over restarts.
        run: Which of its lives this is, from 1 on; its records are called ``NAME.RUN/NUMBER``.
        bootstrap: Kafka.
        directory: Where diaries and what it keeps are.
    """

    name: str
    run: int
    bootstrap: str
    directory: str

    @property
    def diary(self) -> Path:
        return Path(self.directory) / f"{self.name}.{self.run}.diary"

    def told(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(**json.loads(text))


class Diary:
    """Appends lines. Thread-safe: one `write` each, to a file that is opened for appending."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    def note(self, kind: str, *what: Any) -> None:
        """Note that something is so, now."""
        line = json.dumps([kind, round(time.time(), 3), *what], separators=(",", ":"))
        os.write(self._file, line.encode() + b"\n")

    def intends(self, number: int, topic: str, key: str | None) -> None:
        """Note before a record is handed to the client."""
        self.note("i", number, topic, key)

    def acked(self, number: int, partition: int | None, offset: int | None) -> None:
        """Note that the client says that it is written, and where."""
        self.note("a", number, partition, offset)

    def failed(self, number: int, error: object) -> None:
        """Note that the client says that it isn't."""
        self.note("f", number, str(error)[:80])


def read(path: Path) -> Iterator[list[Any]]:
    """Yield what was noted, but for a line that a kill has cut."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def named(value: bytes | None) -> str:
    """Return the id of a record."""
    return (value or b"?").split(None, 1)[0].decode(errors="replace")


def stopped_by_sigterm() -> threading.Event:
    """Return what is set when the process shall stop."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    return stop
