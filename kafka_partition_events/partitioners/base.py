"""The base of every partitioner: where its routes come from, and the rules that hold for all of them."""

import sys
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import ClassVar, Literal, Protocol, get_args

from kafka_partition_events.errors import ConfigurationError, PartitionOfflineError
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import CapLifted, CapReached, Event
from kafka_partition_events.metadata.listener import ClusterAdopter, PartitionChangeListener, name_of
from kafka_partition_events.partitioners.argument_routes import ArgumentRoutes, ClusterView
from kafka_partition_events.partitioners.deliveries import Deliveries
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.hashing import EMPTY_IS_NO_KEY, HashName, KeyHash, key_hash
from kafka_partition_events.routing.limits import NO_LIMITS, Limits, limited, unseen_routes
from kafka_partition_events.routing.table import Route, RoutingTable, compile_table

UNASSIGNED = -1
"""What `Partitioner.partition` returns when it knows nothing of a topic: the client shall choose itself.

It is librdkafka's ``RD_KAFKA_PARTITION_UA``."""

KeyedPolicy = Literal["pin", "reroute", "raise"]


class Keeper(Protocol):
    """Keeps a choice for several records, as long as the partitioner's routes are the same."""

    def drop(self) -> None:
        """Forget the choice. Any thread may call this; it must not block."""


