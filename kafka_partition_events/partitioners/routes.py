"""What a partitioner chooses from: routes that follow a poller, or else the client's ``cluster`` argument."""

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafka_partition_events.health.tracker import DeliveryTracker
from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.events import CapLifted, CapReached, Event
from kafka_partition_events.process import OwnProcess, forget_in_children
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.table import Route, compile_route, compile_routes


class ClientCluster(Protocol):
    """What a partitioner reads of kafka-python's ``ClusterMetadata``; our `Cluster` answers it too."""

    def partitions_for_topic(self, topic: str, /) -> set[int] | None:
        """Return the ids of all partitions; None when the topic is unknown."""

    def available_partitions_for_topic(self, topic: str, /) -> set[int] | None:
        """Return the ids of the partitions that have a leader; None when the topic is unknown."""


class Routes:
    """One partitioner's routes, and what they follow from: snapshot, cap, limits, suspects. Thread-safe.

    Attributes:
        budget: The cap; a new one holds from the next snapshot on.
        current: By topic. All that a choice reads; replaced, never changed in place.
        deliveries: Says which brokers to avoid.
        generation: Which snapshot the routes are of; None without one.
        limits: Of how many partitions of a topic only the first are used; see `limit`.
        process: Where the partitioner was made; it chooses there and nowhere else.
        racks: The racks of the brokers, as far as the snapshot has them.
    """

    def __init__(self, name: Callable[[], str], budget: BufferBudget | None) -> None:
        """Follow the ``cluster`` argument until there is a snapshot; ``name``: what events call us."""
        self.budget = budget
        self.current: Mapping[str, Route] = {}
        self.deliveries = DeliveryTracker(self.renew, name=name)
        self.generation: int | None = None
        self.limits: Mapping[str, int] = {}
        self.racks: Mapping[int | None, str | None] = {}
        self._name = name
        self._cluster: Cluster | None = None
        self._table: Mapping[str, Route] | None = None
        self._unseen: Mapping[str, Route] = {}
        self.process = OwnProcess(name())
        self._of_argument: dict[str, Route] = {}
        self._watched: weakref.WeakSet[ClientCluster] = weakref.WeakSet()
        self._on_renewed: set[weakref.WeakMethod[Callable[[], None]]] = set()
        self._by_topic: list[dict[str, Any]] = []
        self._compiling = threading.RLock()  # the collector may end the last producer in there: see `limit`
        self._deriving = threading.Lock()
        self._changed = False  # whether an input was changed since the routes were derived
        self.renew()
        forget_in_children(self, Routes._forget)

    def _forget(self) -> None:
        """Begin without routes in a forked child: none is compiled there, see `OwnProcess`."""
        self._table = self.generation = None
        self.current, self._unseen, self._of_argument = {}, {}, {}
        self._drop_what_followed()

    def of(self, topic: str, cluster: "ClientCluster | None" = None) -> Route | None:
        """Return a topic's route: of the snapshot, or of ``cluster``, or None when neither is there.

        Raises:
            ValueError: ``cluster`` is given and does not know the topic.
            ForkedError: the partitioner was made before a fork.
        """
        if self._table is not None and (route := self.current.get(topic)) is not None:
            return route
        if cluster is None:
            self.process.check()
            return self._unseen.get(topic)
        return self._by_argument(topic, cluster)

    def _by_argument(self, topic: str, cluster: ClientCluster) -> Route:
        """Return the topic's route for as long as the cluster object's metadata does not change.

        kafka-python's object is live: the routes are dropped when it was updated. Of other objects none are
        kept. Raises `ValueError` for an unknown topic, as kafka-python's partitioners do.
        """
        routes: dict[str, Route] = {}
        if (add_listener := getattr(cluster, "add_listener", None)) is not None:
            if cluster not in self._watched:  # a second listener by another thread does no harm
                add_listener(self._argument_changed)
                self._watched.add(cluster)
            # Taken before the cluster and the limits are read: where these change in between, a new
            # dictionary takes its place, and this old route goes into one that is not read any more.
            routes = self._of_argument
        route = routes.get(topic)
        if route is None:
            self.process.check()
            limit = self.limits.get(topic)
            route = routes[topic] = compile_route(_topic_info(topic, cluster), limit=limit)
        return route

    def _argument_changed(self, _updated: object) -> None:
        self._of_argument = {}
        self.renew()

    def by_topic(self) -> dict[str, Any]:
        """Return a new dictionary by topic, for what is known of each: what is there goes with its topic."""
        self._by_topic.append({})
        return self._by_topic[-1]

    def on_renewed(self, drop: Callable[[], None]) -> None:
        """Call a method when there are new routes, as long as its object lives: what it has kept may be over.

        It is called on any thread, and must not block.
        """
        self._on_renewed.add(weakref.WeakMethod(drop, self._on_renewed.discard))

    def apply_snapshot(self, cluster: Cluster | None) -> tuple[Event, ...]:
        """Follow a snapshot; None: the ``cluster`` argument again. Return what follows from it."""
        if cluster is not None:
            for kept in self._by_topic:
                for topic in kept.keys() - cluster.by_topic.keys():
                    kept.pop(topic, None)
        self.racks = {} if cluster is None else {node.id: node.rack for node in cluster.nodes.values()}
        with self._compiling:
            self._cluster = cluster
            caps = self._compile_table()
        found = self.deliveries.snapshot(cluster)
        self.renew(wait=cluster is not None)  # without one this may be a handler that interrupts `renew`
        return (*found, *caps)

    def limit(self, limits: Mapping[str, int]) -> tuple[Event, ...]:
        """Use only the partitions below a number, by topic, until the next call; return events to be emitted.

        It holds for keys too: a limited topic is to them one with fewer partitions. Records that are placed
        after this has returned keep to it, those that other threads are placing may not. Does no I/O.

        An agent's thread is here without the poller's lock. Should the collector run in `_compile_table` and
        drop the last producer, the table is taken away by this thread, and compiled again by what holds then.
        """
        with self._compiling:
            if limits == self.limits:
                return ()
            self.limits = limits
            self._unseen = {topic: _assumed(topic, count) for topic, count in limits.items()}
            self._of_argument = {}
            caps = self._compile_table()
        self.renew(wait=True)
        return caps

    def _compile_table(self) -> tuple[Event, ...]:
        """Compile the table of what is known now; return what follows for the cap."""
        self.process.check()
        before, cluster = self._table or {}, self._cluster
        if cluster is None:
            self._table = self.generation = None
            return ()
        self._table = compile_routes(cluster, self.budget, before, self.limits)
        if self._cluster is not cluster:
            return self._compile_table()
        self.generation = cluster.generation  # after the table, which is never older
        return () if self.budget is None else tuple(_cap_changes(self._name(), before, self._table))

    def renew(self, *, wait: bool = False) -> None:
        """Derive the routes from what is known now: the table, or the argument's routes; and what to avoid.

        One thread at a time derives. Threads that report deliveries come here, too, also in signal handlers:
        they do not wait. Each has changed its input, then sets the mark, then tries the lock. If another
        thread has it, that one checks the mark after it has let go, so the last has seen all inputs.

        Args:
            wait: Whether the routes are renewed when this returns; for threads that hold no lock.
        """
        self._changed = True
        if wait:
            with self._deriving:
                self._derive()
        while self._changed and self._deriving.acquire(blocking=False):
            try:
                self._derive()
            finally:
                self._deriving.release()
        self._drop_what_followed()

    def _drop_what_followed(self) -> None:
        for reference in self._on_renewed.copy():
            if (drop := reference()) is not None:
                drop()

    def _derive(self) -> None:
        self._changed = False
        table, avoidance = self._table, self.deliveries.avoidance
        routes: Mapping[str, Route] = self._of_argument if table is None else table
        if table is not None and avoidance:
            routes = {topic: route.avoiding(avoidance) for topic, route in routes.items()}
        self.current = routes


