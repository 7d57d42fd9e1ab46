"""One node of a test cluster: its settings, its storage, its JVM."""

import base64
import resource
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from attrs import Factory, evolve, field, frozen

from kafka_partition_events.testing.cluster.broker_probe import BrokerView, ask_broker
from kafka_partition_events.testing.errors import KitError
from kafka_partition_events.testing.ports import HOST
from kafka_partition_events.testing.processes import SupervisedProcess, tail

CONTROLLER_ID = 100  # of the first one

_SLOW_DISK = Path(__file__).with_name("slow_disk.c")
_COMPILE_LIMIT_S = 60

# A test broker lives for seconds and holds little: what counts is that it starts soon and stays small.
JVM_OPTIONS = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


@frozen
class Listener:
    """Where a broker listens, and which port it names to those who ask: its own, or that of a proxy."""

    name: str
    port: int
    protocol: str = field(default="PLAINTEXT", kw_only=True)
    advertised: int = field(default=Factory(lambda self: self.port, takes_self=True), kw_only=True)

    def behind(self, proxy_port: int) -> Self:
        """Return the same listener, reached through a proxy."""
        return evolve(self, advertised=proxy_port)


def controller_settings(controller: int, voters: Mapping[int, int]) -> dict[str, str]:
    """Return the settings of one controller; a node of its own survives the loss of any broker.

    Args:
        controller: Its id.
        voters: Controller -> port.
    """
    return {
        "process.roles": "controller",
        "node.id": str(controller),
        "listeners": f"CONTROLLER://{HOST}:{voters[controller]}",
        **_common_settings(voters),
    }


def broker_settings(
    broker: int,
    voters: Mapping[int, int],
    *,
    client: Listener,
    inside: Listener,
    between: Listener,
    more: Sequence[Listener] = (),
    brokers: int,
) -> dict[str, str]:
    """Return the settings of one broker of `brokers`.

    Args:
        broker: Its id.
        voters: Controller -> port.
        client: For clients.
        inside: For the kit, which no disturbance of a link must reach. May be the same.
        between: For the other brokers. May be the same.
        more: For clients, too.
        brokers: How many there are.
    """
    replicas = str(min(3, brokers))
    listeners = {each.name: each for each in (client, inside, between, *more)}.values()
    protocols = [f"{each.name}:{each.protocol}" for each in listeners]
    return {
        "process.roles": "broker",
        "node.id": str(broker),
        "broker.rack": f"r{broker}",
        "broker.heartbeat.interval.ms": "500",
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        # 128 MB by default, half of the heap; cleaning compacted topics of a test needs next to nothing.
        "log.cleaner.dedupe.buffer.size": "4194304",
        **_common_settings(voters),
        "listeners": ",".join(f"{each.name}://{HOST}:{each.port}" for each in listeners),
        "advertised.listeners": ",".join(f"{each.name}://{HOST}:{each.advertised}" for each in listeners),
        "inter.broker.listener.name": between.name,
        "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
    }


def _common_settings(voters: Mapping[int, int]) -> dict[str, str]:
    return {
        "controller.quorum.voters": ",".join(f"{voter}@{HOST}:{port}" for voter, port in voters.items()),
        "controller.listener.names": "CONTROLLER",
        # With the default, 500 ms, no node ever rests: a third of what idle clusters take of a processor.
        "metadata.max.idle.interval.ms": "5000",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "num.network.threads": "2",
        "num.io.threads": "2",
    }


