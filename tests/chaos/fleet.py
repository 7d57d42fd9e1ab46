"""The processes of a campaign beside Kafka's: writers, consumers, observers, a tracker."""

import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

from attrs import define, field

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events.testing.processes import SupervisedProcess
from tests.chaos.diary import Task
from tests.chaos.promises import WRITERS
from tests.observe_kit import CLI, Observer, alertmanager, kafka_sink

CONSUMERS: Final = ("consumer-c", "consumer-k")
OBSERVERS: Final = ("observer-1", "observer-2")
EVENTS: Final = "chaos-events"
HOLD_S: Final = 5


@define
class Fleet:
    """All processes by name: each can be killed, frozen, and started again. Thread-safe for different names.

    Attributes:
        manager_url: Where observers post alerts.
        frozen: When each was suspended.
        started: When each was started last.
    """

    cluster: KafkaCluster
    directory: Path
    manager_url: str
    frozen: dict[str, list[tuple[float, float]]] = field(factory=dict)
    started: dict[str, float] = field(factory=dict)
    _suspended: dict[str, float] = field(factory=dict)
    _processes: dict[str, SupervisedProcess] = field(factory=dict)
    _runs: Counter[str] = field(factory=Counter)
    _configs: dict[str, Path] = field(factory=dict)
    _tracker_port: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        (self._tracker_port,) = free_ports(1)
        more = kafka_sink(EVENTS) + alertmanager(self.manager_url, HOLD_S)
        for name in OBSERVERS:
            topics = "orders|volatile|kept|gated|loose|single"
            self._configs[name] = Observer(self.directory, self.cluster, name, more, topics=topics).config

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap_servers

    def start(self, *names: str) -> None:
        """Start some, the next life of each."""
        for name in names:
            self._runs[name] += 1
            log = self.directory / f"{name}.log"
            self.started[name] = time.time()
            self._processes[name] = SupervisedProcess(self._command(name), log=log)

    def _command(self, name: str) -> list[str | Path]:
        if name in OBSERVERS:
            return [*CLI, "observe", "--config", self._configs[name]]
        if name == "tracker":
            listen = f"{HOST}:{self._tracker_port}"
            return [*CLI, "tracker", "-b", self.bootstrap, "--listen", listen]
        role = "load" if name in WRITERS else "consume"
        task = Task(name=name, run=self._runs[name], bootstrap=self.bootstrap, directory=str(self.directory))
        return [sys.executable, "-m", f"tests.chaos.{role}", task.told()]

    def kill(self, name: str) -> None:
        self._processes[name].kill()

    def suspend(self, name: str) -> None:
        self._suspended[name] = time.time()
        self._processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGCONT)
        self.frozen.setdefault(name, []).append((self._suspended.pop(name), time.time()))

    def dead(self) -> list[str]:
        """Return who has ended by itself, of all that were started."""
        return [name for name, process in self._processes.items() if not process.alive]

    def stop(self, *names: str, limit: float) -> list[str]:
        """Tell some to end in good order; return who did not in time, or not with exit code 0."""
        for name in names:
            self._processes[name].send_signal(signal.SIGTERM)
        deadline, failed = time.monotonic() + limit, []
        for name in names:
            try:
                code = self._processes[name].wait(max(0.1, deadline - time.monotonic()))
            except Exception:  # noqa: BLE001 - of subprocess, or of a process that has ended before
                code = -1
                self._processes[name].kill()
            if code != 0:
                failed.append(name)
        return failed

    def close(self) -> None:
        """Kill all."""
        for process in self._processes.values():
            process.kill()
