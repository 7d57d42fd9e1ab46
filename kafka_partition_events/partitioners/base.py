"""The base of every partitioner, and the rules that hold for all of them."""

import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from threading import get_ident
from typing import ClassVar, TypedDict

from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener, name_of
from kafka_partition_events.partitioners.keys import Keys
from kafka_partition_events.partitioners.routes import ClientCluster, Routes
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.hashing import HashName, KeyHash, key_hash
from kafka_partition_events.routing.table import Route

UNASSIGNED = -1
"""What `Partitioner.partition` returns when it knows nothing of a topic: the client shall choose itself.

It is librdkafka's ``RD_KAFKA_PARTITION_UA``."""


class PartitionerOptions(TypedDict, total=False):
    """What partitioners pass on to `Partitioner`, which says what it means."""

    budget: BufferBudget | None
    hash_name: HashName | None
    key_partitions: Mapping[str, int] | None
    rng: random.Random | None


class Partitioner(PartitionChangeListener, ABC):
    """Chooses the partition of each record; subclass it and override `choose`.

    The signature of `partition` is kafka-python's, so an instance goes into
    ``KafkaProducer(partitioner=...)`` as it is, and into `PartitioningProducer` of this library.
    ``poller.register(partitioner)`` lets its routes follow the cluster; without a poller it reads the
    ``cluster`` argument.

    An instance serves one cluster, and any number of topics, producers and threads. Choosing takes no lock
    and the same time for 3 and for 10,000 partitions. A subclass that overrides a method for events
    (KIP-34) gets them on a worker thread; rerouting does not wait for it.
    """

    sticky: ClassVar[bool] = False
    """Whether unkeyed records stay on one partition until `on_new_batch` is called."""

    ignores_keys: bool = False
    """Whether keyed records are placed as if they had no key."""

    def __init__(
        self,
        *,
        budget: BufferBudget | None = None,
        hash_name: HashName | None = None,
        key_partitions: Mapping[str, int] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Make a partitioner.

        Args:
            budget: A cap on the partitions that unkeyed records go to (KIP-34); None: no cap.
            hash_name: The key hash. One topic should be written with one hash. None: that of the client whose
                records are placed: what a plain producer with the same settings uses. That is murmur2 for
                kafka-python and for a partitioner that stands alone.
            key_partitions: Over how many partitions keys are hashed, by topic: ``{"orders": 12}`` leaves
                them where they were when the topic had 12, whatever it has grown to. Unkeyed records use
                all. Keys of a topic with fewer partitions go by those that it has, which is logged once.
                None, or a topic that is not named: all partitions.
            rng: Draws partitions for records without a key; for tests.

        Raises:
            ConfigurationError: an argument is not one of its choices, or a number is not 1 or more.
        """
        by_hash = type(self).home is Partitioner.home
        self.keying = Keys(hash_name, key_partitions, self._key_hash, by_hash=by_hash)
        """How keys are placed."""
        self.routing = Routes(lambda: name_of(self), budget)
        """What is chosen from."""
        self.deliveries = self.routing.deliveries
        """What is known from delivery reports; the clients of this library report there."""
        self._rng = rng or random.Random()
        self._repeats: dict[tuple[int, str], int] = {}
        _be_a_kafka_python_partitioner()

    def _key_hash(self, name: HashName) -> KeyHash:
        return key_hash(name)

    def partition(
        self,
        topic: str,
        key: object,
        serialized_key: bytes | None,
        value: object,
        serialized_value: bytes | None,
        cluster: ClientCluster | None,
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
            A partition id that the client knows, or `UNASSIGNED` when neither a table nor ``cluster`` knows
            the topic.

        Raises:
            ValueError: ``cluster`` is given and does not know the topic.
        """
        route = self.routing.current.get(topic) or self.routing.of(topic, cluster)
        if route is None:
            return UNASSIGNED
        # Only of records without a key does kafka-python ask twice; one with a key goes where that says.
        asked = self._repeats and serialized_key is None
        again = self._repeats.pop((get_ident(), topic), None) if asked else None
        if not serialized_key and self.keying.empty_is_no_key:
            serialized_key = None
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

    def on_new_batch(self, topic: str, cluster: ClientCluster | None, prev_partition: int) -> None:
        """Hear from the producer that the record would open a new batch on ``prev_partition`` (KIP-480).

        kafka-python then asks `partition` about the same record again, on the same thread (KAFKA-9965), and
        gets the same answer. `StickyPartitioner` overrides this to move on instead.
        """
        self._repeats[get_ident(), topic] = prev_partition

    def home(self, route: Route, key: bytes) -> int:
        """Return where a keyed record goes, online or not, because its order comes first.

        What may leave it without losing that order is up to a producer's ``keys="move"``.
        """
        return self.keying.hash(key, self.keying.count(route.info.name, route.count))

    def requires_metadata(self, topic: str) -> bool:
        """Return whether a client must wait for a topic's first metadata before it places a key.

        So it is with topics in ``key_partitions``, and where a subclass has a `home` of its own.
        """
        return topic in self.keying.partitions or type(self).home is not Partitioner.home

    def route(self, topic: str, cluster: ClientCluster | None = None) -> Route | None:
        """Return a topic's route: of the snapshot, or of ``cluster``, or None when neither is there.

        Raises:
            ValueError: ``cluster`` is given and does not know the topic.
        """
        return self.routing.of(topic, cluster)

    def apply_snapshot(self, cluster: Cluster | None) -> tuple[Event, ...]:
        """Follow a snapshot, before the poller publishes it; None: the ``cluster`` argument decides again."""
        return self.routing.apply_snapshot(cluster)


def _be_a_kafka_python_partitioner() -> None:
    # kafka-python calls anything that is not an instance of its ABC with three arguments. Its package has
    # no types and must stay optional, so this is a virtual subclass, from the moment that kafka is loaded.
    kafka = sys.modules.get("kafka.partitioner")
    if kafka is not None:
        kafka.Partitioner.register(Partitioner)
