"""KIP-794 and more: unkeyed records go in turns to partitions that answer, less to those that lag."""

import math
import statistics
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate, count
from typing import ClassVar, Unpack

from attrs import define, field

from kafka_partition_events.health.tracker import DeliveryTracker
from kafka_partition_events.partitioners.base import Partitioner, PartitionerOptions
from kafka_partition_events.partitioners.routes import ClientCluster
from kafka_partition_events.partitioners.sticky import BATCH_BYTES, Stay, StickyPartitioner, record_bytes
from kafka_partition_events.routing.table import Route

TURN_S = 0.025
_REBUILD_S, _REBUILD_S_PER_TOPIC, _REBUILD_S_PER_PARTITION = 0.025, 0.005, 1e-5
"""For how many seconds a topic's weights are kept: to weigh takes a few percent of the time at most."""
_LAGGING_S = 0.005
"""For how many seconds it is taken for known which brokers are behind."""
NORMAL_BACKLOG = 1.5
"""A partition is behind when it has this many times (median + one turn) of records in flight. Below that it
is noise: a distant cluster has long queues everywhere."""
LATEST_TURN = 0.2  # the weight of the latest turn beside those before: an average over about five
FLOOR = 20
"""The best partition gets at most this many times what the worst gets: nothing starves."""
_GOLDEN = 0.6180339887498949