def _topic_info(topic: str, cluster: ClientCluster) -> TopicInfo:
    ids = cluster.partitions_for_topic(topic)
    if not ids:
        raise ValueError(f"Topic {topic} not found in the cluster's metadata")
    online = cluster.available_partitions_for_topic(topic) or set()
    # A gap in the ids is a partition that the answer left out; its keys must not move for that.
    partitions = tuple(PartitionInfo(topic, i, 0 if i in online else None) for i in range(max(ids) + 1))
    return TopicInfo(topic, partitions)


def _assumed(topic: str, count: int) -> Route:
    """Return the route of a limited topic that no snapshot has: a client that chose might know of more.

    Who set the limit knew that there are as many partitions: online, and led by no broker that there is.
    """
    return compile_route(TopicInfo(topic, tuple(PartitionInfo(topic, n, leader=-1) for n in range(count))))


def _cap_changes(name: str, before: Mapping[str, Route], after: Mapping[str, Route]) -> list[Event]:
    events: list[Event] = []
    for topic, route in after.items():
        old = before.get(topic)
        if old is route:
            continue
        about: dict[str, Any] = {"topic": topic, "topic_id": route.info.topic_id, "partitioner": name}
        about["partitions"] = route.count
        if route.capped:
            if old is None or (old.count, old.admitted) != (route.count, route.admitted):
                events.append(CapReached(**about, admitted=route.admitted, limit=len(route.admitted)))
        elif old is not None and old.capped:
            events.append(CapLifted(**about))
    return events
