"""KIP-480: unkeyed records stick to one partition until a batch is full, then move to another."""

import random
from typing import Any

from attrs import define

from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.partitioners.argument_routes import ClusterView
from kafka_partition_events.partitioners.base import UNASSIGNED, KeyedPolicy, Partitioner
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
class Turn:
    """The partition that a topic's unkeyed records stick to, and the route that it was chosen from.

    The rest is for partitioners that end their turns themselves.
    """

    route: Route
    partition: int
    ends_at: float = 0.0
    bytes: int = 0
    records: int = 0


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
        self._turns: dict[str, Turn] = {}
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
        route = self._routes.get(topic) or self.route(topic, cluster)
        if route is None:
            return UNASSIGNED
        if serialized_key or (serialized_key is not None and not self.empty_is_no_key):
            if self.keys_by_hash:
                return self._hash(serialized_key, route.count)
            return self.keyed_partition(route, serialized_key)
        if self.deliveries.probing:
            return super().partition(topic, key, serialized_key, value, serialized_value, cluster)
        turn = self._turns.get(topic)
        if turn is not None and turn.route is route:
            return turn.partition
        return self._settle(topic, route, turn).partition

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        """Return a key's hash partition, or the one that unkeyed records stick to now."""
        if key is not None:
            return self.keyed_partition(route, key)
        turn = self._turns.get(topic)
        if turn is not None and turn.route is route:
            return turn.partition
        return self._settle(topic, route, turn).partition

    def on_new_batch(self, topic: str, cluster: ClusterView | None, prev_partition: int) -> None:
        """Move to another partition, unless another thread has moved on from ``prev_partition`` already."""
        turn = self._turns.get(topic)
        if turn is not None and turn.partition != prev_partition:
            if self.deliveries.probing:  # it may be a probe, which is asked about once more
                super().on_new_batch(topic, cluster, prev_partition)
            return
        route = self.route(topic, cluster)
        if route is not None:
            self._turns[topic] = Turn(route, self._other_than(prev_partition, route))

    def move_on(self, topic: str, partition: int) -> None:  # noqa: D102 - documented by Partitioner
        self.on_new_batch(topic, None, partition)

    def adopt(self, cluster: Cluster | None) -> tuple[Event, ...]:  # noqa: D102 - documented by Partitioner
        events = super().adopt(cluster)
        if cluster is not None:
            for topic in self._turns.keys() - cluster.by_topic.keys():
                self._turns.pop(topic, None)
        return events

    def _settle(self, topic: str, route: Route, turn: Turn | None) -> Turn:
        """Stay on the partition if the new route still has it, else choose another."""
        if turn is not None and turn.partition in route.usable_set:
            turn = Turn(route, turn.partition, bytes=turn.bytes)
        else:
            turn = Turn(route, self._rng.choice(route.usable))
        self._turns[topic] = turn
        return turn

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
