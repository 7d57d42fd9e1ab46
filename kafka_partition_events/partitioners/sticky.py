"""KIP-480: records stick to one partition until a batch is full, then move to another."""

from typing import Any, ClassVar, Unpack

from attrs import define, evolve

from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner, PartitionerOptions
from kafka_partition_events.partitioners.routes import ClientCluster
from kafka_partition_events.routing.table import Route

BATCH_BYTES = 16_384
"""``batch.size`` of the Java client and of kafka-python, by default."""

_RECORD_OVERHEAD = 12


def record_bytes(key: bytes | None, value: bytes | None) -> int:
    """Return about how many bytes a record takes in a batch, uncompressed."""
    return _RECORD_OVERHEAD + len(key or b"") + len(value or b"")


@define(eq=False)
class Stay:
    """Where a topic's unkeyed records go now, and the route that it was chosen from.

    Threads read it without a lock, so route and partition are never changed: another place takes its place.
    The rest is for partitioners that end turns themselves; two threads may lose a record there.
    """

    route: Route
    partition: int
    bytes: int = 0
    ends_at: float = 0.0


class StickyPartitioner(Partitioner):
    """Keyed records go to their hash; unkeyed ones fill one partition's batch at a time (KIP-480).

    Fuller batches mean fewer requests and less latency. The producer says when a batch is full
    (`on_new_batch`). Unlike Kafka's own, this one also moves when its partition goes offline.
    """

    sticky = True

    def __init__(self, **options: Unpack[PartitionerOptions]) -> None:
        """Make a partitioner with the options of `Partitioner`."""
        super().__init__(**options)
        self._places: dict[str, Stay] = self.routing.by_topic()
        self._stuck_to: dict[str, int] = {}  # what follows from `_places`, see `_remember`
        self.routing.on_renewed(self.drop)

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
        cluster: ClientCluster | None,
    ) -> int:
        # The hot path of most producers: one dictionary that knows the answer, where nothing is special.
        if serialized_key:  # an empty one may be none
            hashed = self.keying.over_all
            if hashed is not None:
                try:
                    return hashed(serialized_key, self.routing.current[topic].count)
                except (KeyError, TypeError):  # an unknown topic; a bytearray or a memoryview
                    pass
        elif serialized_key is None and not self.deliveries.probing:
            try:
                return self._stuck_to[topic]
            except KeyError:
                self._remember(topic)
        return super().partition(topic, key, serialized_key, value, serialized_value, cluster)

    def _remember(self, topic: str) -> None:
        """Note for the next records where those without a key stick to, if the snapshot says so.

        Another thread may move the topic on, or swap the routes: it first does so, then drops what is here.
        If it did both since we read, it will not drop what we have put here; but we see the change now.
        """
        place, stuck_to = self._places.get(topic), self._stuck_to
        if place is not None and self.routing.current.get(topic) is place.route:
            stuck_to[topic] = place.partition
            if self._places.get(topic) is not place or self.routing.current.get(topic) is not place.route:
                stuck_to.pop(topic, None)

    def drop(self) -> None:
        """Let the next record of each topic ask again: there are new routes."""
        self._stuck_to = {}

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        """Return a key's hash partition, or the one that unkeyed records stick to now."""
        if key is not None:
            return self.home(route, key)
        return self._place(topic, route).partition

    def on_new_batch(self, topic: str, cluster: ClientCluster | None, prev_partition: int) -> None:
        """Move to another partition, unless another thread has moved on from ``prev_partition`` already."""
        if not self.move_on(topic, prev_partition, cluster) and self.deliveries.probing:
            super().on_new_batch(topic, cluster, prev_partition)  # it may be a probe: it is asked about again

    def current(self, topic: str) -> int:
        """Return where unkeyed records go until `move_on`; or a probe's partition, for one record."""
        route = self.routing.of(topic)
        if route is None:
            return UNASSIGNED
        if self.deliveries.probing and (probe := self.deliveries.take_probe(topic, route)) is not None:
            return probe
        return self._place(topic, route).partition

    def move_on(self, topic: str, partition: int, cluster: ClientCluster | None = None) -> bool:
        """Choose another partition for what follows; False: the turn on ``partition`` was over already."""
        place = self._places.get(topic)
        if place is not None and place.partition != partition:
            return False
        route = self.routing.of(topic, cluster)
        if route is not None:
            self._begin(topic, route, place or Stay(route, partition))
        return True

    def _place(self, topic: str, route: Route) -> Stay:
        place = self._places.get(topic)
        return place if place is not None and place.route is route else self._settle(topic, route, place)

    def _settle(self, topic: str, route: Route, place: Stay | None) -> Stay:
        """Stay on the partition if the new route still has it, else choose another."""
        if place is None or place.partition not in route.usable_set:
            return self._begin(topic, route, place)
        place = self._places[topic] = evolve(place, route=route)
        return place

    def _begin(self, topic: str, route: Route, place: Stay | None) -> Stay:
        """Choose another partition."""
        chosen = self._rng.choice(route.usable) if place is None else self._other_than(place.partition, route)
        place = self._places[topic] = Stay(route, chosen)
        self._stuck_to.pop(topic, None)
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
    """What Kafka's Java client does by default (2.4 to 3.2): the hash for keys, sticky for the rest.

    The hash is murmur2, with confluent-kafka that of its ``partitioner`` setting. The same choice as
    `StickyPartitioner`.
    """


class UniformStickyPartitioner(StickyPartitioner):
    """Keys are ignored: all records stick to one partition until a batch is full (KIP-480).

    For applications that use keys for something else than placing records: those of one key lose their order.
    A budget also caps keyed records. By ``hash_name`` confluent-kafka places records of an unknown topic.

    kafka-python says when an unkeyed record finds the batch full, and never says so of keyed ones: these
    move on after ``turn_bytes``, which are counted here. On confluent-kafka turns go by time instead, see
    `PartitioningProducer`. Unlike Kafka's own, it also moves when its partition goes offline.
    """

    ignores_keys = True

    turn_bytes: ClassVar[int] = BATCH_BYTES
    """How many bytes go to one partition in a row, the last of them of a keyed record: what fills a batch."""

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        """Return the partition that all records stick to now."""
        place = self._place(topic, route)
        # An unkeyed record that moved on here would open a batch, so kafka-python would have it move once
        # more: of two partitions back to where it was, and the other one would get nothing (KAFKA-9965).
        if key is not None and place.bytes >= self.turn_bytes:
            place = self._begin(topic, route, place)
        place.bytes += record_bytes(key, value)
        return place.partition
