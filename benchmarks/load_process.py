"""A process that sends one load: it says when it is ready, and is told when to begin."""

import selectors
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from benchmarks.errors import BenchError

_READY_LIMIT_S = 60.0
_LAST_WORDS = 1_500


class LoadProcess:
    """One loading process."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors

    def await_ready(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - asked for
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            said = selector.select(_READY_LIMIT_S)
        if not said or self._process.stdout.readline() != b"ready\n":
            raise self._complaint("did not get ready")

    def begin(self, moment_ns: int) -> None:
        assert self._process.stdin is not None  # noqa: S101 - asked for
        self._process.stdin.write(b"%d\n" % moment_ns)
        self._process.stdin.flush()

    def await_end(self, limit: float) -> None:
        try:
            code = self._process.wait(limit)
        except subprocess.TimeoutExpired:
            raise self._complaint(f"did not end within {limit:.0f} s of the load") from None
        if code != 0:
            raise self._complaint(f"ended with code {code}")

    def _complaint(self, what: str) -> BenchError:
        """Return an error of one line; the traceback is a note, for the terminal and not for the results."""
        self._errors.seek(0)
        lines = self._errors.read()[-_LAST_WORDS:].decode(errors="replace").strip().splitlines()
        error = BenchError(f"the loading process {what}" + (f": {lines[-1]}" if lines else ""))
        error.add_note("\n".join(lines))
        return error


@contextmanager
def loading(command: list[str], out: Path) -> Iterator[LoadProcess]:
    """Start a loading process; its complaints go to a file beside `out`."""
    with (
        out.with_suffix(".stderr").open("w+b") as errors,
        subprocess.Popen(  # noqa: S603 - our own command
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            yield LoadProcess(process, errors)
        finally:
            process.kill()  # it has ended, or it is stuck
