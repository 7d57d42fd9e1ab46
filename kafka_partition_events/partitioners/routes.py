"""What a partitioner chooses from: routes that follow a poller, or else the client's ``cluster`` argument."""

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.events import CapLifted, CapReached, Event
from kafka_partition_events.partitioners.deliveries import Deliveries
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.limits import NO_LIMITS, Limits, limited, unseen_routes
from kafka_partition_events.routing.table import Route, RoutingTable, compile_route, compile_table


class ClusterView(Protocol):
    """What a partitioner reads of kafka-python's ``ClusterMetadata``; our `Cluster` answers it too."""

    def partitions_for_topic(self, topic: str, /) -> set[int] | None:
        """Return the ids of all partitions; None when the topic is unknown."""

    def available_partitions_for_topic(self, topic: str, /) -> set[int] | None:
        """Return the ids of the partitions that have a leader; None when the topic is unknown."""


@runtime_checkable
class WatchableCluster(Protocol):
    """A live cluster object that says when it was updated, as kafka-python's does."""

    def add_listener(self, listener: Callable[[object], None], /) -> None:
        """Call the listener after every metadata update, on any thread."""


class Keeper(Protocol):
    """Keeps a choice for several records, as long as the routes are the same."""

    def drop(self) -> None:
        """Forget the choice. Any thread may call this; it must not block."""


class Routes:
    """One partitioner's routes, and what they follow from: snapshot, cap, limits, suspects. Thread-safe.

    Attributes:
        budget: The cap.
        current: By topic. All that a choice reads; replaced, never changed in place.
        deliveries: Says whom to avoid.
        limits: What is left alone; see `limit`.
        racks: The racks of the brokers, as far as the snapshot tells; the same object as long as they are.
    """

    def __init__(
        self,
        name: Callable[[], str],
        budget: BufferBudget | None,
        meet: Callable[["ClusterView"], None],
    ) -> None:
        """Make routes that follow the ``cluster`` argument until there is a snapshot.

        Args:
            name: What events call the partitioner.
            budget: The cap.
            meet: Looks at a cluster before routes are made of it. Must not block; any thread may come there.
        """
        self.budget = budget
        self.current: Mapping[str, Route] = {}
        self.deliveries = Deliveries(self.renew)
        self.limits = NO_LIMITS
        self.racks: Mapping[int, str | None] = {}
        self._name = name
        self._meet = meet
        self._cluster: Cluster | None = None
        self._table: RoutingTable | None = None
        self._unseen: Mapping[str, Route] = {}
        self._of_argument = ArgumentRoutes(self.renew)
        self._keepers: set[weakref.ref[Keeper]] = set()
        self._by_topic: list[dict[str, Any]] = []
        self._swapping = threading.RLock()  # the garbage collector may run in there and close a producer
        self.renew()

    @property
    def generation(self) -> int | None:
        """Which snapshot the routes are of; None without one."""
        table = self._table
        return None if table is None else table.generation

    def of(self, topic: str, cluster: "ClusterView | None" = None) -> Route | None:
        """Return a topic's route: of the snapshot, or of ``cluster``, or None when neither is there.

        Raises:
            ValueError: ``cluster`` is given and does not know the topic.
        """
        if self._table is not None and (route := self.current.get(topic)) is not None:
            return route
        if cluster is None:
            return self._unseen.get(topic)
        self._meet(cluster)
        return self._of_argument.route(topic, cluster)

    def by_topic(self) -> dict[str, Any]:
        """Return a new dictionary by topic, for what is known of each: what is there goes with its topic."""
        kept: dict[str, Any] = {}
        self._by_topic.append(kept)
        return kept

    def keep(self, keeper: Keeper) -> None:
        """Tell somebody of new routes, as long as he lives."""
        self._keepers.add(weakref.ref(keeper))

    def adopt(self, cluster: Cluster | None) -> tuple[Event, ...]:
        """Follow a snapshot; None: the ``cluster`` argument again. Return what follows from it."""
        if cluster is not None:
            self._meet(cluster)
            for kept in self._by_topic:
                for topic in kept.keys() - cluster.by_topic.keys():
                    kept.pop(topic, None)
        racks = {} if cluster is None else {node.id: node.rack for node in cluster.nodes.values()}
        if racks != self.racks:
            self.racks = racks
        self._cluster = cluster
        caps = self._compile_table()
        told = self.deliveries.follow(cluster, self._name())
        self.renew()
        return (*told, *caps)

    def limit(self, limits: Limits) -> tuple[Event, ...]:
        """Leave partitions alone from now on, until the next call; the same limits again do nothing.

        It holds for keys too: a limited topic is to them one with fewer partitions. Records that are placed
        after this has returned keep to it, those that other threads are placing may not. Does no I/O.

        Returns:
            Events that follow from it, to be emitted by the poller.
        """
        if limits == self.limits:
            return ()
        self.limits = limits
        self._unseen = unseen_routes(limits)
        self._of_argument.limit(limits)
        caps = self._compile_table()
        self.renew()
        return caps

    def _compile_table(self) -> tuple[Event, ...]:
        """Compile the table of what is known now; return what follows for the cap.

        The poller's thread comes here with a snapshot, any other with limits. As in `renew`, whoever finds
        that an input has changed meanwhile compiles again.
        """
        while True:
            cluster, limits, before = self._cluster, self.limits, self._table
            known = before.routes if before else {}
            table = None
            if cluster is not None:
                table = compile_table(limited(cluster, limits, known), self.budget, before)
            with self._swapping:
                if cluster is self._cluster and limits is self.limits:
                    self._table = table
                    break
        if table is None or self.budget is None:
            return ()
        return tuple(_cap_changes(self._name(), before, table))

    def renew(self) -> None:
        """Derive the routes from what is known now: the table, or the argument's routes; and whom to avoid.

        Three threads may come here: the poller's with a table, kafka-python's when its cluster object was
        updated, and one that reports deliveries. Each changes its own input first and derives then; whoever
        finds that an input has changed meanwhile derives again. So the last one to put
        routes in place has seen the last of every input. Deriving is not done under the lock, because the
        garbage collector may close a producer in there, which comes here again.
        """
        while True:
            table, avoidance = self._table, self.deliveries.avoidance
            routes: Mapping[str, Route] = {} if table is None else table.routes
            if avoidance:
                routes = {topic: route.avoiding(avoidance) for topic, route in routes.items()}
            with self._swapping:
                if table is self._table and avoidance is self.deliveries.avoidance:
                    self.current = self._of_argument.routes if table is None else routes
            # Looked at once more: a finalizer may have come here in between, in this very thread.
            if table is self._table and avoidance is self.deliveries.avoidance:
                break
        for reference in tuple(self._keepers):
            keeper = reference()
            if keeper is None:
                self._keepers.discard(reference)
            else:
                keeper.drop()


