"""KIP-794 and more: unkeyed records go in turns to partitions that answer, less to those that lag."""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from types import MappingProxyType

from attrs import define, frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.partitioners.keys import KeyedPolicy
from kafka_partition_events.partitioners.routes import ClusterView
from kafka_partition_events.partitioners.sticky import BATCH_BYTES, Place, StickyPartitioner, record_bytes
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.hashing import HashName
from kafka_partition_events.routing.table import Route
from kafka_partition_events.routing.wheel import Wheel, adaptive_weights, make_wheel

TURN_S = 0.025
_REBUILD_S = 0.025
_REBUILD_S_PER_PARTITION = 1e-5


@frozen(kw_only=True)
class TurnStats:
    """How an `AdaptivePartitioner` has been moving.

    Attributes:
        turns: Turns begun.
        switches: Those of them that went to another partition than the one before.
        forced: Those that began because the partition had gone offline, out of the cap, or to a suspect.
        records: Unkeyed records that the partitioner was asked about one by one, as kafka-python asks, by
            partition. Turns that are not over are missing.
    """

    turns: int = 0
    switches: int = 0
    forced: int = 0
    records: Mapping[TopicPartition, int] = MappingProxyType({})


@define(eq=False)
class _Spin:
    """A topic's wheel, the route that it was made from, and how far it has turned."""

    route: Route
    wheel: Wheel
    made_at: float
    steps: "count[int]"


class AdaptivePartitioner(StickyPartitioner):
    """Keyed records go to their hash; unkeyed ones go in turns to the partitions that answer best.

    A turn ends after ``turn_bytes`` or 25 ms (``linger.ms`` if that is longer), or as soon as its partition
    can't be used any more. The next partition is chosen in exact proportion to weights: the same for all as
    long as none is behind the others, KIP-794's for the number of turns that one is behind otherwise. No
    weight is zero; a broker whose oldest record waits for too long gets no turn until that is answered, and
    brokers that fall silent are excluded and probed by the base class: nothing starves.

    Differs from Kafka's own (KIP-794): it moves at once when a partition becomes unusable, it sees a broker
    that is dead or slow before metadata does, and it has the proportions exactly and not on average.
    """

    def __init__(
        self,
        *,
        budget: BufferBudget | None = None,
        keyed: KeyedPolicy = "pin",
        hash_name: HashName | None = None,
        ignore_keys: bool = False,
        rack: str | None = None,
        turn_bytes: int = BATCH_BYTES,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a partitioner.

        Args:
            budget: A cap on the partitions that unkeyed records go to; None: no cap.
            keyed: What happens to a keyed record whose partition is offline; see `Partitioner`.
            hash_name: The key hash; see `Partitioner`.
            ignore_keys: Whether keyed records are placed as if they had no key
                (``partitioner.ignore.keys``). Records of one key then lose their order.
            rack: Partitions that are led in this rack are preferred, if there are any (KIP-1123).
            turn_bytes: How many bytes of unkeyed records go to one partition in a row. On confluent-kafka
                turns go by time; see `PartitioningProducer`.
            rng: Chooses where to begin; for tests.
            clock: Monotonic seconds; for tests.

        Raises:
            ConfigurationError: an argument is not one of its choices.
        """
        if turn_bytes < 1:
            raise ConfigurationError(f"turn_bytes must be at least 1, not {turn_bytes}")
        super().__init__(budget=budget, keyed=keyed, hash_name=hash_name, rng=rng)
        self.ignores_keys = ignore_keys
        self.rack = rack
        self.turn_bytes = turn_bytes
        self._clock = clock
        self._spins: dict[str, _Spin] = self.routing.by_topic()
        self._began = 0
        self._switched = 0
        self._forced = 0
        self._records: Counter[TopicPartition] = Counter()

    @property
    def turn_stats(self) -> TurnStats:
        """How the partitioner has been moving."""
        return TurnStats(
            turns=self._began,
            switches=self._switched,
            forced=self._forced,
            records=MappingProxyType(dict(self._records)),
        )

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        """Return a key's hash partition, or the partition whose turn it is."""
        if key is not None and not self.ignores_keys:
            return self.keyed_partition(route, key)
        place = self._places.get(topic)
        if place is None or place.route is not route:
            place = self._settle(topic, route, place)
        if place.bytes >= self.turn_bytes or self._clock() >= place.ends_at:
            place = self._begin(topic, route, place)
        place.records += 1
        place.bytes += record_bytes(key, value)
        return place.partition

    def on_new_batch(self, topic: str, cluster: ClusterView | None, prev_partition: int) -> None:
        """Keep the partition: the client asks about the same record again, and the turn is not over.

        A new batch for each turn on a partition is what a turn is for; moving on would make small batches,
        and with a slow broker it would pile them up there: its batch is the one that is still open.
        """
        Partitioner.on_new_batch(self, topic, cluster, prev_partition)

    # -- turns ---------------------------------------------------------------------------------------

    def _settle(self, topic: str, route: Route, place: Place | None) -> Place:
        self._forced += place is not None and place.partition not in route.usable_set
        return super()._settle(topic, route, place)

    def _begin(self, topic: str, route: Route, place: Place | None) -> Place:
        now = self._clock()
        partition = self._next(route, topic, now)
        self._began += 1
        self.deliveries.turn_began(topic)
        if place is not None:
            self._switched += place.partition != partition
            if place.records:
                self._records[TopicPartition(topic, place.partition)] += place.records
        ends_at = now + max(TURN_S, self.deliveries.linger)
        place = self._places[topic] = Place(route, partition, ends_at=ends_at)
        return place

    def _next(self, route: Route, topic: str, now: float) -> int:
        spin = self._spins.get(topic)
        if spin is None or spin.route is not route or now - spin.made_at >= _rebuild_after(route):
            places = self._interleaved(route)
            wheel = make_wheel(places, adaptive_weights(self.deliveries.backlogs(topic, places)))
            steps = count(self._rng.randrange(len(places))) if spin is None else spin.steps
            spin = self._spins[topic] = _Spin(route, wheel, now, steps)
        lagging = self.deliveries.lagging()
        for _ in range(len(route.usable) if lagging else 1):
            partition = spin.wheel.at(next(spin.steps))
            if route.leader(partition) not in lagging:
                break
        return partition

    def _interleaved(self, route: Route) -> list[int]:
        """Return the partitions to choose among, with the brokers interleaved."""
        places = route.usable
        if self.rack is not None:
            near = [p for p in places if self._rack_of(route.leader(p)) == self.rack]
            places = tuple(near) or places
        seen: dict[int | None, int] = {}
        order = []
        for partition in places:
            leader = route.leader(partition)
            seen[leader] = rank = seen.get(leader, -1) + 1
            order.append((rank, partition))
        return [partition for _rank, partition in sorted(order)]

    def _rack_of(self, broker: int | None) -> str | None:
        return None if broker is None else self.routing.racks.get(broker)


def _rebuild_after(route: Route) -> float:
    """Return for how many seconds weights are kept: looking at them takes 1% of the time at most."""
    return max(_REBUILD_S, _REBUILD_S_PER_PARTITION * len(route.usable))
