"""Start commands that cannot outlive this process, not even by its ``kill -9``."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from kafka_partition_events.testing.errors import KitError

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_TAIL_BYTES = 16_384


class SupervisedProcess:
    """One command under a supervisor (see `supervisor.py`), with its output appended to a log file.

    Starting returns within some tens of milliseconds, as soon as the command has a process id. Thread
    safe, except that `wait` must not run in two threads at once.

    Raises:
        KitError: the command could not be started.
    """

    def __init__(self, argv: Sequence[str | Path], *, log: Path) -> None:
        self.log = log
        self._owner = os.getpid()
        # -I -S: no site-packages, no environment, no surprises. A session of its own keeps the Ctrl-C of
        # a terminal for the owner, who closes the cluster in good order.
        command = [sys.executable, "-I", "-S", _SUPERVISOR, str(self._owner), log, *argv]
        with log.open("ab") as errors:
            self._supervisor = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                start_new_session=True,
            )
        self._signalling = threading.Lock()
        pid = self._pipe(self._supervisor.stdout).readline()
        if not pid:
            self.kill()
            raise KitError(f"could not start {argv[0]}; end of {log}:\n{tail(log)}")
        self.pid = int(pid)

    @property
    def alive(self) -> bool:
        """Whether the command runs, frozen or not."""
        return self._supervisor.poll() is None

    def send_signal(self, number: signal.Signals) -> None:
        """Send the command a signal; nothing happens if it has ended. Not one to a recycled pid, ever.

        Returns when it was sent; when the command is suspended, if it is SIGSTOP.
        """
        stdin, stdout = self._pipe(self._supervisor.stdin), self._pipe(self._supervisor.stdout)
        with self._signalling, contextlib.suppress(BrokenPipeError, ValueError):  # `wait` has closed the pipe
            stdin.write(b"%d\n" % number)
            stdout.readline()

    def wait(self, timeout: float) -> int:
        """Wait for the command to end, at most `timeout` seconds, and return its exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        code = self._supervisor.wait(timeout)
        self._close()
        return code

    def kill(self, timeout: float = 60.0) -> None:
        """Kill the command and wait until it is gone. Does nothing in a fork of the owner."""
        if os.getpid() != self._owner:
            return
        self._pipe(self._supervisor.stdin).close()  # end-of-file: the supervisor kills and reaps it
        self._supervisor.wait(timeout)
        self._close()

    def _close(self) -> None:
        self._pipe(self._supervisor.stdin).close()
        self._pipe(self._supervisor.stdout).close()

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None  # noqa: S101  # both were asked for
        return pipe


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log file, for an error message; says so if there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        text = ""
    return "\n".join(text.splitlines()[-lines:]) or "(empty)"