def adaptive_weights(queues: Sequence[int]) -> list[int]:
    """Return KIP-794's weights: the longest queue gets 1, and each one less in the queue one more.

    Unlike there, the longest queue gets a twentieth of the best weight at least.
    """
    best = max(queues) + 1
    least = -(-best // FLOOR)
    return [max(least, best - queue) for queue in queues]


@define(eq=False)
class TopicPace:
    """How many records of a topic are tracked in one turn, and how many turns partitions are behind."""

    _began_at: int = 0  # how many of the topic had been tracked when the latest turn began
    _turns: int = 0
    _average: float = 0.0

    def per_turn(self, tracked: int) -> float:
        """Return how many there are lately, on average."""
        return max(1.0, self._average if self._turns > 1 else tracked - self._began_at)

    def turn_began(self, tracked: int) -> None:
        """Take the turn that is over into account, given how many of the topic have been tracked in all."""
        if self._turns:
            latest = tracked - self._began_at
            self._average += max(LATEST_TURN, 1 / self._turns) * (latest - self._average)
        self._turns += 1
        self._began_at = tracked

    def backlogs(self, tracker: DeliveryTracker, topic: str, partitions: Collection[int]) -> list[int]:
        """Return, for each partition, how many turns of records wait there beyond what is usual.

        In turns (the records of the topic that are tracked in one, lately), because 100 records and 101 are
        the same and 1 turn and 2 are not. `NORMAL_BACKLOG` says what is usual.
        """
        per_turn = self.per_turn(tracker.tracked(topic))
        waiting = tracker.waiting(topic, partitions)
        usual = NORMAL_BACKLOG * (per_turn + statistics.median_low(waiting))
        return [math.ceil(max(0.0, outstanding - usual) / per_turn) for outstanding in waiting]


@define(eq=False)
class Wheel:
    """A topic's partitions with their exact shares of each round, and how far it has turned.

    Step n is at ``n * stride`` modulo the sum of the weights, and the stride has no divisor in common with
    that: so a round visits each point once. It is near the golden section, which spreads a partition's points
    evenly. A drawn number (KIP-794) would have the proportions on average only.
    """

    route: Route | None  # that it was made from
    places: Sequence[int]
    weights: Sequence[int]  # 1 at least
    made_at: float
    steps: Iterator[int]
    _ends: list[int] = field(init=False)
    _stride: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Lay the weights out in a row."""
        self._ends = list(accumulate(self.weights))
        total = self._ends[-1]
        near = count(max(1, round(total * _GOLDEN)))
        self._stride = next(stride for stride in near if math.gcd(stride, total) == 1)

    def next(self) -> int:
        """Return the partition of the next step; threads take each step once. O(log n)."""
        return self.places[bisect_right(self._ends, next(self.steps) * self._stride % self._ends[-1])]


class AdaptivePartitioner(StickyPartitioner):
    """Keyed records go to their hash; unkeyed ones go in turns to the partitions that answer best.

    A turn ends after ``turn_bytes`` or 25 ms (``linger.ms`` if that is longer), or as soon as its partition
    can't be used any more. The next partition is chosen in exact proportion to weights: the same for all as
    long as none is behind the others, KIP-794's for the number of turns that one is behind otherwise. No
    weight is zero; a broker whose oldest record waits for too long gets no turn until that is answered.

    Differs from Kafka's own (KIP-794): it moves at once when a partition becomes unusable, it sees a broker
    that is dead or slow before metadata does, and it has the proportions exactly and not on average.
    """

    turn_bytes: ClassVar[int] = BATCH_BYTES
    """How many bytes of unkeyed records go to one partition in a row: what fills a batch. On confluent-kafka
    turns go by time; see `PartitioningProducer`."""

    def __init__(
        self,
        *,
        ignore_keys: bool = False,
        rack: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: Unpack[PartitionerOptions],
    ) -> None:
        """Make a partitioner.

        Args:
            ignore_keys: Whether keyed records are placed as if they had no key
                (``partitioner.ignore.keys``). Records of one key then lose their order.
            rack: Partitions that are led in this rack are preferred, if there are any (KIP-1123).
            clock: Monotonic seconds; for tests.
            **options: Those of `Partitioner`.

        Raises:
            ConfigurationError: an argument is not one of its choices.
        """
        super().__init__(**options)
        self.ignores_keys = ignore_keys
        self.rack = rack
        self._clock = clock
        self._wheels: dict[str, Wheel] = self.routing.by_topic()
        self._paces: dict[str, TopicPace] = self.routing.by_topic()
        self._lagging: frozenset[int] = frozenset()
        self._lagging_at = -math.inf

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        """Return a key's hash partition, or the partition whose turn it is."""
        if key is not None and not self.ignores_keys:
            return self.home(route, key)
        place = self._places.get(topic)
        if place is None or place.route is not route:
            place = self._settle(topic, route, place)
        if place.bytes >= self.turn_bytes or self._clock() >= place.ends_at:
            place = self._begin(topic, route, place)
        place.bytes += record_bytes(key, value)
        return place.partition

    def on_new_batch(self, topic: str, cluster: ClientCluster | None, prev_partition: int) -> None:
        """Keep the partition: the client asks about the same record again, and the turn is not over."""
        Partitioner.on_new_batch(self, topic, cluster, prev_partition)

    def _begin(self, topic: str, route: Route, _place: Stay | None) -> Stay:
        now = self._clock()
        partition = self._next(route, topic, now)
        self._paces.setdefault(topic, TopicPace()).turn_began(self.deliveries.tracked(topic))
        ends_at = now + max(TURN_S, self.deliveries.linger)
        place = self._places[topic] = Stay(route, partition, ends_at=ends_at)
        return place

    def _next(self, route: Route, topic: str, now: float) -> int:
        wheel = self._wheels.get(topic)
        of_topics, of_partitions = _REBUILD_S_PER_TOPIC * len(self._wheels), _REBUILD_S_PER_PARTITION
        kept_s = max(_REBUILD_S, of_topics, of_partitions * len(route.usable))
        if wheel is None or wheel.route is not route or now - wheel.made_at >= kept_s:
            places: Sequence[int] = route.usable
            racks = self.routing.racks
            if self.rack is not None:
                places = tuple(p for p in places if racks.get(route.leader(p)) == self.rack) or places
            turns: defaultdict[int | None, count[int]] = defaultdict(count)
            places = sorted(places, key=lambda p: (next(turns[route.leader(p)]), p))  # brokers take turns
            pace = self._paces.setdefault(topic, TopicPace())
            weights = adaptive_weights(pace.backlogs(self.deliveries, topic, places))
            steps = count(self._rng.randrange(len(places))) if wheel is None else wheel.steps
            wheel = self._wheels[topic] = Wheel(route, places, weights, now, steps)
        if now - self._lagging_at >= _LAGGING_S:
            self._lagging, self._lagging_at = self.deliveries.lagging(), now
        lagging = self._lagging
        if lagging and all(route.leader(p) in lagging for p in route.usable):
            lagging = frozenset()  # a search would go round once, and end where it began
        for _ in range(len(route.usable) if lagging else 1):
            partition = wheel.next()
            if route.leader(partition) not in lagging:
                break
        return partition