class KafkaNode:
    """A controller or a broker that can be started again and again on the same port and storage.

    Not thread safe for two calls about the same node; different nodes are independent.
    """

    def __init__(
        self,
        name: str,
        port: int,
        settings: Mapping[str, str],
        *,
        directory: Path,
        java: Sequence[str | Path],
        options: Sequence[str] = (),
    ) -> None:
        """Write the node's settings; nothing is started.

        Args:
            name: For its files.
            port: Where it answers.
            settings: Kafka's.
            directory: Of the whole cluster.
            java: The beginning of its command lines: the JVM, options, the class path.
            options: More of the JVM's, for the node itself.
        """
        self.name = name
        self.port = port
        self.log = directory / "logs" / f"{name}.log"
        self.frozen = False
        self._slow_disk = directory / _SLOW_DISK.stem
        self._java, self._options = tuple(java), tuple(options)
        self._process: SupervisedProcess | None = None
        self._properties = directory / f"{name}.properties"
        self._data = directory / "data" / name
        self._id = settings["node.id"]
        lines = {**settings, "log.dirs": str(self._data)}
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    @property
    def alive(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self._process is not None and self._process.alive

    @property
    def running(self) -> bool:
        """Whether the process exists and is not frozen."""
        return self.alive and not self.frozen

    @property
    def pid(self) -> int | None:
        """Process id of the JVM, None when there is none."""
        return self._process.pid if self._process is not None and self._process.alive else None

    def format(self, cluster_id: str, limit: float) -> None:
        """Format the storage by Kafka's own tool, which takes a JVM some seconds.

        Raises:
            KitError: it refuses, or does not finish within `limit` seconds.
        """
        tool = ("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", self._properties)
        run = SupervisedProcess([*self._java, *tool], log=self.log)
        try:
            code = run.wait(limit)
        except subprocess.TimeoutExpired:
            raise KitError(f"formatting the storage did not finish within {limit:.0f} s") from None
        finally:
            run.kill()
        if code != 0:
            raise KitError(f"formatting the storage failed (exit code {code})")

    def format_like(self, formatted: "KafkaNode") -> None:
        """Format the storage as another node's was: the same but for two ids, and no JVM is needed."""
        shutil.copytree(formatted._data, self._data)  # noqa: SLF001 - another one of ours
        properties = self._data / "meta.properties"
        own = {"node.id": self._id, "directory.id": new_id()}
        lines = [line.partition("=") for line in properties.read_text().splitlines()]
        properties.write_text("".join(f"{key}{sign}{own.get(key, value)}\n" for key, sign, value in lines))

    def start(self) -> None:
        """Start the JVM; it serves some seconds later."""
        self.frozen = False
        env: list[str] = []
        if self._can_be_slowed:
            slowed = (f"LD_PRELOAD={_library(self._slow_disk)}", f"KPE_SLOW_DISK={self._slowness}")
            env = ["/usr/bin/env", *slowed]
        command: list[str | Path] = [*env, *self._java, *self._options, "kafka.Kafka", self._properties]
        self._process = SupervisedProcess(command, log=self.log)

    def ask(self) -> BrokerView:
        """Return what this broker knows about the cluster.

        Raises:
            ProbeError: it does not answer.
        """
        return ask_broker(HOST, self.port)

    def kill(self) -> None:
        """Kill the JVM (SIGKILL) and wait until it is gone. Nothing happens if there is none."""
        if self._process is not None:
            self._process.kill()
        self.frozen = False

    def stop(self, timeout: float) -> None:
        """Ask the JVM to shut down in good order (SIGTERM), and wait for it.

        Raises:
            KitError: it did not within `timeout` seconds.
        """
        if self._process is None:
            return
        self.thaw()  # a frozen process would get the signal only when it is thawed
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise KitError(
                f"{self.name} did not shut down within {timeout:.0f} s of SIGTERM; end of its log "
                f"{self.log}:\n{tail(self.log)}"
            ) from error

    def freeze(self) -> None:
        """Stop the JVM's clock, as it were (SIGSTOP): its sockets stay open, nothing answers."""
        if self._process is not None:
            self.frozen = True
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen JVM go on (SIGCONT)."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self.frozen = False

    def fill_disk(self) -> None:
        """Let no file be written any more, until the JVM is started again; its own log is one of them.

        Raises:
            KitError: this is no Linux, or the JVM doesn't run.
        """
        if sys.platform != "linux":
            raise KitError("only Linux can fill the disk of a running process (prlimit)")
        if self.pid is None:
            raise KitError(f"{self.name} does not run")
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (0, hard))

    def slow_disk(self, ms: float) -> None:
        """Let each write to a file take so much longer, until the next call.

        Raises:
            KitError: disks of this cluster can't be slowed down.
        """
        if not self._can_be_slowed:
            raise KitError("disks can't be slowed down; make the KafkaCluster with slow_disks=True")
        self._slowness.write_text(f"{round(ms)}\n")

    @property
    def _can_be_slowed(self) -> bool:
        return _library(self._slow_disk).exists()

    @property
    def _slowness(self) -> Path:
        return self._slow_disk / self.name


def new_id() -> str:
    """Return 22 characters as Kafka's own ; none begins with the "-" that its tools stumble on."""
    raw = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([raw[0] & 0x7F]) + raw[1:]).decode().rstrip("=")


def compile_slow_disk(directory: Path) -> None:
    """Compile what slows down the disks of this directory's nodes: user space can't slow down a device.

    Raises:
        KitError: this is no Linux, or there is no C compiler, or it refuses.
    """
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        raise KitError("slow disks need Linux and a C compiler, cc (Debian: apt-get install gcc libc6-dev)")
    (directory / _SLOW_DISK.stem).mkdir()
    library = _library(directory / _SLOW_DISK.stem)
    done = subprocess.run(  # noqa: S603 - fixed arguments
        [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", library, _SLOW_DISK, "-ldl"],
        capture_output=True,
        text=True,
        timeout=_COMPILE_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise KitError(f"{compiler} refuses {_SLOW_DISK.name}:\n{done.stderr}")


def _library(directory: Path) -> Path:
    return directory / "slow_disk.so"
