"""Routes for a partitioner that has no poller, compiled from the ``cluster`` argument of kafka-python."""

import threading
import weakref
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from kafka_partition_events.metadata.cluster import PartitionInfo, TopicInfo
from kafka_partition_events.routing.limits import NO_LIMITS, Limits
from kafka_partition_events.routing.table import Route, compile_route


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
