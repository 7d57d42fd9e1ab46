"""The producers' processes, seen from the demo: start, orders, what they say, end."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.demo.load import FINISH_LIMIT_S
from kafka_partition_events.demo.plan import Part
from kafka_partition_events.demo.tape import Tape

_READY_LIMIT_S = 60.0
_END_LIMIT_S = FINISH_LIMIT_S + 15.0

Said = Callable[[Part, Mapping[str, Any]], None]
"""Called with what a process says, in a thread of its own for each process."""


class Load:
    """One producer's process.

    Attributes:
        part: Which producer.
        tape: What it sees, as it sees it.
        sent: How many records it has sent; known when it has ended.
        causes: Why records failed, by the client's name of the error; known when it has ended.
    """

    def __init__(
        self, part: Part, process: "subprocess.Popen[str]", tape: Tape, errors: IO[bytes], said: Said
    ) -> None:
        self.part = part
        self.tape = tape
        self.sent = 0
        self.causes: dict[str, int] = {}
        self._process = process
        self._errors = errors
        self._said = said
        self._ready, self._done = threading.Event(), threading.Event()
        threading.Thread(target=self._listen, name=f"kpe-demo-{part.key}", daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - asked for
        for line in self._process.stdout:
            message = json.loads(line)
            match message["kind"]:
                case "ready":
                    self._ready.set()
                case "done":
                    self.sent, self.causes = message["sent"], message["causes"]
                    self._done.set()
                case _:
                    self._said(self.part, message)
        self._ready.set()
        self._done.set()

    def order(self, line: str) -> None:
        """Give an order; see `load`.

        Raises:
            CliError: the process has ended.
        """
        assert self._process.stdin is not None  # noqa: S101 - asked for
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except OSError:
            with suppress(OSError):  # what could not be written must not be tried again at the end
                self._process.stdin.close()
            raise self._complaint("has ended") from None

    def await_ready(self) -> None:
        """Wait until the producer is connected.

        Raises:
            CliError: it has ended, or takes too long.
        """
        if not self._ready.wait(_READY_LIMIT_S) or self._process.poll() is not None:
            raise self._complaint("did not get ready")

    def await_end(self) -> None:
        """Wait until all that is outstanding has been waited for, and the process has ended.

        Raises:
            CliError: it failed, or takes too long.
        """
        if not self._done.wait(_END_LIMIT_S) or not self.sent:
            raise self._complaint("did not end well")

    def check(self) -> None:
        """Check that it goes on.

        Raises:
            CliError: it has ended.
        """
        if self._process.poll() is not None:
            raise self._complaint("has ended")

    def _complaint(self, what: str) -> CliError:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return CliError(f"the process of {self.part.title} {what}: {one_line(lines[-1] if lines else '')}")


@contextmanager
def open_loads(
    cast: Sequence[Part], bootstrap_servers: str, records: int, scratch: Path, said: Said
) -> Iterator[list[Load]]:
    """Start a process for each part; whatever happens, none is left running."""
    with ExitStack() as opened:
        loads = []
        for part in cast:
            file = scratch / f"{part.key}.tape"
            Tape.create(file, records)
            words = [part.key, bootstrap_servers, str(file)]
            command = [sys.executable, "-m", "kafka_partition_events.demo.load", *words]
            errors = opened.enter_context((scratch / f"{part.key}.stderr").open("w+b"))
            process = opened.enter_context(
                subprocess.Popen(  # noqa: S603 - our own command
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
                )
            )
            opened.callback(process.kill)  # it has ended, or it is stuck
            tape = opened.enter_context(Tape(file))
            loads.append(Load(part, process, tape, errors, said))
        yield loads
