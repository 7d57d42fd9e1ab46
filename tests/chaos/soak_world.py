"""The cluster and our processes in a soak test: started, ended, measured; and the faults of Kafka."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from attrs import define, field
from confluent_kafka import Consumer, TopicPartition

from benchmarks.measure import cpu_seconds_of, memory_mib
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.errors import KitError
from kafka_partition_events.testing.processes import SupervisedProcess, tail
from tests.chaos.diary import Task
from tests.chaos.disturbing import DISTURB, Do, await_recovery, bring_back, down, out_of_sync, say
from tests.chaos.promises import Writer
from tests.chaos.steady import Counts, Fault, Sample
from tests.observe_kit import CLI, Observer

SAMPLE_S: Final = 10.0
_PARTITIONS: Final = 6
_START_LIMIT_S: Final = 60.0
_STOP_LIMIT_S: Final = 60.0
_DELAY_MS: Final = 150.0


@define
class Soak:
    """Everybody, and what was seen of them. One other thread samples, and writes `samples` and `errors`.

    Attributes:
        done: The faults, as they were carried out.
        trouble: What was not as it should be.
        scrapes: Whether each scrape of the observer's metrics was answered.
    """

    cluster: KafkaCluster
    directory: Path
    observer: Observer
    writers: Mapping[str, Writer]
    processes: dict[str, SupervisedProcess] = field(factory=dict)
    samples: dict[str, list[Sample]] = field(factory=dict)
    done: list[str] = field(factory=list)
    trouble: list[str] = field(factory=list)
    scrapes: list[bool] = field(factory=list)
    errors: list[Exception] = field(factory=list)

    def start(self, rate: float) -> None:
        """Start everybody, and wait until all writers have something acknowledged."""
        self._start("observer", *CLI, "observe", "--config", self.observer.config)
        for name in self.writers:
            self.cluster.create_topic(name, _PARTITIONS, 3)
            words = ["-m", "tests.chaos.soak_load", self._task(name).told(), str(rate)]
            self._start(name, sys.executable, *words)
        deadline = time.monotonic() + _START_LIMIT_S
        while not (
            all(counts.acked for counts in self.counts().values()) and self.observer.get("/readyz")[0] == 200
        ):
            self.check()
            if time.monotonic() > deadline:
                raise KitError("not everybody has started; see the logs")
            time.sleep(0.5)

    def _task(self, name: str) -> Task:
        servers = self.cluster.bootstrap_servers
        return Task(name=name, run=1, bootstrap=servers, directory=str(self.directory))

    def _start(self, name: str, *words: str | Path) -> None:
        self.processes[name] = SupervisedProcess([*words], log=self.directory / f"{name}.log")
        self.samples[name] = []

    def check(self) -> None:
        """Raise KitError if a process has ended by itself, or a thread of ours."""
        for name, process in self.processes.items():
            if not process.alive:
                raise KitError(f"{name} has ended by itself:\n{tail(process.log)}")
        if self.errors:
            raise KitError(f"the test itself: {self.errors[0]!r}")

    def stop(self) -> None:
        """Let all end in good order, writers first."""
        for name in (*self.writers, "observer"):
            self.processes[name].send_signal(signal.SIGTERM)
            limit = self.writers[name].finish_s if name in self.writers else 0.0
            try:
                code: int | None = self.processes[name].wait(limit + _STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                code = None
            if code != 0:
                self.trouble.append(f"{name} did not end in good order: exit code {code}")

    def kill(self) -> None:
        """Kill all that still run."""
        for process in self.processes.values():
            process.kill()

    # -- what is read --------------------------------------------------------------------------------

    def counts(self) -> dict[str, Counts]:
        """Return what each writer has counted."""
        found = {}
        for name in self.writers:
            diary = self._task(name).diary
            lines = diary.read_text().split("\n") if diary.exists() else []
            found[name] = Counts(**json.loads(lines[-2])) if len(lines) > 1 else Counts(0.0, 0, {}, {}, 0, 0)
        return found

    def written(self) -> dict[str, list[int]]:
        """Return how many records each partition has had; topics are new, so offsets begin at 0."""
        servers = self.cluster._running_addresses()  # brokers' own ports: through no link
        reader = Consumer({"bootstrap.servers": servers, "group.id": "soak", "log_level": 2})
        ends = {
            name: [reader.get_watermark_offsets(TopicPartition(name, p), 30.0)[1] for p in range(_PARTITIONS)]
            for name in self.writers
        }
        reader.close()
        return ends

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Sample all processes, and scrape the observer, for the time of a ``with``."""
        over = threading.Event()

        def work() -> None:
            while not over.wait(SAMPLE_S):
                try:
                    for name, process in self.processes.items():
                        self.samples[name].append(_sampled(process.pid))
                    self.scrapes.append(self.observer.get("/metrics")[0] == 200)
                except Exception as error:  # noqa: BLE001 - `check` raises it where it can be handled
                    self.errors.append(error)
                    return

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    # -- what is done --------------------------------------------------------------------------------

    def disturb(self, fault: Fault) -> None:
        """Carry a fault out, and wait until all is well again."""
        taken = ", ".join(f"{name} {taken[-1].mb:.0f} MB" for name, taken in self.samples.items() if taken)
        say(f"{fault}; {sum(counts.sent for counts in self.counts().values()):,} records sent; {taken}")
        try:
            begin, end = _fault(self.cluster, fault)
            begin()
            time.sleep(fault.lasts)
            self.done.append(str(fault))
            end()
        except KitError as error:  # it takes longer than the kit waits: what follows waits longer
            say(f"  {str(error).splitlines()[0]}")
        self.cluster.heal()
        await_recovery(self._wrong)

    def _wrong(self) -> str:
        """Set right what can be, and say what is still wrong."""
        try:
            bring_back(self.cluster)
            out = out_of_sync(self.cluster, self.writers)
        except (KitError, OSError) as error:
            return str(error).splitlines()[0]
        return f"out of sync: {out[:5]}" if out else ""


def _sampled(pid: int) -> Sample:
    process = Path(f"/proc/{pid}")
    links = []
    for link in (process / "fd").iterdir():
        try:
            links.append(str(link.readlink()))
        except OSError:  # closed meanwhile
            continue
    sockets = sum(link.startswith("socket:") for link in links)
    threads = len(list((process / "task").iterdir()))
    return Sample(time.time(), memory_mib(pid), threads, len(links) - sockets, sockets, cpu_seconds_of([pid]))


def _fault(cluster: KafkaCluster, fault: Fault) -> tuple[Do, Do]:
    if fault.kind in DISTURB:
        link = cluster.link(fault.broker)
        return partial(DISTURB[fault.kind], link, _DELAY_MS), link.heal
    node = fault.broker or cluster.active_controller or cluster.controllers[0]
    return down(cluster, "kill" if fault.kind == "fail_over" else fault.kind, node)
