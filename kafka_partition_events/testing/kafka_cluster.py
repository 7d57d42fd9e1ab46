"""A real Apache Kafka on this machine, without Docker: brokers that a test can grow, kill and freeze."""

import base64
import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_partition_events.jvm import JAVA_MISSING, jar_store, java, kafka_classpath
from kafka_partition_events.testing.broker_probe import BrokerView, ProbeError
from kafka_partition_events.testing.errors import KitError
from kafka_partition_events.testing.kafka_node import (
    CONTROLLER_ID,
    KafkaNode,
    broker_settings,
    controller_settings,
)
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events.testing.processes import tail
from kafka_partition_events.testing.security import Security
from kafka_partition_events.testing.topic_admin import TopicAdmin

_POLL_S = 0.05
_START_LIMIT_S = 120.0
_STOP_LIMIT_S = 60.0
_CHANGE_LIMIT_S = 60.0


class KafkaCluster:
    """One controller (node 100) and `brokers` brokers (1..n, racks ``r1..rn``) on loopback ports.

    Starting three brokers takes about ten seconds and 900 MB. Use it as a context manager, or call
    `start` and `close`; a closed cluster can't be started again. Its processes end when it is closed and
    when this process ends, however that happens.

    Calls may come from any thread, but two calls about the same broker must not overlap. A process forked
    from the owner may use the addresses, and can neither close nor signal anything.

    Args:
        brokers: How many brokers.
        session_timeout_ms: How long the cluster goes on naming a killed or frozen broker as a leader. Kafka's
            default is 9000.
        broker_config: More settings for all nodes, or other values for ours (Kafka's names, values as text).
        auto_create_topics: Whether asking for an unknown topic creates it, as a Kafka left to its defaults
            does. Here the default is no, so that a test notices who creates topics.
        secured: Whether clients must use TLS and log in (SASL_SSL, SCRAM-SHA-512, one user); see `security`,
            `confluent_options` and `kafka_python_options`.
        progress: Called with one line of text before each step that takes long.

    Raises:
        JvmError: (`start`) the jars can not be had.
        KitError: (`start` and everything after it) Java or confluent-kafka is missing, or Kafka
            did not do what it was asked in time; the message quotes the end of a log and names the
            directory, which is then kept.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        session_timeout_ms: int = 3000,
        broker_config: Mapping[str, str] | None = None,
        auto_create_topics: bool = False,
        secured: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"brokers must be at least 1, not {brokers}")
        self.cluster_id = _new_cluster_id()
        self._size = brokers
        self._secured = secured
        self._overrides = {
            "broker.session.timeout.ms": str(session_timeout_ms),
            "auto.create.topics.enable": str(auto_create_topics).lower(),
            **(broker_config or {}),
        }
        self._progress = progress or (lambda _line: None)
        self._lock = threading.Lock()  # start and close
        self._owner = os.getpid()
        self._closed = False
        self._keep_logs = False
        self._directory: Path | None = None
        self._controller: KafkaNode | None = None
        self._brokers: dict[int, KafkaNode] = {}
        self._client_ports: dict[int, int] = {}
        self._security: Security | None = None
        self._admin = TopicAdmin(self._running_addresses)

    # --- life ---

    def start(self) -> Self:
        """Start all nodes and wait until every broker lists every other. Does nothing the second time."""
        with self._lock:
            if self._closed:
                raise KitError("this KafkaCluster has been closed; make a new one")
            if self._directory is None:
                try:
                    self._start()
                except BaseException as error:
                    self._keep_logs = isinstance(error, Exception)  # a Ctrl-C needs no logs
                    self._close()
                    raise
        return self

    def close(self) -> None:
        """Kill all nodes and remove their files; the logs stay if something had gone wrong. Idempotent."""
        if os.getpid() == self._owner:
            with self._lock:
                self._close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and self._directory is not None:
            self._keep_logs = True
            error.add_note(f"Kafka's logs: {self._directory / 'logs'}")
        self.close()

    # --- what there is ---

    @property
    def bootstrap_servers(self) -> str:
        """All brokers, running or not, as ``host:port,host:port``."""
        return ",".join(_address(self._client_ports[broker]) for broker in self._started())

    @property
    def security(self) -> Security | None:
        """User, password and CA of a secured cluster; None for a plain one."""
        self._started()
        return self._security

    @property
    def confluent_options(self) -> dict[str, str]:
        """What a confluent-kafka client needs to connect: addresses, and TLS and login if secured."""
        login = self.security.confluent_options if self.security else {}
        return {"bootstrap.servers": self.bootstrap_servers, **login}

    @property
    def kafka_python_options(self) -> dict[str, str]:
        """What a kafka-python client needs to connect: addresses, and TLS and login if secured."""
        login = self.security.kafka_python_options if self.security else {}
        return {"bootstrap_servers": self.bootstrap_servers, **login}

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of all brokers, ascending."""
        return tuple(self._started())

    @property
    def running(self) -> tuple[int, ...]:
        """The ids of the brokers whose process exists and is not frozen, ascending."""
        return tuple(broker for broker, node in self._started().items() if node.running)

    @property
    def pids(self) -> dict[int, int]:
        """Process id of every JVM that exists, by node id; the controller's is 100."""
        nodes = {CONTROLLER_ID: self._controller, **self._started()}
        return {number: node.pid for number, node in nodes.items() if node and node.pid is not None}

    def leaders(self, topic: str) -> dict[int, int | None]:
        """Return the leader of each partition as the first running broker sees it; None when offline."""
        if not self.running:
            raise KitError("no broker is running; restart one first")
        view = self._brokers[self.running[0]].ask()
        partitions = view.topics.get(topic, {})
        return {id_: p.leader if p.leader in view.brokers else None for id_, p in sorted(partitions.items())}

    # --- topics ---

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Create a topic and wait until every running broker names a leader for each partition.

        Returns in about 0.1 s. (A partition whose replicas are all down gets no leader to wait for.)

        Args:
            name: The topic.
            partitions: How many; may be left out when `assignment` is given.
            replication_factor: How many brokers hold each partition; not used with `assignment`.
            config: Topic settings (Kafka's names and values as text).
            assignment: Partition -> brokers that hold it, the first of which leads: ``{0: [1], 1: [2]}``.
        """
        self._admin.create(name, partitions, replication_factor, config or {}, assignment)
        count = len(assignment) if assignment is not None else partitions
        assert count is not None  # noqa: S101  # else `create` has raised
        self._await_everywhere(f"topic {name} with {count} partitions", lambda v: _is_served(v, name, count))

    def grow_topic(self, name: str, partitions: int) -> None:
        """Grow a topic to `partitions` in all, and wait as `create_topic` does."""
        self._admin.grow(name, partitions)
        self._await_everywhere(
            f"topic {name} grown to {partitions} partitions", lambda v: _is_served(v, name, partitions)
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until no running broker knows it."""
        self._admin.delete(name)
        self._await_everywhere(f"topic {name} deleted", lambda view: name not in view.topics)

    # --- trouble ---

    def kill(self, broker: int) -> None:
        """Kill a broker (SIGKILL). The cluster finds out when the broker's session times out."""
        self._node(broker).kill()

    def stop(self, broker: int) -> None:
        """Shut a broker down in good order (SIGTERM): it hands its leaderships over first. Waits for it."""
        self._node(broker).stop(_STOP_LIMIT_S)

    def restart(self, broker: int) -> None:
        """Start a broker again on its old port and data, killing it first if it runs.

        Returns when all running brokers list it again and it has caught up with every partition that it
        holds and that has a leader. That takes at least the rest of a killed broker's session.
        """
        node = self._node(broker)
        node.kill()
        node.start()
        self._await_everywhere(
            f"broker {broker} back in sync", lambda view: _is_in_sync(view, broker), limit=_START_LIMIT_S
        )

    def freeze(self, broker: int) -> None:
        """Suspend a broker (SIGSTOP): connections stay open, nothing answers. Returns at once."""
        self._node(broker).freeze()

    def thaw(self, broker: int) -> None:
        """Resume a frozen broker (SIGCONT). Returns at once; see `await_registered` to wait for it."""
        self._node(broker).thaw()

    def await_registered(self, *brokers: int) -> None:
        """Wait until every running broker lists exactly `brokers` (default: exactly the running ones)."""
        wanted = frozenset(brokers or self.running)
        self._await_everywhere(f"brokers {sorted(wanted)} listed", lambda view: view.brokers == wanted)

    # --- inside ---

    def _start(self) -> None:
        java_executable = java()
        if java_executable is None:
            raise KitError(f"{JAVA_MISSING}: install it, or let JAVA_HOME name it")
        if not jar_store().is_complete():
            self._progress("fetching Kafka's jars (about a minute, once)")
        classpath = kafka_classpath()
        self._directory = directory = Path(tempfile.mkdtemp(prefix="kafka-cluster-"))
        (directory / "logs").mkdir()
        controller_port, *ports = free_ports(2 * self._size + 1)
        if self._secured:
            self._progress("making certificates")
            self._security = Security.made_in(directory / "tls", java_executable)

        def node(name: str, port: int, settings: Mapping[str, str]) -> KafkaNode:
            return KafkaNode(
                name, port, settings, directory=directory, java=java_executable, classpath=classpath
            )

        # The controller gets them too: it is the one to apply the session timeout and topic defaults.
        settings = controller_settings(controller_port)
        self._controller = node("controller", controller_port, {**settings, **self._overrides})
        for broker in range(1, self._size + 1):
            port = self._client_ports[broker] = ports.pop()
            settings = broker_settings(broker, port, controller_port, brokers=self._size)
            if self._security is not None:
                port = ports.pop()  # the kit's own
                settings |= self._security.broker_settings(self._client_ports[broker], port)
            self._brokers[broker] = node(f"broker-{broker}", port, {**settings, **self._overrides})
        self._progress(f"formatting the storage of {self._size + 1} nodes")
        self._format()
        self._progress(f"starting 1 controller and {self._size} brokers")
        for each in self._nodes():
            each.start()
        everyone = frozenset(self._brokers)
        self._await_everywhere(
            "all brokers registered", lambda v: v.brokers == everyone, limit=_START_LIMIT_S
        )

    def _format(self) -> None:
        with contextlib.ExitStack() as cleanup:
            runs = []
            for node in self._nodes():  # side by side: each takes a JVM some seconds
                secured = self._security if node is self._controller else None
                run = node.begin_format(self.cluster_id, *(secured.format_options if secured else ()))
                cleanup.callback(run.kill)
                runs.append((node, run))
            for node, run in runs:
                try:
                    code = run.wait(_START_LIMIT_S)
                except subprocess.TimeoutExpired:
                    what = f"formatting the storage did not finish within {_START_LIMIT_S:.0f} s"
                    raise self._failure(what, node) from None
                if code != 0:
                    raise self._failure(f"formatting the storage failed (exit code {code})", node)

    def _close(self) -> None:
        self._closed = True
        for node in self._nodes():
            node.kill()
        if self._directory is not None:
            data = self._directory / "data" if self._keep_logs else self._directory
            shutil.rmtree(data, ignore_errors=True)

    def _nodes(self) -> list[KafkaNode]:
        return [*([self._controller] if self._controller else []), *self._brokers.values()]

    def _started(self) -> dict[int, KafkaNode]:
        if not self._brokers:
            raise KitError("this KafkaCluster has not been started: use it in a `with`, or call start()")
        return self._brokers

    def _node(self, broker: int) -> KafkaNode:
        if os.getpid() != self._owner:
            raise KitError("a fork of the process that started a KafkaCluster can't control it")
        nodes = self._started()
        if self._closed:
            raise KitError("this KafkaCluster has been closed; make a new one")
        if broker not in nodes:
            raise KitError(f"there is no broker {broker}, only {', '.join(map(str, nodes))}")
        return nodes[broker]

    def _running_addresses(self) -> str:
        addresses = [_address(self._brokers[broker].port) for broker in self.running]
        if not addresses:
            raise KitError("no broker is running; restart one first")
        return ",".join(addresses)

    def _await_everywhere(
        self, what: str, is_so: Callable[[BrokerView], bool], *, limit: float = _CHANGE_LIMIT_S
    ) -> None:
        """Wait until every broker that runs now sees what `is_so` asks for."""
        deadline = time.monotonic() + limit
        waiting = [self._brokers[broker] for broker in self.running]
        while waiting:
            for needed in [*waiting, self._controller]:
                if needed is not None and not needed.alive:
                    raise self._failure(f"{needed.name} died while waiting for: {what}", needed)
            node = waiting[0]
            with contextlib.suppress(ProbeError):
                if is_so(node.ask()):
                    waiting.pop(0)
                    continue
            if time.monotonic() > deadline:
                raise self._failure(f"not within {limit:.0f} s on {node.name}: {what}", node)
            time.sleep(_POLL_S)

    def _failure(self, what: str, node: KafkaNode) -> KitError:
        self._keep_logs = True
        return KitError(f"{what}; end of {node.log}:\n{tail(node.log)}")


def _new_cluster_id() -> str:
    """Return 22 characters as Kafka's own; the first is never the "-" that its command line stumbles on."""
    raw = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([raw[0] & 0x7F]) + raw[1:]).decode().rstrip("=")


def _address(port: int) -> str:
    return f"{HOST}:{port}"


def _is_served(view: BrokerView, topic: str, partitions: int) -> bool:
    found = view.topics.get(topic, {})
    return len(found) == partitions and all(
        # A partition whose replicas are all down (assigned to a killed broker) has no leader to wait for.
        p.leader >= 0 or not view.brokers.intersection(p.replicas)
        for p in found.values()
    )


def _is_in_sync(view: BrokerView, broker: int) -> bool:
    return broker in view.brokers and all(
        broker in p.isr or broker not in p.replicas or p.leader not in view.brokers
        for partitions in view.topics.values()
        for p in partitions.values()
    )
