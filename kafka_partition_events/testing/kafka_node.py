"""One node of a test cluster: its settings, its storage, its JVM."""

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kafka_partition_events.testing.broker_probe import BrokerView, ask_broker
from kafka_partition_events.testing.errors import KitError
from kafka_partition_events.testing.ports import HOST
from kafka_partition_events.testing.processes import SupervisedProcess, tail

CONTROLLER_ID = 100

# A test broker lives for seconds and holds little: what counts is that it starts soon and stays small.
_JVM_OPTIONS = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


def controller_settings(port: int) -> dict[str, str]:
    """Return the settings of the only controller; a node of its own survives the loss of any broker."""
    return {
        "process.roles": "controller",
        "node.id": str(CONTROLLER_ID),
        "listeners": f"CONTROLLER://{HOST}:{port}",
        **_common_settings(port),
    }


def broker_settings(broker: int, port: int, controller_port: int, *, brokers: int) -> dict[str, str]:
    """Return the settings of one broker of `brokers`."""
    replicas = str(min(3, brokers))
    return {
        "process.roles": "broker",
        "node.id": str(broker),
        "broker.rack": f"r{broker}",
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "broker.heartbeat.interval.ms": "500",
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        # 128 MB by default, half of the heap; cleaning compacted topics of a test needs next to nothing.
        "log.cleaner.dedupe.buffer.size": "4194304",
        **_common_settings(controller_port),
    }


def _common_settings(controller_port: int) -> dict[str, str]:
    return {
        "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
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
        java: Path,
        classpath: str,
    ) -> None:
        self.name = name
        self.port = port
        self.log = directory / "logs" / f"{name}.log"
        self.frozen = False
        self._java = (java, *_JVM_OPTIONS, "-cp", classpath)
        self._process: SupervisedProcess | None = None
        self._properties = directory / f"{name}.properties"
        lines = {**settings, "log.dirs": str(directory / "data" / name)}
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

    def begin_format(self, cluster_id: str, *options: str) -> SupervisedProcess:
        """Start to format the storage, which takes some seconds."""
        tool = ("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", self._properties)
        return SupervisedProcess([*self._java, *tool, *options], log=self.log)

    def start(self) -> None:
        """Start the JVM; it serves some seconds later."""
        self.frozen = False
        self._process = SupervisedProcess([*self._java, "kafka.Kafka", self._properties], log=self.log)

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
