"""A real Apache Kafka on this machine, without Docker: brokers that a test can grow, kill and freeze."""

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from kafka_partition_events.testing.cluster.broker_probe import BrokerView
from kafka_partition_events.testing.cluster.kafka_node import KafkaNode
from kafka_partition_events.testing.cluster.nodes import START_LIMIT_S, ClusterPlan, Nodes, address
from kafka_partition_events.testing.cluster.raw_requests import alter_client_quota, elect_leaders
from kafka_partition_events.testing.cluster.topic_admin import TopicAdmin
from kafka_partition_events.testing.errors import KitError
from kafka_partition_events.testing.network.links import Link, Links
from kafka_partition_events.testing.ports import HOST

_STOP_LIMIT_S = 60.0


class KafkaCluster:
    """`brokers` brokers (1..n, racks ``r1..rn``) and a controller (node 100) on loopback ports.

    Starting three brokers takes about ten seconds and 900 MB. Use it as a context manager, or call
    `start` and `close`; a closed cluster can't be started again. Its processes end when it is closed and
    when this process ends, however that happens.

    Calls may come from any thread, but two calls about the same broker must not overlap. A process forked
    from the owner may use the addresses, and can neither close nor signal anything.

    Args:
        brokers: How many brokers.
        controllers: How many controllers (100, 101, ...). A quorum of three survives the loss of one.
        version: Of Kafka: ``"3.7"``, ``"3.9"``, ``"4.0"`` or ``"4.1"``. By default what the environment
            variable ``KPE_KAFKA_VERSION`` says, and where it is not set the newest.
        session_timeout_ms: How long the cluster goes on naming a killed or frozen broker as a leader. Kafka's
            default is 9000.
        broker_config: More settings for all nodes, or other values for ours (Kafka's names, values as text).
        listeners: Further listeners for clients, name -> protocol: ``{"CERTS": "SSL"}``. `broker_config` has
            their settings (``listener.name.certs.ssl.keystore.location``); see `addresses`.
        links: Whether the network can be disturbed; see `link`. True or ``"clients"``: between clients and
            brokers. ``"all"``: between brokers, too. The controller is always reached.
        slow_disks: Whether disks can be made slow; see `slow_disk`. Linux only, and it takes a C compiler.
        progress: Called with one line of text before each step that takes long.

    Raises:
        JvmError: (`start`) the jars can not be had, or not of this version.
        KitError: (`start` and everything after it) Java or confluent-kafka is missing, or Kafka
            did not do what it was asked in time; the message quotes the end of a log and names the
            directory, which is then kept.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int = 1,
        version: str | None = None,
        session_timeout_ms: int = 3000,
        broker_config: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        links: Literal["clients", "all"] | bool | None = None,
        slow_disks: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        for what, count in (("brokers", brokers), ("controllers", controllers)):
            if count < 1:
                raise ValueError(f"{what} must be at least 1, not {count}")
        self._nodes = Nodes(
            ClusterPlan(
                brokers=brokers,
                controllers=controllers,
                version=version,
                listeners=listeners or {},
                links="clients" if links is True else links or None,
                slow_disks=slow_disks,
                overrides={
                    "broker.session.timeout.ms": str(session_timeout_ms),
                    "auto.create.topics.enable": "false",  # so that a test notices who creates topics
                    **(broker_config or {}),
                },
            ),
            progress or (lambda _line: None),
        )
        self._lock = threading.Lock()  # start and close
        self._owner = os.getpid()
        self._closed = False
        self._admin = TopicAdmin(self._running_addresses)

    # --- life ---

    def start(self) -> Self:
        """Start all nodes and wait until every broker lists every other. Does nothing the second time."""
        with self._lock:
            if self._closed:
                raise KitError("this KafkaCluster has been closed; make a new one")
            if self._nodes.directory is None:
                try:
                    self._nodes.start()
                except BaseException as error:
                    self._nodes.keep_logs = isinstance(error, Exception)  # a Ctrl-C needs no logs
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
            self._nodes.keep_logs = True
            error.add_note(f"Kafka's logs: {self._directory / 'logs'}")
        self.close()

    # --- what there is ---

    @property
    def cluster_id(self) -> str:
        """What Kafka calls this cluster; known before it starts."""
        return self._nodes.cluster_id

    @property
    def bootstrap_servers(self) -> str:
        """All brokers, running or not, as ``host:port,host:port``."""
        return ",".join(address(self._nodes.client_ports[broker]) for broker in self._started())

    def addresses(self, listener: str) -> str:
        """Return where all brokers listen by a further listener of that name, as ``host:port,host:port``."""
        self._started()
        return ",".join(map(address, self._nodes.more_ports[listener].values()))

    @property
    def _directory(self) -> Path | None:
        return self._nodes.directory

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of all brokers, ascending."""
        return tuple(self._started())

    @property
    def controllers(self) -> tuple[int, ...]:
        """The ids of all controllers, ascending."""
        self._started()
        return tuple(self._nodes.controllers)

    @property
    def active_controller(self) -> int | None:
        """The id of the controller that leads the others now; None while none does."""
        self._started()
        return self._nodes.active_controller

    @property
    def running(self) -> tuple[int, ...]:
        """The ids of the brokers whose process exists and is not frozen, ascending."""
        self._started()
        return self._nodes.running

    @property
    def pids(self) -> dict[int, int]:
        """Process id of every JVM that exists, by node id; the first controller's is 100."""
        self._started()
        return {number: node.pid for number, node in self._nodes.all.items() if node.pid is not None}

    def leaders(self, topic: str) -> dict[int, int | None]:
        """Return the leader of each partition as the first running broker sees it; None when offline."""
        self._any_broker()
        view = self._nodes.brokers[self.running[0]].ask()
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
        count = len(assignment or ()) if partitions is None else partitions
        self._admin.create(name, count, replication_factor, config or {}, assignment)
        self._nodes.await_everywhere(
            f"topic {name} with {count} partitions", lambda v: _is_served(v, name, count)
        )

    def grow_topic(self, name: str, partitions: int) -> None:
        """Grow a topic to `partitions` in all, and wait as `create_topic` does."""
        self._admin.grow(name, partitions)
        self._nodes.await_everywhere(
            f"topic {name} grown to {partitions} partitions", lambda v: _is_served(v, name, partitions)
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until no running broker knows it."""
        self._admin.delete(name)
        self._nodes.await_everywhere(f"topic {name} deleted", lambda view: name not in view.topics)

    # --- settings ---

    def set_config(self, settings: Mapping[str, str | None], *, topic: str) -> None:
        """Change settings of a topic; they hold some milliseconds later.

        Args:
            settings: Kafka's names and values as text, such as ``{"min.insync.replicas": "2"}``; None goes
                back to the default. Others stay as they are.
            topic: Whose settings.
        """
        self._admin.configure(topic, settings)

    def quota(self, *, client_id: str, producer_bytes_per_s: float | None = None) -> None:
        """Let each broker slow a client down that sends more than so much; None: as much as it likes.

        It holds some milliseconds later. Kafka counts over about ten seconds: as much as is allowed in that
        time passes at once.
        """
        alter_client_quota(*self._any_broker(), client_id, "producer_byte_rate", producer_bytes_per_s)

    def elect(self, topic: str, *, unclean: bool = False) -> None:
        """Have the leaders of a topic's partitions elected, and wait until every running broker names them.

        Args:
            topic: Which.
            unclean: False: the first replica of each partition leads, if it is in sync. True: a partition
                without a leader gets one that has missed records; they are lost.
        """
        if not (partitions := self.leaders(topic)):
            raise KitError(f"there is no topic {topic}")
        elect_leaders(*self._any_broker(), topic, partitions, unclean=unclean)
        is_so, count = _is_served if unclean else _is_led_by_first_replicas, len(partitions)
        self._nodes.await_everywhere(f"leaders of {topic} elected", lambda view: is_so(view, topic, count))

    # --- trouble ---

    def kill(self, node: int) -> None:
        """Kill a node (SIGKILL). The cluster finds out when the session of a broker times out."""
        self._node(node, controllers=True).kill()

    def stop(self, node: int) -> None:
        """Shut a node down in good order (SIGTERM) and wait; a broker hands its leaderships over first."""
        self._node(node, controllers=True).stop(_STOP_LIMIT_S)

    def restart(self, node: int, *, clean: bool = False) -> None:
        """Start a node again on its old port and data, ending it first if it runs.

        Returns when all running brokers list the broker again and it has caught up with every partition that
        it holds and that has a leader. That takes at least the rest of a killed broker's session. (For a
        controller: when it answers and one is active.)

        Args:
            node: Which broker or controller.
            clean: How to end it: shut down in good order, as `stop` does, or killed.
        """
        each = self._node(node, controllers=True)
        if clean:
            each.stop(_STOP_LIMIT_S)
        each.kill()
        each.start()
        if node in self._nodes.controllers:
            self._nodes.await_controller(node)
            return
        self._nodes.await_everywhere(
            f"broker {node} back in sync", lambda view: _is_in_sync(view, node), limit=START_LIMIT_S
        )

    def rolling_restart(self) -> None:
        """Restart all brokers, one after the other, each when the one before is back in sync."""
        for broker in self.brokers:
            self.restart(broker, clean=True)

    def fail_over_controller(self) -> int:
        """Kill the active controller, wait until another is active, and restart the killed one.

        Returns:
            The id of the new active controller.

        Raises:
            KitError: there are fewer than three controllers: then the others can't go on without it.
        """
        self._check_ours()
        if len(self._nodes.controllers) < 3:
            raise KitError("fail-over takes three controllers; make the KafkaCluster with controllers=3")
        old = self._nodes.await_controller()
        self.kill(old)
        self._nodes.await_controller(other_than=old)
        self.restart(old)
        return self._nodes.await_controller()

    def freeze(self, node: int) -> None:
        """Suspend a node (SIGSTOP): connections stay open, nothing answers. Returns when it is suspended."""
        self._node(node, controllers=True).freeze()

    def thaw(self, node: int) -> None:
        """Resume a frozen node (SIGCONT). Returns at once; see `await_registered` to wait for a broker."""
        self._node(node, controllers=True).thaw()

    def await_registered(self, *brokers: int) -> None:
        """Wait until every running broker lists exactly `brokers` (default: exactly the running ones)."""
        wanted = frozenset(brokers or self.running)
        self._nodes.await_everywhere(f"brokers {sorted(wanted)} listed", lambda view: view.brokers == wanted)

    def fill_disk(self, broker: int) -> None:
        """Let a broker write no byte more, as on a full disk, until `restart`; Linux only, any user.

        Kafka halts a broker that can't write its log, in about a second even without traffic; waits for that.
        What the broker would say about it can't be written either.
        """
        self._node(broker).fill_disk()
        self._nodes.await_death(broker)

    def slow_disk(self, broker: int, ms: float) -> None:
        """Let each write of a broker to a file take so much longer; 0 is the right time again.

        Needs ``slow_disks=True``. Other brokers' writes take as long as ever.
        """
        self._node(broker).slow_disk(ms)

    # --- the network ---

    def link(self, broker: int, other: int | None = None) -> Link:
        """Return what lies between the clients and a broker, or between two brokers, to disturb it.

        ``cluster.link(2).delay(50)``: what clients and broker 2 send each other takes 50 ms more.
        ``cluster.link(2, 3).blackhole()``: brokers 2 and 3 hear nothing of each other, with ``links="all"``.
        """
        for each in (broker, *([] if other is None else [other])):
            self._node(each)
        return self._links().link(broker, other)

    def partition(self, one_side: Collection[int], other_side: Collection[int]) -> None:
        """Let everything vanish between two groups of brokers, until `heal`; needs ``links="all"``.

        Clients and the controller reach both sides, as before.
        """
        for each in (*one_side, *other_side):
            self._node(each)
        self._links().cut(one_side, other_side)

    def heal(self) -> None:
        """End all effects on all links."""
        self._links().heal()

    # --- inside ---

    def _close(self) -> None:
        self._closed = True
        self._nodes.close()

    def _started(self) -> dict[int, KafkaNode]:
        if not self._nodes.brokers:
            raise KitError("this KafkaCluster has not been started: use it in a `with`, or call start()")
        return self._nodes.brokers

    def _check_ours(self) -> None:
        if os.getpid() != self._owner:
            raise KitError("a fork of the process that started a KafkaCluster can't control it")
        self._started()
        if self._closed:
            raise KitError("this KafkaCluster has been closed; make a new one")

    def _node(self, number: int, *, controllers: bool = False) -> KafkaNode:
        self._check_ours()
        nodes = self._nodes.all if controllers else self._nodes.brokers
        if number not in nodes:
            raise KitError(f"there is no broker {number}, only {', '.join(map(str, self._nodes.brokers))}")
        return nodes[number]

    def _links(self) -> Links:
        self._check_ours()
        if self._nodes.links is None:
            raise KitError("this KafkaCluster has no links; make it with links=True")
        return self._nodes.links

    def _any_broker(self) -> tuple[str, int]:
        if not self.running:
            raise KitError("no broker is running; restart one first")
        return HOST, self._nodes.brokers[self.running[0]].port

    def _running_addresses(self) -> str:
        self._any_broker()
        return ",".join(address(self._nodes.brokers[broker].port) for broker in self.running)


def _is_served(view: BrokerView, topic: str, partitions: int) -> bool:
    found = view.topics.get(topic, {})
    return len(found) == partitions and all(
        # A partition whose replicas are all down (assigned to a killed broker) has no leader to wait for.
        p.leader >= 0 or not view.brokers.intersection(p.replicas)
        for p in found.values()
    )


def _is_led_by_first_replicas(view: BrokerView, topic: str, partitions: int) -> bool:
    return _is_served(view, topic, partitions) and all(
        p.leader == p.replicas[0] for p in view.topics[topic].values()
    )


def _is_in_sync(view: BrokerView, broker: int) -> bool:
    return broker in view.brokers and all(
        broker in p.isr or broker not in p.replicas or p.leader not in view.brokers
        for partitions in view.topics.values()
        for p in partitions.values()
    )
