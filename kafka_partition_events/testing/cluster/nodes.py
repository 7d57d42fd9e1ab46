"""The processes of a test cluster: their ports and settings, how they start, and what is awaited of them."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import frozen

from kafka_partition_events.jvm import JAVA_MISSING, jar_store, java, kafka_classpath, kafka_lock
from kafka_partition_events.testing.cluster.broker_probe import BrokerView, ProbeError
from kafka_partition_events.testing.cluster.class_archive import ClassArchive
from kafka_partition_events.testing.cluster.kafka_node import (
    CONTROLLER_ID,
    JVM_OPTIONS,
    KafkaNode,
    Listener,
    broker_settings,
    compile_slow_disk,
    controller_settings,
    new_id,
)
from kafka_partition_events.testing.cluster.raw_requests import leads_quorum
from kafka_partition_events.testing.errors import KitError
from kafka_partition_events.testing.network.links import LinkMode, Links
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events.testing.processes import tail

START_LIMIT_S = 120.0
CHANGE_LIMIT_S = 60.0
_POLL_S = 0.05


@frozen(kw_only=True)
class ClusterPlan:
    """What a cluster is to be: how many nodes, and what is special about them."""

    brokers: int
    controllers: int
    version: str | None
    listeners: Mapping[str, str]
    links: LinkMode | None
    slow_disks: bool
    overrides: Mapping[str, str]


class Nodes:
    """All nodes of one cluster. Thread safe for calls about different nodes, except `start` and `close`.

    Attributes:
        brokers: By id, ascending; empty until `start` has made them.
        controllers: The same.
        client_ports: Where clients connect to each broker: its own port, or that of its link.
        more_ports: The same of further listeners, by their names.
        directory: Where everything is kept; None before `start`.
        links: The links, once started, if the plan has them.
        keep_logs: Whether `close` leaves the logs.
    """

    def __init__(self, plan: ClusterPlan, progress: Callable[[str], None]) -> None:
        self.cluster_id = new_id()
        self.brokers: dict[int, KafkaNode] = {}
        self.controllers: dict[int, KafkaNode] = {}
        self.client_ports: dict[int, int] = {}
        self.more_ports: dict[str, dict[int, int]] = {name: {} for name in plan.listeners}
        self.directory: Path | None = None
        self.links: Links | None = None
        self.keep_logs = False
        self._plan = plan
        self._progress = progress
        self._classes: ClassArchive | None = None

    @property
    def all(self) -> dict[int, KafkaNode]:
        """Controllers and brokers by id."""
        return {**self.controllers, **self.brokers}

    @property
    def running(self) -> tuple[int, ...]:
        """The ids of the brokers whose process exists and is not frozen, ascending."""
        return tuple(broker for broker, node in self.brokers.items() if node.running)

    def start(self) -> None:
        """Make all nodes, start them and wait until every broker lists every other.

        Raises:
            JvmError: the jars can not be had.
            KitError: Java is missing, or a node did not start.
        """
        java_executable = java()
        if java_executable is None:
            raise KitError(f"{JAVA_MISSING}: install it, or let JAVA_HOME name it")
        if not jar_store(kafka_lock(self._plan.version)).is_complete():
            self._progress("fetching Kafka's jars (half a minute, once)")
        classpath = kafka_classpath(self._plan.version)
        self.directory = directory = Path(tempfile.mkdtemp(prefix="kafka-cluster-"))
        (directory / "logs").mkdir()
        if self._plan.slow_disks:
            compile_slow_disk(directory)
        self._classes = classes = ClassArchive.of(
            java_executable, jar_store(kafka_lock(self._plan.version)).directory, directory
        )
        words: list[str | Path] = [java_executable, *JVM_OPTIONS, *classes.options, "-cp", classpath]

        def node(name: str, port: int, settings: Mapping[str, str]) -> KafkaNode:
            # Controllers get the overrides too: they apply the session timeout and topic defaults.
            settings = {**settings, **self._plan.overrides}
            writes = classes.draft is not None and not self.controllers  # they are made first
            options = classes.options_of_writer if writes else ()
            return KafkaNode(name, port, settings, directory=directory, java=words, options=options)

        self._make(node)
        self._progress(f"formatting the storage of {len(self.all)} nodes")
        self._format()
        self._progress(f"starting {len(self.controllers)} controller(s) and {len(self.brokers)} brokers")
        for each in self.all.values():
            each.start()
        everyone = frozenset(self.brokers)
        self.await_everywhere("all brokers registered", lambda v: v.brokers == everyone, limit=START_LIMIT_S)

    def close(self) -> None:
        """Kill all nodes and remove their files; the logs stay if something had gone wrong. Idempotent."""
        for node in self.brokers.values():
            node.kill()
        self._keep_classes()
        for node in self.controllers.values():
            node.kill()
        if self.links is not None:
            self.links.close()
        if self.directory is not None:
            data = self.directory / "data" if self.keep_logs else self.directory
            shutil.rmtree(data, ignore_errors=True)

    def _keep_classes(self) -> None:
        """Let the controller that is to write the classes end in good order: some seconds, once."""
        if self._classes is None or self._classes.draft is None:
            return
        with contextlib.suppress(KitError):
            next(iter(self.controllers.values())).stop(CHANGE_LIMIT_S)
        self._classes.keep()

    def await_everywhere(
        self, what: str, is_so: Callable[[BrokerView], bool], *, limit: float = CHANGE_LIMIT_S
    ) -> None:
        """Wait until every broker that runs now sees what `is_so` asks for.

        Raises:
            KitError: not within `limit` seconds, or one of them, or every controller, has died.
        """
        deadline = time.monotonic() + limit
        waiting = [self.brokers[broker] for broker in self.running]
        while waiting:
            node = waiting[0]
            dead = [each for each in waiting if not each.alive]
            if not any(controller.alive for controller in self.controllers.values()):
                dead += self.controllers.values()
            if dead:
                raise self.failure(f"{dead[0].name} died while waiting for: {what}", dead[0])
            with contextlib.suppress(ProbeError):
                if is_so(node.ask()):
                    waiting.pop(0)
                    continue
            if time.monotonic() > deadline:
                raise self.failure(f"not within {limit:.0f} s on {node.name}: {what}", node)
            time.sleep(_POLL_S)

    @property
    def active_controller(self) -> int | None:
        """The controller that leads the others now; None while none does."""
        for number, node in self.controllers.items():
            with contextlib.suppress(ProbeError):
                if node.running and leads_quorum(HOST, node.port):
                    return number
        return None

    def await_controller(self, answering: int | None = None, *, other_than: int | None = None) -> int:
        """Wait until a controller is active, and return which.

        Args:
            answering: One that has to answer, too, active or not.
            other_than: One that is not meant.

        Raises:
            KitError: not in time.
        """
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            with contextlib.suppress(ProbeError):
                if answering is not None:
                    leads_quorum(HOST, self.controllers[answering].port)
                active = self.active_controller
                if active is not None and active != other_than:
                    return active
            if time.monotonic() > deadline:
                what = f"no controller became active within {START_LIMIT_S:.0f} s"
                raise self.failure(what, next(iter(self.controllers.values())))
            time.sleep(_POLL_S)

    def await_death(self, broker: int) -> None:
        """Wait until the process of a broker has ended.

        Raises:
            KitError: not in time.
        """
        node = self.brokers[broker]
        deadline = time.monotonic() + CHANGE_LIMIT_S
        while node.alive:
            if time.monotonic() > deadline:
                raise self.failure(f"{node.name} still runs after {CHANGE_LIMIT_S:.0f} s", node)
            time.sleep(_POLL_S)

    def failure(self, what: str, node: KafkaNode) -> KitError:
        """Return an error that quotes the end of a node's log, which is then kept."""
        self.keep_logs = True
        return KitError(f"{what}; end of {node.log}:\n{tail(node.log)}")

    # --- inside ---

    def _make(self, node: Callable[[str, int, Mapping[str, str]], KafkaNode]) -> None:
        """Give every node its ports and settings, and start the links between them."""
        assert self.directory is not None  # noqa: S101  # `start` has made it
        plan = self._plan
        ports = iter(free_ports(plan.controllers + (5 + len(plan.listeners)) * plan.brokers))
        voters = {CONTROLLER_ID + number: next(ports) for number in range(plan.controllers)}
        own, clients, client_links, others, other_links = (
            {broker: next(ports) for broker in range(1, plan.brokers + 1)} for _ in range(5)
        )
        for number, port in voters.items():
            name = "controller" if plan.controllers == 1 else f"controller-{number}"
            self.controllers[number] = node(name, port, controller_settings(number, voters))
        for broker in range(1, plan.brokers + 1):
            inside = Listener("PLAINTEXT", own[broker])
            client, between = inside, inside
            if plan.links is not None:
                client = Listener("CLIENT", clients[broker]).behind(client_links[broker])
            if plan.links == "all":
                between = Listener("BROKERS", others[broker]).behind(other_links[broker])
            self.client_ports[broker] = client.advertised
            more = [Listener(name, next(ports), protocol=by) for name, by in plan.listeners.items()]
            for each in more:
                self.more_ports[each.name][broker] = each.port
            settings = broker_settings(
                broker, voters, client=client, inside=inside, between=between, more=more, brokers=plan.brokers
            )
            self.brokers[broker] = node(f"broker-{broker}", own[broker], settings)
        if plan.links is not None:
            self.links = Links(
                {broker: (client_links[broker], clients[broker]) for broker in self.brokers},
                {broker: (other_links[broker], others[broker]) for broker in self.brokers}
                if plan.links == "all"
                else {},
                log=self.directory / "logs" / "links.log",
            )

    def _format(self) -> None:
        """Format one node's storage, and the others' like it."""
        first, *others = self.all.values()
        try:
            first.format(self.cluster_id, START_LIMIT_S)
        except KitError as error:
            raise self.failure(str(error), first) from None
        for node in others:
            node.format_like(first)


def address(port: int) -> str:
    """Return a port of this machine as clients name it."""
    return f"{HOST}:{port}"