class Partitioner(PartitionChangeListener, ClusterAdopter):
    """Chooses the partition of each record; subclass it and override `choose`.

    The signature of `partition` is kafka-python's, so an instance goes into
    ``KafkaProducer(partitioner=...)`` as it is, and into `PartitioningProducer` of this library.
    ``poller.register(partitioner)`` gives it a table that follows the cluster; without one it reads the
    ``cluster`` argument.

    An instance serves one cluster, and any number of topics, producers and threads. Choosing takes no lock
    and the same time for 3 and for 10,000 partitions.

    A subclass may also override the hooks of `PartitionChangeListener`. They run on the partitioner's own
    worker thread and are for bookkeeping: rerouting does not wait for them.
    """

    sticky: ClassVar[bool] = False
    """Whether unkeyed records stay on one partition until `on_new_batch` is called."""

    falls_back: ClassVar[bool] = True
    """Whether the client may place records by the key hash itself as long as a topic is unknown."""

    ignores_keys: bool = False
    """Whether keyed records are placed as if they had no key."""

    def __init__(
        self,
        *,
        budget: BufferBudget | None = None,
        keyed: KeyedPolicy = "pin",
        hash_name: HashName | None = None,
    ) -> None:
        """Make a partitioner.

        Args:
            budget: A cap on the partitions that unkeyed records go to (KIP-34); None: no cap.
            keyed: What happens to a keyed record whose partition is offline. ``"pin"``: it goes there all
                the same, because its order comes first. ``"reroute"``: it goes to a partition that is
                usable. ``"raise"``: `PartitionOfflineError`.
            hash_name: The key hash. One topic should be written with one hash. None: that of the client whose
                records are placed: what a plain producer with the same settings uses. That is murmur2 for
                kafka-python and for a partitioner that stands alone.

        Raises:
            ConfigurationError: an argument is not one of its choices.
        """
        if keyed not in get_args(KeyedPolicy):
            raise ConfigurationError(
                f"keyed must be one of {', '.join(get_args(KeyedPolicy))}, not {keyed!r}"
            )
        self.budget = budget
        self.keyed = keyed
        self.follows_client = hash_name is None
        """Whether keys are placed by the client's own hash."""
        self._client_hash: tuple[HashName, bool] | None = None
        self._use_hash(hash_name or "murmur2")
        self.keys_by_hash = keyed == "pin" and all(
            getattr(type(self), name) is getattr(Partitioner, name) for name in ("home", "keyed_partition")
        )
        """Whether a key's partition is its hash modulo the number of partitions, come what may."""
        self.note_home: Callable[[int], object] | None = None
        """Called with the home of each keyed record that is rerouted, on the producing thread. The clients of
        this library set it, to tell readers in a header."""
        self.deliveries = Deliveries(self._use_current_routes)
        """What is known from delivery reports; the clients of this library report there."""
        self._repeats: dict[tuple[int, str], int] = {}
        self._argument_routes = ArgumentRoutes(self._use_current_routes)
        self.limits = NO_LIMITS
        """What is left alone; see `limit`."""
        self._cluster: Cluster | None = None
        self._table: RoutingTable | None = None
        self._unseen: Mapping[str, Route] = {}
        self._swapping = threading.RLock()  # the garbage collector may run in there and close a producer
        self._keepers: set[weakref.ref[Keeper]] = set()
        self._routes: Mapping[str, Route] = {}  # all that a choice reads; replaced, never changed in place
        self._use_current_routes()
        _be_a_kafka_python_partitioner()

    def use_hash_of_client(self, name: HashName, *, empty_is_no_key: bool) -> None:
        """Place keys as a client does by itself; a partitioner that was given a hash keeps to that.

        Clients of this library call it before their first record.

        Raises:
            ConfigurationError: another client that shares this partitioner places them by another hash.
        """
        if not self.follows_client:
            return
        if self._client_hash not in {None, (name, empty_is_no_key)}:
            raise ConfigurationError(
                f"this partitioner places keys by {self.hash_name}, as another producer that shares it, and "
                f"this producer's settings mean {name}: give hash_name, or each producer its own partitioner"
            )
        self._client_hash = name, empty_is_no_key
        self._use_hash(name, empty_is_no_key=empty_is_no_key)

    def _use_hash(self, name: HashName, *, empty_is_no_key: bool | None = None) -> None:
        self.hash_name: HashName = name
        self.empty_is_no_key = name in EMPTY_IS_NO_KEY if empty_is_no_key is None else empty_is_no_key
        """Whether a record with an empty key counts as unkeyed; see `routing.hashing`."""
        self._hash = self._key_hash(name)

    def _key_hash(self, name: HashName) -> KeyHash:
        return key_hash(name)

    # -- choosing ------------------------------------------------------------------------------------

    def partition(
        self,
        topic: str,
        key: object,
        serialized_key: bytes | None,
        value: object,
        serialized_value: bytes | None,
        cluster: ClusterView | None,
    ) -> int:
        """Return the partition for one record.

        Args:
            topic: The record's topic.
            key: The key before serialization; not used.
            serialized_key: The key's bytes; None makes the record unkeyed, ``b""`` is a key (except with
                crc32, to which it is none, as to librdkafka).
            value: The value before serialization; not used.
            serialized_value: The value's bytes.
            cluster: The client's metadata, for a topic that is not in the table.

        Returns:
            A partition id that the client knows, or `UNASSIGNED` when neither a table nor ``cluster`` tells
            anything of the topic.

        Raises:
            ValueError: ``cluster`` is given and does not know the topic.
            PartitionOfflineError: with ``keyed="raise"`` only.
        """
        route = self._routes.get(topic) or self.route(topic, cluster)
        if route is None:
            return UNASSIGNED
        if not serialized_key and self.empty_is_no_key:
            serialized_key = None
        again = self._repeats.pop((get_ident(), topic), None) if self._repeats else None
        if again is not None and (again in route.usable_set or route.avoids(again)):
            return again
        if self.deliveries.probing and (serialized_key is None or self.ignores_keys):
            probe = self.deliveries.take_probe(topic, route)
            if probe is not None:
                return probe
        return self.choose(route, topic, serialized_key, serialized_value)

    @abstractmethod
    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        """Choose among the route's ready tuples. Called once for each record, on the producer's thread.

        Args:
            route: The topic's partitions as they are now.
            topic: The record's topic.
            key: The key's bytes, None for an unkeyed record.
            value: The value's bytes.
        """

    def on_new_batch(self, topic: str, cluster: ClusterView | None, prev_partition: int) -> None:
        """Hear from the producer that the record would open a new batch on ``prev_partition`` (KIP-480).

        kafka-python then asks `partition` a second time about the same record, on the same thread
        (KAFKA-9965: a naive round robin so reaches only every other partition). The second answer of this
        thread is the first one again. `StickyPartitioner` overrides this to move on instead.
        """
        self._repeats[get_ident(), topic] = prev_partition

    def move_on(self, topic: str, partition: int) -> None:
        """Choose another partition for the records that follow: the turn on ``partition`` is over.

        For clients that place a whole turn of records at once. A partitioner that chooses for each record
        has nothing to do.
        """

    def home(self, route: Route, key: bytes) -> int:
        """Return the partition that a key belongs to, online or not."""
        return self._hash(key, route.count)

    def keyed_partition(self, route: Route, key: bytes) -> int:
        """Return where a keyed record goes: to its home, or by the ``keyed`` policy if that is offline.

        Raises:
            PartitionOfflineError: the home is offline and the policy is ``"raise"``.
        """
        home = self.home(route, key)
        if self.keyed == "pin" or route.is_online(home):
            return home
        if self.keyed == "raise":
            raise PartitionOfflineError(
                f"partition {home} of topic {route.info.name} has no leader; the key's records wait for it"
                ' with keyed="pin" and go elsewhere with keyed="reroute"'
            )
        if self.note_home is not None:
            self.note_home(home)
        return route.usable[self._hash(key, len(route.usable))]

    # -- routes --------------------------------------------------------------------------------------

    def route(self, topic: str, cluster: ClusterView | None = None) -> Route | None:
        """Return a topic's route: of the table, or of ``cluster``, or None when neither is there.

        Raises:
            ValueError: ``cluster`` is given and does not know the topic.
        """
        if self._table is not None and (route := self._routes.get(topic)) is not None:
            return route
        if cluster is None:
            return self._unseen.get(topic)
        self._meet(cluster)
        return self._argument_routes.route(topic, cluster)

    @property
    def generation(self) -> int | None:
        """Which snapshot the table was compiled from; None without a table."""
        table = self._table
        return None if table is None else table.generation

    def adopt(self, cluster: Cluster | None) -> tuple[Event, ...]:
        """Compile the table for a snapshot; None drops it, and the ``cluster`` argument decides again.

        The poller calls this before it tells anybody of the change.
        """
        if cluster is not None:
            self._meet(cluster)
        self._cluster = cluster
        caps = self._compile_table()
        told = self.deliveries.follow(cluster, name_of(self))
        self._use_current_routes()
        return (*told, *caps)

    def limit(self, limits: Limits) -> tuple[Event, ...]:
        """Leave partitions alone from now on, until the next call; the same limits again do nothing.

        It holds for keys too: a limited topic is to them one with fewer partitions. Records that are placed
        after this has returned keep to it, those that other threads are placing may not. Thread-safe; does
        no I/O.

        Returns:
            Events that follow from it, to be emitted by the poller.
        """
        if limits == self.limits:
            return ()
        self.limits = limits
        self._unseen = unseen_routes(limits)
        self._argument_routes.limit(limits)
        caps = self._compile_table()
        self._use_current_routes()
        return caps

    def _compile_table(self) -> tuple[Event, ...]:
        """Compile the table of what is known now; return what follows for the cap.

        The poller's thread comes here with a snapshot, any other with limits. As in `_use_current_routes`,
        whoever finds that an input has changed meanwhile compiles again.
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
        return tuple(_cap_changes(name_of(self), before, table))

    def _meet(self, cluster: ClusterView) -> None:
        """Look at a cluster before routes are made of it. Must not block; any thread may come here."""

    def _use_current_routes(self) -> None:
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
                    self._routes = self._argument_routes.routes if table is None else routes
            # Looked at once more: a finalizer may have come here in between, in this very thread.
            if table is self._table and avoidance is self.deliveries.avoidance:
                break
        for reference in tuple(self._keepers):
            keeper = reference()
            if keeper is None:
                self._keepers.discard(reference)
            else:
                keeper.drop()


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


def _be_a_kafka_python_partitioner() -> None:
    # kafka-python calls anything that is not an instance of its ABC with three arguments. Its package has
    # no types and must stay optional, so this is a virtual subclass, from the moment that kafka is loaded.
    kafka = sys.modules.get("kafka.partitioner")
    if kafka is not None:
        kafka.Partitioner.register(Partitioner)
