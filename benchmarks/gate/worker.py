"""A process of a batch: it can be stopped, killed, and started again."""

import signal
import subprocess

from attrs import define, field

from benchmarks.errors import BenchError
from benchmarks.gate import diary
from benchmarks.gate.diary import Entry
from benchmarks.gate.task import Task
from kafka_partition_events.testing.processes import SupervisedProcess, tail

_STOP_LIMIT_S = 45.0


@define
class Worker:
    """Runs a task from the beginning on."""

    task: Task
    _process: SupervisedProcess = field(init=False)
    _over: bool = False
    _entries: list[tuple[str, Entry]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start it, once more if it was killed."""
        self._process = SupervisedProcess(self.task.command(), log=self.task.out.with_suffix(".log"))
        self._over = False

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        self._process.kill()
        self._over = True

    def check(self) -> None:
        """Raise a `BenchError` if it has ended by itself."""
        if not self._over and not self._process.alive:
            raise self._complaint("has ended")

    def stop(self) -> None:
        """Let it end in good order, unless it was killed."""
        if self._over:
            return
        self.check()
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise self._complaint("does not stop") from None
        if code != 0:
            raise self._complaint(f"has ended with code {code}")
        self._over = True

    def entries(self) -> list[tuple[str, Entry]]:
        """Return what it has noted so far, with the topics."""
        new = diary.read(self.task.out, skip=len(self._entries))
        self._entries += [(self.task.topics[entry.topic], entry) for entry in new]
        return self._entries

    def log_tail(self) -> str:
        """Return the end of what it has logged."""
        return tail(self._process.log)

    def _complaint(self, what: str) -> BenchError:
        error = BenchError(f"the {self.task.role} process {self.task.name} {what}")
        error.add_note(self.log_tail())
        return error
