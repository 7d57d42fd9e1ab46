"""KIP-480: unkeyed records stick to one partition until a batch is full, then move to another."""

import random
from typing import Any

from attrs import define, evolve

from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.partitioners.keys import KeyedPolicy
from kafka_partition_events.partitioners.routes import ClusterView
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.hashing import HashName
from kafka_partition_events.routing.table import Route

BATCH_BYTES = 16_384
"""``batch.size`` of the Java client and of kafka-python, by default."""

_RECORD_OVERHEAD = 12


def record_bytes(key: bytes | None, value: bytes | None) -> int:
    """Return about how many bytes a record takes in a batch, uncompressed."""
    return _RECORD_OVERHEAD + len(key or b"") + len(value or b"")


@define(eq=False)
class Place:
    """Where a topic's unkeyed records go now, and the route that it was chosen from.

    One for each topic, which is dropped with it. Threads read it without a lock, so route and partition are
    never changed: another place takes its place. The rest is for partitioners that end their turns
    themselves; two threads may lose a record there, and the turn is longer by that.
    """

    route: Route
    partition: int
    bytes: int = 0
    records: int = 0
    ends_at: float = 0.0


class StickyPartitioner(Partitioner):
    """Keyed records go to their hash; unkeyed ones fill one partition's batch at a time (KIP-480).

    Fuller batches mean fewer requests and less latency. The producer says when a batch is full
    (`on_new_batch`). Unlike Kafka's own, this one also moves when its partition goes offline.
    """

    sticky = True

    def __init__(
        self,
        *,
        budget: BufferBudget | None = None,
        keyed: KeyedPolicy = "pin",
        hash_name: HashName | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Make a partitioner.

        Args:
            budget: A cap on the partitions that unkeyed records go to; None: no cap.
            keyed: What happens to a keyed record whose partition is offline; see `Partitioner`.
            hash_name: The key hash; see `Partitioner`.
            rng: Chooses the next partition; for tests.

        Raises:
            ConfigurationError: an argument is not one of its choices.
        """
        super().__init__(budget=budget, keyed=keyed, hash_name=hash_name)
        self._places: dict[str, Place] = self.routing.by_topic()
        self._rng = rng or random.Random()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep the promise that `choose` decides: a subclass that overrides it loses the short cut."""
        super().__init_subclass__(**kwargs)
        if cls.choose is not StickyPartitioner.choose and cls.partition is StickyPartitioner.partition:
            cls.partition = Partitioner.partition  # type: ignore[method-assign]

    def partition(  # noqa: D102 - documented by Partitioner
        self,
        topic: str,
        key: object,
        serialized_key: bytes | None,
        value: object,
        serialized_value: bytes | None,
        cluster: ClusterView | None,
    ) -> int:
        # `choose`, inlined: this is the hot path of most producers.
        route = self.routing.current.get(topic) or self.routing.of(topic, cluster)
        if route is None:
            return UNASSIGNED
        if serialized_key is not None and (serialized_key or not self.keying.empty_is_no_key):
            keys = self.keying
            if keys.by_hash:
                return keys.hash(serialized_key, route.count)
            return self.keyed_partition(route, serialized_key)
        if self.deliveries.probing:
            return super().partition(topic, key, serialized_key, value, serialized_value, cluster)
        place = self._places.get(topic)
        if place is not None and place.route is route:
            return place.partition
        return self._settle(topic, route, place).partition

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        """Return a key's hash partition, or the one that unkeyed records stick to now."""
        if key is not None:
            return self.keyed_partition(route, key)
        return self._place(topic, route).partition

    def on_new_batch(self, topic: str, cluster: ClusterView | None, prev_partition: int) -> None:
        """Move to another partition, unless another thread has moved on from ``prev_partition`` already."""
        if not self.move_on(topic, prev_partition, cluster) and self.deliveries.probing:
            super().on_new_batch(
                topic, cluster, prev_partition
            )  # it may be a probe: it is asked about once more

    # -- for clients that place a whole turn of records at once --------------------------------------------

    def current(self, topic: str) -> int:
        """Return where unkeyed records go until `move_on`; or a probe's partition, for one record."""
        route = self.routing.of(topic)
        if route is None:
            return UNASSIGNED
        if self.deliveries.probing and (probe := self.deliveries.take_probe(topic, route)) is not None:
            return probe
        return self._place(topic, route).partition

    def move_on(self, topic: str, partition: int, cluster: ClusterView | None = None) -> bool:
        """Choose another partition for what follows; False: the turn on ``partition`` was over already."""
        place = self._places.get(topic)
        if place is not None and place.partition != partition:
            return False
        route = self.routing.of(topic, cluster)
        if route is not None:
            self._begin(topic, route, place or Place(route, partition))
        return True

    # -- places --------------------------------------------------------------------------------------

    def _place(self, topic: str, route: Route) -> Place:
        place = self._places.get(topic)
        return place if place is not None and place.route is route else self._settle(topic, route, place)

    def _settle(self, topic: str, route: Route, place: Place | None) -> Place:
        """Stay on the partition if the new route still has it, else choose another."""
        if place is None or place.partition not in route.usable_set:
            return self._begin(topic, route, place)
        place = self._places[topic] = evolve(place, route=route)
        return place

    def _begin(self, topic: str, route: Route, place: Place | None) -> Place:
        """Choose another partition."""
        chosen = self._rng.choice(route.usable) if place is None else self._other_than(place.partition, route)
        place = self._places[topic] = Place(route, chosen)
        return place

    def _other_than(self, previous: int, route: Route) -> int:
        """Draw evenly from all usable partitions but the previous one, in constant time."""
        usable = route.usable
        if len(usable) == 1 or previous not in route.usable_set:
            return self._rng.choice(usable)
        drawn = usable[self._rng.randrange(len(usable) - 1)]
        # The last one is not drawn from; it takes the previous one's place.
        return usable[-1] if drawn == previous else drawn


class DefaultPartitioner(StickyPartitioner):
    """What Kafka's Java client does by default (2.4 to 3.2): murmur2 for keys, sticky for the rest.

    The same choice as `StickyPartitioner`, under the name that says when to use it: if you do not know
    which, use this.
    """
