"""What tests of `kpe observe` on a real cluster share: the service as a process, and a reader."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.ports import free_ports
from tests import sick_observer

LIMIT_S = 60.0
CLI = (sys.executable, "-m", "kafka_partition_events.cli")


class Observer:
    """A `kpe observe` process with a configuration and an outbox of its own."""

    def __init__(
        self,
        directory: Path,
        cluster: KafkaCluster,
        name: str,
        more: str = "",
        *,
        client: str = "kafka-python",
        topics: str = "orders-.*",
    ) -> None:
        (self.port,) = free_ports(1)
        self.config = directory / f"{name}.toml"
        self.log = directory / f"{name}.log"
        self.config.write_text(
            f'[kafka]\nname = "prod"\nclient = "{client}"\n'
            f'bootstrap_servers = "{cluster.bootstrap_servers}"\n'
            f'[observer]\nname = "{name}"\ninterval = "500ms"\ntopics = "{topics}"\n'
            f'[outbox]\npath = "{directory / name}.db"\n[http]\nlisten = "127.0.0.1:{self.port}"\n{more}'
        )
        self.illness = directory / f"{name}.illness"
        self.clock = directory / f"{name}.clock"
        """By how many seconds its clock is to be wrong, while the file is there; in a sick observer."""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, module: str = "kafka_partition_events.cli") -> "Observer":
        command = [sys.executable, "-m", module, "observe", "-v", "--config", str(self.config)]
        env = {**os.environ, sick_observer.FILE: str(self.illness), sick_observer.CLOCK: str(self.clock)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
        return self

    def fall_ill(self, illness: str) -> None:
        """Let a part of it fail; one that is ``"full"`` can't write any file, its log included."""
        if illness == "full":
            self._limit_files(0)
        elif illness == "frozen":
            self._signal(signal.SIGSTOP)
        else:
            self.illness.write_text(illness)

    def recover(self) -> None:
        """End its illness, but for a thread that has ended."""
        self.illness.unlink(missing_ok=True)
        self._limit_files(resource.RLIM_INFINITY)
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def _limit_files(self, size: int) -> None:
        assert self.process is not None
        _, most = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, most))

    def ready(self) -> "Observer":
        self.wait_until("ready", lambda: self.get("/readyz")[0] == 200)
        return self

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body; 0 while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of the series with these labels, None if there is none."""
        for line in self.get("/metrics")[1].splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(f'{k}="{v}"' in series for k, v in labels.items()):
                return float(value)
        return None

    def kpe(self, *arguments: str) -> str:
        """Run another command with the same configuration, and return what it writes."""
        command = [*CLI, *arguments, "--config", str(self.config)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def journal(self) -> list[dict[str, Any]]:
        """Return the events in its outbox."""
        return [json.loads(line) for line in self.kpe("events", "ls").splitlines()]

    def wait_until(self, what: str, is_so: Callable[[], bool], limit: float = LIMIT_S) -> float:
        """Wait, and return how long that took."""
        began = time.monotonic()
        while not is_so():
            waited = time.monotonic() - began
            assert waited < limit, f"not {what} within {limit} s:\n{self.log.read_text()[-4000:]}"
            assert self.process is None or self.process.poll() is None, self.log.read_text()[-4000:]
            time.sleep(0.1)
        return time.monotonic() - began

    def end(self, number: signal.Signals = signal.SIGTERM, *, at_thread: int = 0) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            threads = sorted(int(task.name) for task in Path(f"/proc/{self.process.pid}/task").iterdir())
            os.kill(threads[at_thread], number)
        return self.process.wait(LIMIT_S)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(LIMIT_S)


class Reader:
    """Reads what has come to a topic."""

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: int = 3) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "test", "log_level": 2}
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self.events: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """Return all that has come so far."""
        while (message := self._consumer.poll(0.3)) is not None:
            if message.error() is None:
                self.events.append(json.loads(message.value() or b""))
        return self.events

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.read() if event["type"].endswith(f".{name}.v1")]

    def close(self) -> None:
        self._consumer.close()


def kafka_sink(topic: str) -> str:
    return f'[[sinks]]\nname = "journal"\ntype = "kafka"\ntopic = "{topic}"\n'


def alertmanager(url: str, hold_down_s: int) -> str:
    """Return the settings of a sink of alerts, and of when they are posted."""
    return (
        f'[alerts]\nhold_down = "{hold_down_s}s"\nbroker_hold_down = "{hold_down_s}s"\n'
        f'[[sinks]]\nname = "am"\ntype = "alertmanager"\nurls = ["{url}"]\nrepeat_interval = "5s"\n'
    )


def hook(url: str) -> str:
    """Return the settings of a webhook that is told of brokers that leave and join."""
    return f'[[sinks]]\nname = "hook"\ntype = "webhook"\nurl = "{url}"\nevents = ["broker.*"]\n'


def growths(reader: Reader, topic: str) -> list[int]:
    """Return the sizes that a topic is told to have grown to, in order of arrival."""
    grown = (event["data"] for event in reader.named("partitions.added"))
    return [data["after"]["count"] for data in grown if data["topic"] == topic]