class ArgumentRoutes:
    """Routes for as long as the cluster object's metadata does not change. Thread-safe.

    kafka-python's object is live: it is watched, and the routes are dropped when it was updated. Any other
    object is taken to be immutable, and routes are kept for the last one that was given.
    """

    def __init__(self, on_dropped: Callable[[], None]) -> None:
        self.routes: dict[str, Route] = {}
        self._limits = NO_LIMITS
        self._frozen_routes: tuple[object, dict[str, Route]] = (None, {})
        self._on_dropped = on_dropped
        self._watched: weakref.WeakSet[WatchableCluster] = weakref.WeakSet()
        self._lock = threading.RLock()  # a signal handler may produce in there

    def route(self, topic: str, cluster: ClusterView) -> Route:
        """Return the topic's route.

        Raises:
            ValueError: the cluster does not know the topic, as kafka-python's partitioners raise.
        """
        if isinstance(cluster, WatchableCluster):
            self._watch(cluster)
            # The dictionary is taken before the cluster is read. If an update comes in between, `_drop`
            # puts a new dictionary in place and this old route goes into the one that nobody reads.
            routes = self.routes
        else:
            kept_for, routes = self._frozen_routes
            if kept_for is not cluster:
                routes = {}
                self._frozen_routes = (cluster, routes)
        route = routes.get(topic)
        if route is None:
            route = routes[topic] = compile_route(self._limits.applied(_topic_info(topic, cluster)))
        return route

    def limit(self, limits: Limits) -> None:
        """Compile all routes anew, under limits.

        A route that is being compiled meanwhile goes into the dictionaries that nobody reads any more.
        """
        self._limits = limits
        self.routes, self._frozen_routes = {}, (None, {})

    def _watch(self, cluster: WatchableCluster) -> None:
        if cluster in self._watched:
            return
        with self._lock:
            if cluster not in self._watched:
                cluster.add_listener(self._drop)
                self._watched.add(cluster)

    def _drop(self, _updated: object) -> None:
        self.routes = {}
        self._on_dropped()


def _topic_info(topic: str, cluster: ClusterView) -> TopicInfo:
    ids = cluster.partitions_for_topic(topic)
    if not ids:
        raise ValueError(f"Topic {topic} not found in the cluster's metadata")
    online = cluster.available_partitions_for_topic(topic) or set()
    # A gap in the ids is a partition that the answer left out; its keys must not move for that.
    partitions = tuple(PartitionInfo(topic, i, 0 if i in online else None) for i in range(max(ids) + 1))
    return TopicInfo(topic, partitions)


def _cap_changes(name: str, before: RoutingTable | None, after: RoutingTable) -> list[Event]:
    events: list[Event] = []
    for topic, route in after.routes.items():
        old = before.routes.get(topic) if before else None
        if old is route:
            continue
        if route.capped:
            if old is None or (old.count, old.admitted) != (route.count, route.admitted):
                events.append(
                    CapReached(
                        topic=topic,
                        topic_id=route.info.topic_id,
                        partitions=route.count,
                        admitted=route.admitted,
                        limit=len(route.admitted),
                        partitioner=name,
                    )
                )
        elif old is not None and old.capped:
            events.append(
                CapLifted(topic=topic, topic_id=route.info.topic_id, partitions=route.count, partitioner=name)
            )
    return events
